// SPDX-License-Identifier: Apache-2.0
// A key is the key and a half of the counter of Philox 2x32-10; the position of an element is the other half
// (ops::random_bits). New keys are blocks of the same generator with other keys.
#include "tessera/frontend/tensor/random.h"

#include <array>
#include <cmath>
#include <numbers>

#include "tensor/number_types.h"
#include "tessera/frontend/tensor/pointwise.h"
#include "tessera/frontend/tensor/reductions.h"
#include "tessera/frontend/tensor/sorting.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

using Words = std::array<std::uint32_t, 2>;

constexpr std::uint64_t kPhiloxMultiplier = 0xD256D193U;
constexpr std::uint32_t kPhiloxStep = 0x9E3779B9U;
constexpr int kPhiloxRounds = 10;
// Different uses of a key change its first word.
constexpr std::uint32_t kSplitMark = 0x53504C54U;
constexpr std::uint32_t kFoldMark = 0x464F4C44U;

Words philox_block(Words counter, std::uint32_t key) {
  for (int round = 0; round < kPhiloxRounds; ++round, key += kPhiloxStep) {
    const std::uint64_t wide = kPhiloxMultiplier * counter[0];
    counter = {static_cast<std::uint32_t>(wide >> 32) ^ counter[1] ^ key, static_cast<std::uint32_t>(wide)};
  }
  return counter;
}

Value u32_full(Builder& builder, const Dims& dims, std::uint32_t value) {
  return ops::splat(ops::constant(builder, Literal::scalar(value)), dims);
}
Value key_word(Value key, std::int64_t i) { return ops::reshape(ops::slice_dim(key, 0, i, i + 1), {}); }

// philox_block of every counter (low[i], second word of the key): u32[n, 2].
Value philox_blocks(Value key, Value low, std::uint32_t mark) {
  Builder& builder = *key.builder;
  const Dims dims = low.type().dims();
  const Value multiplier = ops::splat(ops::constant(builder, Literal::scalar(kPhiloxMultiplier)), dims);
  const Value half = ops::splat(ops::constant(builder, Literal::scalar(std::uint64_t{32})), dims);
  Value round_key = ops::logical_xor(ops::splat(key_word(key, 0), dims), u32_full(builder, dims, mark));
  Value high = ops::splat(key_word(key, 1), dims);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    if (round > 0) round_key = ops::add(round_key, u32_full(builder, dims, kPhiloxStep));
    const Value wide = ops::multiply(ops::convert(low, DType::kU64), multiplier);
    low = ops::logical_xor(ops::convert(ops::shift_right_logical(wide, half), DType::kU32),
                           ops::logical_xor(high, round_key));
    high = ops::convert(wide, DType::kU32);
  }
  const Dims column{dims[0], 1};
  return ops::concatenate({ops::reshape(low, column), ops::reshape(high, column)}, 1);
}

}  // namespace

// ---- keys ---------------------------------------------------------------------------------------------------------------

Key::Key(Words words) : words_(Tensor::from(words, {2})), known_(words) {}

Key::Key(std::uint64_t seed) : Key(Words{static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)}) {}

Key::Key(Tensor words) : words_(std::move(words)) {
  require(words_.type() == Type::array(DType::kU32, {2}), "Key: the words of a key are u32[2], got {}", words_.type());
}

std::vector<Key> Key::split(int count) const {
  require(count > 0, "split: needs a positive number of keys, got {}", count);
  std::vector<Key> out;
  for (int i = 0; known_ && i < count; ++i)
    out.push_back(Key(philox_block({static_cast<std::uint32_t>(i), (*known_)[1]}, (*known_)[0] ^ kSplitMark)));
  if (known_) return out;
  const Tensor rows = recorded("split", words_, [&](Value key) {
    return philox_blocks(key, ops::iota(*key.builder, Type::array(DType::kU32, {count}), 0), kSplitMark);
  });
  for (int i = 0; i < count; ++i) out.emplace_back(rows.select(0, i));
  return out;
}

Key Key::fold_in(std::int64_t number) const {
  require(number >= 0 && number < (std::int64_t{1} << 32), "fold_in: the number must be in [0, 2^32), got {}", number);
  const auto low = static_cast<std::uint32_t>(number);
  if (known_) return Key(philox_block({low, (*known_)[1]}, (*known_)[0] ^ kFoldMark));
  return fold_in(Tensor::from_host(Literal::scalar(low)));
}

