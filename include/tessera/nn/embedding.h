// SPDX-License-Identifier: Apache-2.0
// Lookup tables.
//
//   nn::EmbeddingBag bags(1000, 16, {.mode = nn::BagMode::kSum});
//   bags(ids)                          ids [bags, length]
//   bags(ids, offsets)                 ids [n], offsets [bags]
//   bags(ids, Tensor(), weights)       weights [bags, length]
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/nn/module.h"

namespace tessera::nn {

/// Rows of a table [count, width], from normal(0, standard_deviation).
class Embedding : public Callable<Embedding> {
 public:
  struct Options {
    /// This row starts as zeros and gets no gradient, as in PyTorch. Negative numbers count from the end.
    std::optional<std::int64_t> padding_idx{};
    double standard_deviation = 1.0;
    DType dtype = DType::kF32;
  };
  Embedding(std::int64_t count, std::int64_t width, const Options& options);
  Embedding(std::int64_t count, std::int64_t width, double standard_deviation = 1.0, DType dtype = DType::kF32)
      : Embedding(count, width, Options{.standard_deviation = standard_deviation, .dtype = dtype}) {}
  /// Integers [...] -> [..., width]. Error for ids out of range, if they are known on the host.
  Tensor forward(const Tensor& ids);
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] std::optional<std::int64_t> padding_idx() const { return padding_idx_; }
  [[nodiscard]] std::string_view class_name() const override { return "Embedding"; }

 private:
  std::optional<std::int64_t> padding_idx_;
  Tensor weight_;
};

/// How EmbeddingBag reduces the rows of a bag.
enum class BagMode : std::uint8_t { kSum, kMean, kMax };

/// Sums, means or maxima of rows of a table [count, width], from normal(0, standard_deviation). The result of a bag
/// without rows is 0.
class EmbeddingBag : public Callable<EmbeddingBag> {
 public:
  struct Options {
    BagMode mode = BagMode::kMean;
    /// Ids that do not count. Their row starts as zeros and gets no gradient. Negative numbers count from the end.
    std::optional<std::int64_t> padding_idx{};
    /// The last offset is the end of the last bag, as in the CSR format.
    bool include_last_offset = false;
    double standard_deviation = 1.0;
    DType dtype = DType::kF32;
  };
  EmbeddingBag(std::int64_t count, std::int64_t width) : EmbeddingBag(count, width, Options()) {}
  EmbeddingBag(std::int64_t count, std::int64_t width, const Options& options);
  /// Ids [bags, length], without offsets: each row is a bag. Or ids [n] and offsets [bags], the positions at which the
  /// bags begin: the first one is 0, none is less than the one before it, or above n. With include_last_offset, ids from
  /// the last offset on do not count. The weights, for kSum, are factors of the rows and have the shape of the ids.
  /// -> [bags, width]. Error for ids and offsets that do not keep to this, if the host has passed them. Those that a
  /// program computes are not checked, because that would need a read. Of offsets that are sharded, the order is not
  /// checked.
  Tensor forward(const Tensor& ids, const Tensor& offsets = {}, const Tensor& per_sample_weights = {});
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] std::string_view class_name() const override { return "EmbeddingBag"; }

 private:
  Options options_;
  Tensor weight_;
};

/// Adds noise to the result [b, t, d] of every call in training, uniform in [-a, a) with a = alpha / sqrt(t d)
/// (NEFTune; Jain et al., 2024). The noise does not depend on the mesh. Ends when the hook is removed. Error if alpha
/// is negative or not finite.
HookHandle add_embedding_noise(Embedding& embedding, double alpha);

}  // namespace tessera::nn
