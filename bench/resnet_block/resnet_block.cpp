// SPDX-License-Identifier: Apache-2.0
// A bottleneck block of ResNet-50 (1x1, 3x3, 1x1 convolutions with batch norm, identity shortcut), forward and
// backward, timed. Prints one line of JSON. bench/peers/resnet_block/compare.py compares it with PyTorch.
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/nn/images.h"
#include "train_step/step_report.h"

namespace tessera::bench {
namespace {

struct Arguments {
  std::int64_t batch = 4;
  std::int64_t size = 56;       // of the image, both dims
  std::int64_t channels = 256;  // of the block's input; inside there are a quarter as many
  std::int64_t steps = 10;
  std::string profile;
};

class Bottleneck : public nn::Callable<Bottleneck> {
 public:
  explicit Bottleneck(std::int64_t channels)
      : reduce_(channels, channels / 4, {1}, {.bias = false}),
        middle_(channels / 4, channels / 4, {3}, {.padding = {1}, .bias = false}),
        expand_(channels / 4, channels, {1}, {.bias = false}),
        norm_1_(channels / 4),
        norm_2_(channels / 4),
        norm_3_(channels) {
    add_module("conv1", reduce_);
    add_module("conv2", middle_);
    add_module("conv3", expand_);
    add_module("bn1", norm_1_);
    add_module("bn2", norm_2_);
    add_module("bn3", norm_3_);
  }
  Tensor forward(const Tensor& x) {
    const Tensor narrow = relu(norm_1_(reduce_(x)));
    return relu(norm_3_(expand_(relu(norm_2_(middle_(narrow))))) + x);
  }
  [[nodiscard]] std::string_view class_name() const override { return "Bottleneck"; }

 private:
  nn::Conv2d reduce_, middle_, expand_;
  nn::BatchNorm2d norm_1_, norm_2_, norm_3_;
};

std::vector<float> pattern(std::int64_t count) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>(i * 37 % 101) / 50.0F - 1);
  return out;
}

int run(const Arguments& arguments) {
  const Dims shape = {arguments.batch, arguments.channels, arguments.size, arguments.size};
  const auto count = arguments.batch * arguments.channels * arguments.size * arguments.size;
  Bottleneck block(arguments.channels);
  Tensor x = Tensor::from<float>(shape, pattern(count));
  x.set_requires_grad();
  const Tensor weights = Tensor::from<float>(shape, pattern(count));
  // Returns the gradients of the input and of all parameters, so that none is removed.
  CompiledFunction step([&](const std::vector<Tensor>& given) {
    const Tensor loss = sum(block(x) * given.front());
    loss.backward();
    std::vector<Tensor> out = {loss, x.grad()};
    for (const Tensor& parameter : block.parameters()) out.push_back(parameter.grad());
    block.zero_grad();
    x.zero_grad();
    return out;
  });
  const double loss = step({weights}).front().item();
  step({weights});
  std::vector<double> times;
  for (std::int64_t i = 0; i < arguments.steps; ++i) {
    const auto start = Clock::now();
    step({weights});
    times.push_back(seconds_since(start));
  }
  JsonLine line;
  line.add("block", "bottleneck").add("batch", arguments.batch).add("size", arguments.size);
  line.add("channels", arguments.channels).add("loss", loss).add("seconds", median(times));
  line.add("flops", product_flops(step_program().global));
  std::puts(line.str().c_str());
  if (arguments.profile.empty()) return 0;
  (void)host_seconds(
      step_program(), [] {}, [&] { step({weights}); });
  write_profile(step_program(), arguments.profile);
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::launch(argc, argv, [](int count, char** values) {
    tessera::bench::Arguments arguments;
    tessera::ArgumentParser parser("resnet_block",
                                   "Times a ResNet-50 block, forward and backward; prints a line of JSON.");
    parser.flag("batch", arguments.batch, "images")
        .flag("size", arguments.size, "height and width")
        .flag("channels", arguments.channels, "of the input")
        .flag("steps", arguments.steps, "steps that are timed")
        .flag("profile", arguments.profile, "file for the time of each kind of schedule step and of the longest steps");
    if (!parser.parse(count, values)) {
      std::fputs(parser.help().c_str(), stdout);
      return 0;
    }
    return tessera::bench::run(arguments);
  });
}