Key Key::fold_in(const Tensor& number) const {
  return Key(recorded("fold_in", words_, number, [&](Value key, Value data) {
    require(is_integer(data.type().dtype()) && data.type().ndim() == 0, "the number must be a scalar integer, got {}",
            data.type());
    const Value low = ops::reshape(narrowed(data, DType::kU32), {1});
    return ops::reshape(philox_blocks(key, low, kFoldMark), {2});
  }));
}

// ---- distributions ------------------------------------------------------------------------------------------------------

namespace {

template <class F>
Tensor drawn(std::string_view name, const Key& key, const std::source_location& where, F&& emit) {
  return recorded(name, Operand(key.words(), where), emit);
}

void require_float_type(DType dtype) {
  require(is_float(dtype), "needs a float element type, got {}", dtype_name(dtype));
}

DType drawing_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

// The Box-Muller transform of the two halves of a uniform field.
Value normal_field(Value key, const Dims& dims, DType dtype) {
  Dims pairs = dims;
  pairs.insert(pairs.begin(), 2);
  const Value uniform = ops::random_uniform(key, pairs, drawing_type(dtype));
  const auto half = [&](std::int64_t i) { return ops::reshape(ops::slice_dim(uniform, 0, i, i + 1), dims); };
  const Value u = half(0);
  const Value v = half(1);
  const Value logarithm = ops::log(ops::subtract(constant_like(u, 1), u));  // 1 - u is exact and not 0
  const Value radius = ops::sqrt(ops::multiply(logarithm, constant_like(u, -2)));
  const Value angle = ops::cos(ops::multiply(v, constant_like(v, 2 * std::numbers::pi)));
  return narrowed(ops::multiply(radius, angle), dtype);
}

// 23 bits in the middle of their intervals, so that u is in (0, 1) in f32 as well.
Value gumbel_field(Value key, const Dims& dims, DType dtype) {
  const DType wide = drawing_type(dtype);
  Builder& builder = *key.builder;
  const Value bits = ops::shift_right_logical(ops::random_bits(key, dims), u32_full(builder, dims, 9));
  const Value centered = ops::convert(bits, wide);
  const Value u = ops::multiply(ops::add(centered, constant_like(centered, 0.5)), constant_like(centered, 0x1p-23));
  return narrowed(ops::negate(ops::log(ops::negate(ops::log(u)))), dtype);
}

}  // namespace

Tensor rand(const Key& key, const Shape& shape, DType dtype, std::source_location where) {
  return drawn("rand", key, where, [&](Value k) {
    require_float_type(dtype);
    return ops::random_uniform(k, shape, dtype);
  });
}

Tensor randn(const Key& key, const Shape& shape, DType dtype, std::source_location where) {
  return drawn("randn", key, where, [&](Value k) {
    require_float_type(dtype);
    return normal_field(k, shape, dtype);
  });
}

Tensor rand_like(const Key& key, const Tensor& like, std::source_location where) {
  return rand(key, like.dims(), like.dtype(), where);
}
Tensor randn_like(const Key& key, const Tensor& like, std::source_location where) {
  return randn(key, like.dims(), like.dtype(), where);
}
Tensor randint_like(const Key& key, const Tensor& like, std::int64_t low, std::int64_t high,
                    std::source_location where) {
  return randint(key, low, high, like.dims(), like.dtype(), where);
}

Tensor dropout(const Key& key, Operand x, double p) {
  return recorded("dropout", x, Operand(key.words(), x.where()), [&](Value v, Value k) {
    require(p >= 0 && p < 1, "the probability must be in [0, 1), got {}", p);
    const Value uniform = ops::random_uniform(k, v.type().dims(), DType::kF32);
    const Value keep = ops::compare(uniform, constant_like(uniform, p), CompareDirection::kGe);
    return ops::select(keep, ops::multiply(v, constant_like(v, 1 / (1 - p))), constant_like(v, 0));
  });
}

