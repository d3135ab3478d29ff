// SPDX-License-Identifier: Apache-2.0
// A model of two linear layers whose weights are sharded, and its training loop: PyTorch/XLA's first example of SPMD.
//
//   simple_linear --virtual_ranks 4          or          mpirun -np 4 simple_linear
#include <cmath>
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/tessera.h"

namespace ts = tessera;

namespace {

class SimpleLinear : public ts::nn::Callable<SimpleLinear> {
 public:
  explicit SimpleLinear(const ts::Mesh& mesh) {
    register_module("fc1", fc1_);
    register_module("fc2", fc2_);
    ts::mark_sharding(fc1_.weight(), mesh, {"model", {}});  // [out, in]: each rank has some of the hidden units
    ts::mark_sharding(fc2_.weight(), mesh, {{}, "model"});
  }
  ts::Tensor forward(const ts::Tensor& x) { return fc2_(ts::relu(fc1_(x))); }

 private:
  ts::nn::Linear fc1_{128, 128};
  ts::nn::Linear fc2_{128, 1};
};

// Rows whose target is a function of their elements.
struct Rows {
  ts::Tensor data, target;
};
Rows rows_of(int step) {
  constexpr std::int64_t kRows = 16, kWidth = 128;
  std::vector<float> data, target;
  for (std::int64_t row = 0; row < kRows; ++row) {
    float total = 0;
    for (std::int64_t i = 0; i < kWidth; ++i) {
      data.push_back(
          static_cast<float>(std::sin(static_cast<double>(std::int64_t{977} * step + row * kWidth + i * i))));
      total += i < 8 ? data.back() : 0;
    }
    target.push_back(total);
  }
  return {ts::Tensor::from<float>({kRows, kWidth}, data), ts::Tensor::from<float>({kRows, 1}, target)};
}

int train(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::int64_t virtual_ranks = 0;  // launch() reads it
  std::int64_t steps = 200;
  ts::ArgumentParser parser("simple_linear", "Trains two linear layers whose weights are sharded.");
  parser.flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process")
      .flag("steps", steps, "number of updates");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  const auto ranks = runtime.rank_count();
  const std::int64_t model_ranks = ranks % 2 == 0 ? 2 : 1;
  const ts::Mesh mesh({{"data", ranks / model_ranks}, {"model", model_ranks}});

  SimpleLinear model(mesh);
  ts::optim::SGD optimizer(model.parameters(), {.learning_rate = 0.01});
  for (std::int64_t step = 0; step < steps; ++step) {
    const Rows rows = rows_of(static_cast<int>(step));
    ts::mark_sharding(rows.data, mesh, {"data", {}});
    optimizer.zero_grad();
    const ts::Tensor output = model(rows.data);
    const ts::Tensor loss = ts::mean(ts::square(output - rows.target));
    loss.backward();
    optimizer.step();
    ts::mark_step();
    if (runtime.is_master() && (step == 0 || step + 1 == steps))
      std::printf("step %3lld  loss %.4f\n", static_cast<long long>(step) + 1, loss.item());
  }
  if (runtime.is_master())
    std::printf("%s\nweight of fc1 %s\n%s\n", mesh.str().c_str(), model.parameter("fc1.weight").type().str().c_str(),
                ts::visualize_sharding(model.parameter("fc1.weight")).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, train); }
