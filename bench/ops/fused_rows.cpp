// SPDX-License-Identifier: Apache-2.0
// The parts of a training step other than products: norms, losses, activations, dropout, the update, forward and
// backward as the executor fuses them, each compared with a memcpy of the same bytes. Gradients come from autodiff.
#include <algorithm>

#include "bench_program.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::bench {
namespace {

Value constant_like(Value x, double value) { return ops::full(*x.builder, x.type(), value); }
Value total(Value x) {
  Dims all;
  for (int d = 0; d < x.type().ndim(); ++d) all.push_back(d);
  return ops::reduce(x, Reduction::kSum, all);
}
// Returns the gradients of `wrt` for the gradient dy of y.
Value backward(Builder& main, Value y, Value dy, const std::vector<Value>& wrt) {
  return ops::tuple(main, gradients(main, total(ops::multiply(y, dy)), wrt));
}

// Returns (x - its mean over `over`) / its standard deviation there, times a weight, plus a bias. Weight and bias have
// the dims `along`.
Value normalized(const std::vector<Value>& v, const Dims& over, const Dims& along) {
  const Value x = v[0];
  const Dims& dims = x.type().dims();
  Dims kept;
  double count = 1;
  for (int d = 0; d < isize(dims); ++d)
    if (std::find(over.begin(), over.end(), d) == over.end())
      kept.push_back(d);
    else
      count *= static_cast<double>(at(dims, d));
  const auto average = [&](Value a) {
    const Value sum = ops::reduce(a, Reduction::kSum, over);
    return ops::multiply(sum, constant_like(sum, 1 / count));
  };
  const auto spread = [&](Value a, const Dims& to) { return ops::broadcast(a, dims, to); };
  const Value centered = ops::subtract(x, spread(average(x), kept));
  const Value variance = average(ops::multiply(centered, centered));
  const Value scale = ops::rsqrt(ops::add(variance, constant_like(variance, 1e-5)));
  const Value normal = ops::multiply(centered, spread(scale, kept));
  return ops::add(ops::multiply(normal, spread(v[1], along)), spread(v[2], along));
}

void norm(benchmark::State& state, const Dims& dims, const Dims& over, int weights, bool is_backward) {
  const Type x = Type::array(DType::kF32, dims);
  const Type weight = Type::array(DType::kF32, {at(dims, weights)});
  std::vector<Type> types = {x, weight, weight};
  if (is_backward) types.push_back(x);
  run_beside_copy(state, types, [&](Builder& main, const auto& v) {
    const Value y = normalized(v, over, {weights});
    return is_backward ? backward(main, y, v[3], {v[0], v[1], v[2]}) : y;
  });
}
void layer_norm(benchmark::State& state, std::int64_t rows, std::int64_t width, bool is_backward) {
  norm(state, {rows, width}, {1}, 1, is_backward);
}
void batch_norm(benchmark::State& state, const Dims& images, bool is_backward) {
  norm(state, images, {0, 2, 3}, 1, is_backward);
}

// The mean loss; backward also computes the gradient of the logits.
void cross_entropy(benchmark::State& state, std::int64_t rows, std::int64_t classes, bool is_backward) {
  const Type logits = Type::array(DType::kF32, {rows, classes});
  run_beside_copy(state, {logits, Type::array(DType::kS32, {rows})}, [&](Builder& main, const auto& v) {
    const auto spread = [&](Value row) { return ops::broadcast(row, {rows, classes}, {0}); };
    const Value shifted = ops::subtract(v[0], spread(ops::reduce(v[0], Reduction::kMax, {1})));
    const Value sums = ops::reduce(ops::exp(shifted), Reduction::kSum, {1});
    const Value numbers = ops::iota(main, logits.with_dtype(DType::kS32), 1);
    const Value is_label = ops::compare(numbers, spread(v[1]), CompareDirection::kEq);
    const Value picked = ops::reduce(ops::select(is_label, shifted, constant_like(shifted, 0)), Reduction::kSum, {1});
    const Value sum = total(ops::subtract(ops::log(sums), picked));
    const Value loss = ops::multiply(sum, constant_like(sum, 1.0 / static_cast<double>(rows)));
    return is_backward ? ops::tuple(main, {loss, gradients(main, loss, {v[0]})[0]}) : loss;
  });
}

Value gelu(Value x) {
  const Value cube = ops::multiply(ops::multiply(x, x), x);
  const Value inner =
      ops::multiply(constant_like(x, 0.7978845608), ops::add(x, ops::multiply(constant_like(x, 0.044715), cube)));
  return ops::multiply(ops::multiply(constant_like(x, 0.5), x), ops::add(constant_like(x, 1), ops::tanh(inner)));
}
void gelu_rows(benchmark::State& state, std::int64_t rows, std::int64_t width, bool is_backward) {
  std::vector<Type> types = {Type::array(DType::kF32, {rows, width})};
  if (is_backward) types.push_back(types[0]);
  run_beside_copy(state, types, [&](Builder& main, const auto& v) {
    return is_backward ? backward(main, gelu(v[0]), v[1], {v[0]}) : gelu(v[0]);
  });
}

// The backward pass recomputes the mask from the key, which is the same work.
void dropout(benchmark::State& state, std::int64_t rows, std::int64_t width) {
  const Type x = Type::array(DType::kF32, {rows, width});
  run_beside_copy(state, {x, Type::array(DType::kU32, {2})}, [&](Builder&, const auto& v) {
    const Value uniform = ops::random_uniform(v[1], x.dims(), DType::kF32);
    const Value keep = ops::compare(uniform, constant_like(uniform, 0.1), CompareDirection::kGe);
    return ops::select(keep, ops::multiply(v[0], constant_like(v[0], 1 / 0.9)), constant_like(v[0], 0));
  });
}

void adamw(benchmark::State& state, std::int64_t count) {
  const Type type = Type::array(DType::kF32, {count});
  run_beside_copy(state, {type, type, type, type, Type::scalar(DType::kF32)}, [&](Builder& main, const auto& v) {
    const auto full = [&](double value) { return ops::full(main, type, value); };
    const Value m = ops::add(ops::multiply(v[1], full(0.9)), ops::multiply(v[3], full(0.1)));
    const Value s = ops::add(ops::multiply(v[2], full(0.999)), ops::multiply(ops::multiply(v[3], v[3]), full(0.001)));
    const Value step = ops::divide(m, ops::add(ops::sqrt(s), full(1e-8)));
    const Value w =
        ops::subtract(v[0], ops::multiply(ops::splat(v[4], {count}), ops::add(step, ops::multiply(v[0], full(0.01)))));
    return ops::tuple(main, {w, m, s});
  });
}

#define BESIDE_COPY(...) BENCHMARK_CAPTURE(__VA_ARGS__)->UseManualTime()->Unit(benchmark::kMicrosecond)

BESIDE_COPY(layer_norm, gpt2, 1024, 768, false);
BESIDE_COPY(layer_norm, gpt2_backward, 1024, 768, true);
BESIDE_COPY(layer_norm, small, 8, 64, false);
BESIDE_COPY(layer_norm, small_backward, 8, 64, true);
BESIDE_COPY(batch_norm, resnet, Dims({8, 64, 56, 56}), false);
BESIDE_COPY(batch_norm, resnet_backward, Dims({8, 64, 56, 56}), true);
BESIDE_COPY(batch_norm, small, Dims({2, 4, 6, 6}), false);
BESIDE_COPY(batch_norm, small_backward, Dims({2, 4, 6, 6}), true);
BESIDE_COPY(cross_entropy, gpt2, 256, 50257, false);
BESIDE_COPY(cross_entropy, gpt2_backward, 256, 50257, true);
BESIDE_COPY(cross_entropy, small, 8, 64, false);
BESIDE_COPY(cross_entropy, small_backward, 8, 64, true);
BESIDE_COPY(gelu_rows, gpt2, 1024, 3072, false);
BESIDE_COPY(gelu_rows, gpt2_backward, 1024, 3072, true);
BESIDE_COPY(gelu_rows, small_backward, 8, 64, true);
BESIDE_COPY(dropout, gpt2, 1024, 768);
BESIDE_COPY(dropout, small, 8, 64);
BESIDE_COPY(adamw, of_7M, 7'000'000);
BESIDE_COPY(adamw, small, 1000);

}  // namespace
}  // namespace tessera::bench
