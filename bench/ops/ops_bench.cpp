// SPDX-License-Identifier: Apache-2.0
// Kernels as programs run them: products with GPT-2's shapes, fused chains, rows. Programs limited by memory are in
// fused_rows.cpp. One thread.
//
//   build/release/bin/ops_bench --benchmark_filter=dot
#include <benchmark/benchmark.h>

#include "bench_program.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera {
namespace {

using bench::run;

void dot(benchmark::State& state, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, int lhs_dim,
         int rhs_dim) {
  const Type lhs = Type::array(dtype, lhs_dim == 1 ? Dims{m, k} : Dims{k, m});
  const Type rhs = Type::array(dtype, rhs_dim == 0 ? Dims{k, n} : Dims{n, k});
  run(state, {lhs, rhs}, [&](Builder&, const auto& v) { return ops::dot(v[0], v[1], {{}, {lhs_dim}, {}, {rhs_dim}}); });
}

// The scores of causal attention, [B,T,H,D] in the layout of the model.
void attention(benchmark::State& state, DType dtype, std::int64_t batch, std::int64_t tokens, std::int64_t heads) {
  const Type type = Type::array(dtype, {batch, tokens, heads, 64});
  run(state, {type, type}, [](Builder&, const auto& v) {
    return ops::dot(ops::transpose(v[0], {0, 2, 1, 3}), ops::transpose(v[1], {0, 2, 1, 3}), {{0, 1}, {3}, {0, 1}, {3}});
  });
}

Value gelu(Builder& main, Value x) {
  const auto full = [&](double value) { return ops::full(main, x.type(), value); };
  const Value cube = ops::multiply(ops::multiply(x, x), x);
  const Value inner = ops::multiply(full(0.7978845608), ops::add(x, ops::multiply(full(0.044715), cube)));
  return ops::multiply(ops::multiply(full(0.5), x), ops::add(full(1), ops::tanh(inner)));
}
void gelu_chain(benchmark::State& state, std::int64_t rows, std::int64_t columns, bool fuse) {
  run(
      state, {Type::array(DType::kF32, {rows, columns}), Type::array(DType::kF32, {columns})},
      [&](Builder& main, const auto& v) {
        return gelu(main, ops::add(v[0], ops::broadcast(v[1], {rows, columns}, {1})));
      },
      fuse);
}

void softmax(benchmark::State& state, std::int64_t rows, std::int64_t columns) {
  run(state, {Type::array(DType::kF32, {rows, columns})}, [&](Builder&, const auto& v) {
    const auto spread = [&](Value row) { return ops::broadcast(row, {rows, columns}, {0}); };
    const Value e = ops::exp(ops::subtract(v[0], spread(ops::reduce(v[0], Reduction::kMax, {1}))));
    return ops::divide(e, spread(ops::reduce(e, Reduction::kSum, {1})));
  });
}

void column_sum(benchmark::State& state, std::int64_t rows, std::int64_t columns) {
  run(state, {Type::array(DType::kF32, {rows, columns})},
      [&](Builder&, const auto& v) { return ops::reduce(v[0], Reduction::kSum, {0}); });
}

void embedding(benchmark::State& state, std::int64_t vocabulary, std::int64_t tokens, std::int64_t width) {
  run(state, {Type::array(DType::kF32, {vocabulary, width}), Type::array(DType::kS32, {tokens})},
      [&](Builder&, const auto& v) { return ops::take_rows(v[0], v[1]); });
}

// A 3x3 convolution of ResNets, [n, c, 56, 56] or [n, 56, 56, c], also in the form of its gradients.
void convolution(benchmark::State& state, DType dtype, const char* labels, const char* window, const Dims& lhs,
                 const Dims& rhs) {
  ConvolutionAttributes a;
  parse_field(labels, a.dim_labels);
  parse_field(window, a.window);
  run(state, {Type::array(dtype, lhs), Type::array(dtype, rhs)},
      [&](Builder&, const auto& v) { return ops::convolution(v[0], v[1], a); });
}
void max_pool(benchmark::State& state, const Dims& image, const char* window) {
  WindowDims dims;
  parse_field(window, dims);
  run(state, {Type::array(DType::kF32, image)},
      [&](Builder&, const auto& v) { return ops::reduce_window(v[0], Reduction::kMax, dims); });
}

BENCHMARK_CAPTURE(convolution, f32_nchw, DType::kF32, "bf01_oi01->bf01", "{size=3x3 pad=1_1x1_1}",
                  Dims({4, 64, 56, 56}), Dims({64, 64, 3, 3}));
BENCHMARK_CAPTURE(convolution, f32_nhwc, DType::kF32, "b01f_01io->b01f", "{size=3x3 pad=1_1x1_1}",
                  Dims({4, 56, 56, 64}), Dims({3, 3, 64, 64}));
BENCHMARK_CAPTURE(convolution, f32_dx, DType::kF32, "b01f_01oi->b01f", "{size=3x3 pad=1_1x1_1 rhs_reversal=1x1}",
                  Dims({4, 56, 56, 64}), Dims({3, 3, 64, 64}));
BENCHMARK_CAPTURE(convolution, f32_dw, DType::kF32, "f01b_i01o->01bf", "{size=56x56 pad=1_1x1_1}",
                  Dims({4, 56, 56, 64}), Dims({4, 56, 56, 64}));
BENCHMARK_CAPTURE(convolution, bf16_nhwc, DType::kBF16, "b01f_01io->b01f", "{size=3x3 pad=1_1x1_1}",
                  Dims({4, 56, 56, 64}), Dims({3, 3, 64, 64}));
BENCHMARK_CAPTURE(max_pool, nchw, Dims({4, 64, 112, 112}), "{size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1}");
BENCHMARK_CAPTURE(max_pool, nhwc, Dims({4, 112, 112, 64}), "{size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}");
BENCHMARK_CAPTURE(dot, f32_NN_mlp, DType::kF32, 1024, 3072, 768, 1, 0);
BENCHMARK_CAPTURE(dot, f32_NT_mlp_dx, DType::kF32, 1024, 768, 3072, 1, 1);
BENCHMARK_CAPTURE(dot, f32_TN_mlp_dw, DType::kF32, 768, 3072, 1024, 0, 0);
BENCHMARK_CAPTURE(dot, f32_NT_head, DType::kF32, 1024, 50257, 768, 1, 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(dot, bf16_NN_mlp, DType::kBF16, 1024, 3072, 768, 1, 0);
BENCHMARK_CAPTURE(dot, f64_NN_mlp, DType::kF64, 256, 768, 192, 1, 0);
BENCHMARK_CAPTURE(dot, small, DType::kF32, 32, 48, 64, 1, 0);
BENCHMARK_CAPTURE(attention, f32, DType::kF32, 4, 256, 12);
BENCHMARK_CAPTURE(attention, bf16, DType::kBF16, 4, 256, 12);
BENCHMARK_CAPTURE(attention, small, DType::kF32, 1, 16, 2);
BENCHMARK_CAPTURE(gelu_chain, fused, 1024, 3072, true);
BENCHMARK_CAPTURE(gelu_chain, one_by_one, 1024, 3072, false);
BENCHMARK_CAPTURE(gelu_chain, small, 8, 64, true);
BENCHMARK_CAPTURE(softmax, rows_of_256, 12288, 256);
BENCHMARK_CAPTURE(softmax, vocabulary, 256, 50257);
BENCHMARK_CAPTURE(softmax, small, 8, 64);
BENCHMARK_CAPTURE(column_sum, of_1024_rows, 1024, 3072);
BENCHMARK_CAPTURE(column_sum, small, 16, 48);
BENCHMARK_CAPTURE(embedding, gpt2, 50257, 1024, 768);
BENCHMARK_CAPTURE(embedding, small, 100, 10, 16);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
