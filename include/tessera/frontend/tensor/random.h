// SPDX-License-Identifier: Apache-2.0
// Random numbers from an explicit key, as in JAX. The numbers depend only on the key and on the position of the element
// in the global tensor, so every mesh draws the same ones. A key gives the same numbers each time, so create a new key
// for each use. In the function of a loop or of vmap, the key depends on the round or on the example only if a number
// of the round or the example, as a tensor, is passed to fold_in().
//
//   Key key(42);
//   for (int step = 0; step < steps; ++step) {
//     const auto keys = key.fold_in(step).split(2);
//     const Tensor noise = randn(keys[0], {batch, features});
//     const Tensor mask = bernoulli(keys[1], 0.9, {batch, 1});
//   }
//
// A key is an input of the program, so a new key needs no new compilation. Pass words() of a key to a compiled function
// as an argument. Otherwise, the function always draws from the key of its first call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// A key of random numbers. Copies are the same key.
class Key {
 public:
  explicit Key(std::uint64_t seed);
  /// The key with these words: u32[2].
  explicit Key(Tensor words);
  /// `count` new keys, each independent of the others and of this key.
  [[nodiscard]] std::vector<Key> split(int count = 2) const;
  /// A new key for a number, such as that of a step. Different numbers give different keys. 0 <= number < 2^32.
  [[nodiscard]] Key fold_in(std::int64_t number) const;
  /// The same for a scalar of an integer type that the program computes.
  [[nodiscard]] Key fold_in(const Tensor& number) const;
  [[nodiscard]] const Tensor& words() const { return words_; }

 private:
  using Words = std::array<std::uint32_t, 2>;
  explicit Key(Words words);
  Tensor words_;
  std::optional<Words> known_;  // unless the program computes the words
};

/// Uniform in [0, 1).
Tensor rand(const Key& key, const Shape& shape, DType dtype = kF32,
            std::source_location where = std::source_location::current());
/// Normal with mean 0 and variance 1.
Tensor randn(const Key& key, const Shape& shape, DType dtype = kF32,
             std::source_location where = std::source_location::current());
/// Uniform integers in [low, high). The range has at most 2^32 numbers.
Tensor randint(const Key& key, std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = kS32,
               std::source_location where = std::source_location::current());
/// The same with the shape and the element type of `like`.
Tensor rand_like(const Key& key, const Tensor& like, std::source_location where = std::source_location::current());
Tensor randn_like(const Key& key, const Tensor& like, std::source_location where = std::source_location::current());
Tensor randint_like(const Key& key, const Tensor& like, std::int64_t low, std::int64_t high,
                    std::source_location where = std::source_location::current());
/// x with elements set to 0 with probability p, and the others divided by 1 - p. 0 <= p < 1.
Tensor dropout(const Key& key, Operand x, double p);
/// Numbers of the Gumbel distribution: -log(-log(u)).
Tensor gumbel(const Key& key, const Shape& shape, DType dtype = kF32,
              std::source_location where = std::source_location::current());
/// pred: true with probability `p`.
Tensor bernoulli(const Key& key, double p, const Shape& shape,
                 std::source_location where = std::source_location::current());
/// pred: element i is true with probability p[i].
Tensor bernoulli(const Key& key, Operand p);
/// Positions along `dim`, drawn with probabilities softmax(logits), as s32. The result has the other dims.
Tensor categorical(const Key& key, Operand logits, int dim = -1);
struct MultinomialOptions {
  bool replacement = false;
};
/// weights[.., classes] -> s32[.., count]: positions drawn with probabilities in proportion to the weights, which are
/// not negative. Without replacement all positions differ, and `count` is at most the number of weights that are not 0.
/// Only the devices know the weights, so wrong weights are no error: without replacement, positions of weight 0 follow
/// if there are too few others, and a row with a negative weight or NaN, or only with zeros, has positions without
/// meaning.
Tensor multinomial(const Key& key, Operand weights, std::int64_t count, MultinomialOptions options = {});
/// A random order of 0..count-1, s32.
Tensor randperm(const Key& key, std::int64_t count, std::source_location where = std::source_location::current());

}  // namespace tessera
