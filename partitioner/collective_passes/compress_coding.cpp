// SPDX-License-Identifier: Apache-2.0
#include "collective_passes/compress_coding.h"

#include <limits>

#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

class Bf16Coding final : public Coding {
 public:
  [[nodiscard]] std::string name() const override { return "bf16"; }
  [[nodiscard]] bool keeps_shape() const override { return true; }
  [[nodiscard]] std::vector<Value> encode(Value parts) const override { return {ops::convert(parts, DType::kBF16)}; }
  [[nodiscard]] Value decode(const std::vector<Value>& arrived, const Dims& /*dims*/) const override {
    return ops::convert(arrived[0], DType::kF32);
  }
};

class Int8Coding final : public Coding {
 public:
  [[nodiscard]] std::string name() const override { return "int8"; }
  [[nodiscard]] bool keeps_shape() const override { return false; }

  [[nodiscard]] std::vector<Value> encode(Value parts) const override {
    Builder& builder = *parts.builder;
    const std::int64_t n = parts.type().dim(0);
    const std::int64_t count = parts.type().element_count() / n;
    const std::int64_t blocks = ceil_div(count, kBlock);
    Value flat = ops::reshape(parts, {n, count});
    if (blocks * kBlock > count)
      flat = ops::pad(flat, ops::scalar(builder, DType::kF32, 0), {{}, {0, blocks * kBlock - count}});
    const Value blocked = ops::reshape(flat, {n, blocks, kBlock});
    const Value largest = ops::reduce(ops::abs(blocked), Reduction::kMax, {2});  // [n, blocks]
    // Adding the smallest positive number matters only for values of that magnitude: without it, 127 / largest could
    // overflow, or a step that was rounded down could put the largest number beyond 127 steps.
    const Value step = ops::add(ops::divide(largest, ops::full(builder, largest.type(), kMost)),
                                ops::full(builder, largest.type(), std::numeric_limits<float>::denorm_min()));
    const Value scaled = ops::divide(blocked, ops::broadcast(step, blocked.type().dims(), {0, 1}));
    const Value quantized = ops::clamp(ops::scalar(builder, DType::kF32, -kMost), ops::round_nearest_even(scaled),
                                       ops::scalar(builder, DType::kF32, kMost));
    return {ops::reshape(ops::convert(quantized, DType::kS8), {n, blocks * kBlock}), step};
  }

  [[nodiscard]] Value decode(const std::vector<Value>& arrived, const Dims& dims) const override {
    const std::int64_t m = arrived[1].type().dim(0);
    const std::int64_t blocks = arrived[1].type().dim(1);
    const Dims blocked{m, blocks, kBlock};
    const Value quantized = ops::reshape(ops::convert(arrived[0], DType::kF32), blocked);
    Value flat =
        ops::reshape(ops::multiply(quantized, ops::broadcast(arrived[1], blocked, {0, 1})), {m, blocks * kBlock});
    if (blocks * kBlock > product(dims)) flat = ops::slice_dim(flat, 1, 0, product(dims));
    Dims out = dims;
    out.insert(out.begin(), m);
    return ops::reshape(flat, std::move(out));
  }

 private:
  static constexpr std::int64_t kBlock = 256;
  static constexpr double kMost = 127;
};

}  // namespace

std::unique_ptr<Coding> bf16_coding() { return std::make_unique<Bf16Coding>(); }
std::unique_ptr<Coding> int8_coding() { return std::make_unique<Int8Coding>(); }

}  // namespace tessera
