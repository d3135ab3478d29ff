// SPDX-License-Identifier: Apache-2.0
// A step of ResNet, timed: traced each time, compiled once, or traced with a tensor that grows, so that each step is
// another program. Prints one line of JSON. table.py makes the table of all of them.
#include <cmath>
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/base/text.h"
#include "tessera/tessera.h"
#include "train_step/step_report.h"

namespace tessera::bench {
namespace {

struct Arguments {
  std::string model = "resnet18";
  std::string task = "train";
  std::string step = "compiled";
  std::int64_t batch = 8;  // images over all ranks
  std::int64_t image_size = 224;
  std::int64_t steps = 10;
  std::int64_t virtual_ranks = 0;  // launch() reads it
};

// The model and a batch whose images are sharded over the ranks.
class Network {
 public:
  Network(const Arguments& arguments, const Mesh& mesh)
      : trains_(arguments.task == "train"),
        model_(arguments.model == "tiny" ? nn::ResNetConfig::tiny() : nn::ResNetConfig::resnet18()),
        optimizer_(model_.parameters(), optim::SgdOptions{.learning_rate = 0.01, .momentum = 0.9}) {
    const Dims dims = {arguments.batch, 3, arguments.image_size, arguments.image_size};
    std::vector<float> pixels;
    for (std::int64_t i = 0; i < product(dims); ++i) pixels.push_back(static_cast<float>(i * 37 % 101) / 50.0F - 1);
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < arguments.batch; ++i) labels.push_back(static_cast<std::int32_t>(i * 7 % 10));
    batch_ = {Tensor::from<float>(dims, pixels), Tensor::from<std::int32_t>({arguments.batch}, labels)};
    mark_sharding(batch_[0], mesh, {"data", {}, {}, {}});
    mark_sharding(batch_[1], mesh, {"data"});
    if (!trains_) model_.eval();
  }

  /// Records a step and returns its loss.
  Tensor record(const std::vector<Tensor>& batch) {
    Tensor loss = model_.run({{"pixel_values", batch[0]}, {"labels", batch[1]}}).loss;
    if (!trains_) return loss;
    loss.backward();
    optimizer_.step();
    optimizer_.zero_grad();
    return loss;
  }
  [[nodiscard]] const std::vector<Tensor>& batch() const { return batch_; }

 private:
  bool trains_;
  nn::ResNetForImageClassification model_;
  optim::SGD optimizer_;
  std::vector<Tensor> batch_;
};

// Runs one step and returns its loss.
using Step = std::function<double()>;

Step step_of(const std::string& kind, Network& network) {
  if (kind == "compiled") {
    const auto compiled = std::make_shared<CompiledFunction>(
        [&network](const std::vector<Tensor>& batch) { return std::vector<Tensor>{network.record(batch)}; });
    return [&network, compiled] { return (*compiled)(network.batch()).front().item(); };
  }
  // With "growing", the losses so far are an input of the step, whose size is another one each time.
  const auto losses = std::make_shared<Tensor>();
  return [&network, losses, grows = kind == "growing"] {
    const Tensor loss = network.record(network.batch());
    if (grows) *losses = losses->is_null() ? loss.reshape({1}) : concat({*losses, loss.reshape({1})}, 0);
    mark_step();
    return loss.item();
  };
}

double executed_seconds() {
  constexpr double kNanosecond = 1e-9;
  return kNanosecond * metrics().metric_data("ExecuteTime").value_or(MetricData{}).accumulator;
}

int run(const Arguments& arguments, const Runtime& runtime) {
  const Mesh mesh({{"data", runtime.rank_count()}});
  set_default_mesh(mesh);
  Network network(arguments, mesh);
  const Step step = step_of(arguments.step, network);
  constexpr int kStepsBefore = 2;  // they compile
  for (int i = 0; i < kStepsBefore; ++i) (void)step();
  const std::int64_t compiled_before = lazy_counters().compilations;
  const double executed_before = executed_seconds();
  std::vector<double> times;
  double loss = 0;
  for (std::int64_t i = 0; i < arguments.steps; ++i) {
    const auto start = Clock::now();
    loss = step();
    times.push_back(seconds_since(start));
  }
  require(std::isfinite(loss), "the loss is {}", loss);
  if (!runtime.is_master()) return 0;
  constexpr double kMilliseconds = 1e3;
  const auto count = static_cast<double>(arguments.steps);
  JsonLine line;
  line.add("model", arguments.model).add("task", arguments.task).add("step", arguments.step);
  line.add("ranks", runtime.rank_count()).add("batch", arguments.batch);
  line.add("milliseconds", kMilliseconds * median(times));
  line.add("execution_milliseconds", kMilliseconds * (executed_seconds() - executed_before) / count);
  line.add("compilations", lazy_counters().compilations - compiled_before);
  line.add("loss", loss);
  std::puts(line.str().c_str());
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::launch(argc, argv, [](int count, char** values) {
    const tessera::Runtime runtime(count, values);
    tessera::bench::Arguments arguments;
    tessera::ArgumentParser parser("lazy_compiled", "Times lazy and compiled steps of ResNet; prints a line of JSON.");
    parser.choice("model", arguments.model, {"resnet18", "tiny"}, "the network")
        .choice("task", arguments.task, {"train", "eval"}, "what a step does")
        .choice("step", arguments.step, {"lazy", "compiled", "growing"},
                "traced each time; traced once; traced each time with a tensor that grows")
        .flag("batch", arguments.batch, "images over all ranks")
        .flag("image_size", arguments.image_size, "height and width of images")
        .flag("steps", arguments.steps, "steps that are timed")
        .flag("virtual_ranks", arguments.virtual_ranks, "run this many ranks as threads of this process");
    if (!parser.parse(count, values)) {
      std::fputs(parser.help().c_str(), stdout);
      return 0;
    }
    tessera::require(arguments.steps >= 1, "--steps must be at least 1, got {}", arguments.steps);
    return tessera::bench::run(arguments, runtime);
  });
}
