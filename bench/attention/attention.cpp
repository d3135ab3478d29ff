// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention, forward and backward, timed. Prints one line of JSON.
// bench/peers/attention/compare.py compares it with PyTorch.
#include <cstdio>
#include <random>

#include "tessera/base/argument_parser.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/attention.h"
#include "tessera/frontend/tensor/functions.h"
#include "train_step/step_report.h"

namespace tessera::bench {
namespace {

struct Arguments {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t length = 8192;
  std::int64_t depth = 64;
  std::int64_t steps = 5;
  std::string dtype = "float32";
  bool causal = false;
  bool forward = false;
};

Tensor random_tensor(Dims dims, DType dtype, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(static_cast<std::size_t>(detail::product(dims)));
  for (float& value : values) value = draw(engine);
  return Tensor::from<float>(std::move(dims), values).to(dtype);
}

int run(const Arguments& a) {
  const DType dtype = a.dtype == "bfloat16" ? DType::kBF16 : a.dtype == "float64" ? DType::kF64 : DType::kF32;
  Tensor q = random_tensor({a.batch, a.heads, a.length, a.depth}, dtype, 1);
  Tensor k = random_tensor({a.batch, a.key_heads, a.length, a.depth}, dtype, 2);
  Tensor v = random_tensor({a.batch, a.key_heads, a.length, a.depth}, dtype, 3);
  Tensor weights = random_tensor({a.batch, a.heads, a.length, a.depth}, dtype, 4);
  mark_step();
  if (!a.forward)
    for (Tensor* x : {&q, &k, &v}) x->set_requires_grad();
  CompiledFunction step([&](const std::vector<Tensor>& given) {
    const Tensor out = scaled_dot_product_attention(q, k, v, {.causal = a.causal});
    if (a.forward) return std::vector<Tensor>{out};
    const Tensor loss = sum(out * given.front());
    loss.backward();
    std::vector<Tensor> results{loss, q.grad(), k.grad(), v.grad()};
    for (Tensor* x : {&q, &k, &v}) x->zero_grad();
    return results;
  });
  step({weights});
  step({weights});
  std::vector<double> times;
  for (std::int64_t i = 0; i < a.steps; ++i) {
    const auto start = Clock::now();
    step({weights});
    times.push_back(seconds_since(start));
  }
  JsonLine line;
  line.add("length", a.length).add("dtype", a.dtype).add("seconds", median(times));
  line.add("peak_bytes", step_program().memory.held_bytes());
  std::puts(line.str().c_str());
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::launch(argc, argv, [](int count, char** values) {
    tessera::bench::Arguments arguments;
    tessera::ArgumentParser parser("attention", "Times attention, forward and backward; prints a line of JSON.");
    parser.flag("batch", arguments.batch, "sequences")
        .flag("heads", arguments.heads, "of queries")
        .flag("key_heads", arguments.key_heads, "of keys and values")
        .flag("length", arguments.length, "rows and keys")
        .flag("depth", arguments.depth, "of a head")
        .flag("steps", arguments.steps, "steps that are timed")
        .flag("dtype", arguments.dtype, "float32, bfloat16 or float64")
        .flag("causal", arguments.causal, "a row sees only keys before it")
        .flag("forward", arguments.forward, "only the forward pass");
    if (!parser.parse(count, values)) {
      std::fputs(parser.help().c_str(), stdout);
      return 0;
    }
    return tessera::bench::run(arguments);
  });
}