Tensor gumbel(const Key& key, const Shape& shape, DType dtype, std::source_location where) {
  return drawn("gumbel", key, where, [&](Value k) {
    require_float_type(dtype);
    return gumbel_field(k, shape, dtype);
  });
}

Tensor randint(const Key& key, std::int64_t low, std::int64_t high, const Shape& shape, DType dtype,
               std::source_location where) {
  return drawn("randint", key, where, [&](Value k) {
    require(is_integer(dtype), "needs an integer element type, got {}", dtype_name(dtype));
    const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    require(low < high && range <= std::uint64_t{1} << 32, "the interval [{}, {}) must contain 1 to 2^32 numbers", low,
            high);
    if (dtype != DType::kS64) {  // which has all of them
      const Type type = Type::array(dtype, shape);
      for (const std::int64_t end : {low, high - 1})
        check_number(static_cast<double>(end), type, "the result", kTypeAdvice);
    }
    Builder& builder = *k.builder;
    const auto full_u64 = [&](std::uint64_t value) {
      return ops::splat(ops::constant(builder, Literal::scalar(value)), shape);
    };
    // The high half of bits * range.
    const Value wide = ops::multiply(ops::convert(ops::random_bits(k, shape), DType::kU64), full_u64(range));
    const Value offset = ops::shift_right_logical(wide, full_u64(32));
    return narrowed(ops::add(offset, full_u64(static_cast<std::uint64_t>(low))), dtype);
  });
}

Tensor bernoulli(const Key& key, double p, const Shape& shape, std::source_location where) {
  return drawn("bernoulli", key, where, [&](Value k) {
    require(p >= 0 && p <= 1, "the probability must be in [0, 1], got {}", p);
    const Value u = ops::random_uniform(k, shape, DType::kF32);
    return ops::compare(u, constant_like(u, p), CompareDirection::kLt);
  });
}

Tensor bernoulli(const Key& key, Operand p) {
  return recorded("bernoulli", p, Operand(key.words(), p.where()), [&](Value probabilities, Value k) {
    require_float_type(probabilities.type().dtype());
    const DType wide = drawing_type(probabilities.type().dtype());
    const Value u = ops::random_uniform(k, probabilities.type().dims(), wide);
    return ops::compare(u, narrowed(probabilities, wide), CompareDirection::kLt);
  });
}

Tensor categorical(const Key& key, Operand logits, int dim) {
  const Tensor noisy = recorded("categorical", logits, Operand(key.words(), logits.where()), [&](Value v, Value k) {
    require_float_type(v.type().dtype());
    const Value wide = widened(v);
    return ops::add(wide, gumbel_field(k, wide.type().dims(), wide.type().dtype()));
  });
  return argmax(Operand(noisy, logits.where()), dim);
}

Tensor multinomial(const Key& key, Operand weights, std::int64_t count, MultinomialOptions options) {
  const bool replaces = options.replacement;
  const Tensor noisy = recorded("multinomial", weights, Operand(key.words(), weights.where()), [&](Value v, Value k) {
    require_float_type(v.type().dtype());
    require(v.type().ndim() >= 1 && count >= 0, "needs weights along a dim and a count, got {} and {}", v.type(),
            count);
    const std::int64_t classes = v.type().dims().back();
    require(replaces || count <= classes,
            "cannot draw {} different positions out of {}; set {{.replacement = true}} if they may be equal", count,
            classes);
    Value logarithms = ops::log(widened(v));
    if (replaces) {  // [.., count, classes]
      Dims dims = v.type().dims();
      dims.insert(dims.end() - 1, 1);
      const Value with_dim = ops::reshape(logarithms, dims);
      *(dims.end() - 2) = count;
      logarithms = broadcast_value(with_dim, dims);
    }
    return ops::add(logarithms, gumbel_field(k, logarithms.type().dims(), logarithms.type().dtype()));
  });
  if (replaces) return argmax(Operand(noisy, weights.where()), -1);
  return topk(Operand(noisy, weights.where()), count).indices;
}

Tensor randperm(const Key& key, std::int64_t count, std::source_location where) {
  const Tensor bits = drawn("randperm", key, where, [&](Value k) {
    require(count >= 0, "needs a count, got {}", count);
    return ops::random_bits(k, {count});
  });
  return argsort(Operand(bits, where));
}

}  // namespace tessera
