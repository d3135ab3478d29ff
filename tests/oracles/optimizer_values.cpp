// SPDX-License-Identifier: Apache-2.0
// Prints the parameters of a small network after each of 50 updates, for every case of optimizers.py, and the rates of
// every schedule, as JSON: {"CASE float64": [[values after update 1], …], "CASE": [rates]}.
//
//   optimizer_values CASE…       a case is KIND:NAME:ARGUMENTS, as in optimizer:sgd:momentum=0.9 or schedule:cosine:
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/schedule.h"

namespace tessera {
namespace {

constexpr int kSteps = 50;
constexpr double kRate = 1e-2;
constexpr double kDecay = 0.1;
constexpr std::int64_t kWarmup = 5;
constexpr std::int64_t kTotal = 40;

// Multiples of the golden ratio in (-1/2, 1/2).
Tensor numbers(const Dims& dims, int first, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < product(dims); ++i) {
    const double turned = static_cast<double>(first + i + 1) * 0.6180339887498949;
    values.push_back(turned - std::floor(turned) - 0.5);
  }
  if (dtype == DType::kF64) return Tensor::from<double>(dims, values);
  return Tensor::from<float>(dims, std::vector<float>(values.begin(), values.end()));
}

std::string trajectory(const std::string& name, const std::string& arguments, DType dtype) {
  Tensor w1 = numbers({7, 13}, 0, dtype).set_requires_grad();
  Tensor w2 = numbers({13, 5}, 100, dtype).set_requires_grad();
  Tensor bias = numbers({13}, 200, dtype).set_requires_grad();
  w1.set_name("w1"), w2.set_name("w2"), bias.set_name("bias");
  const auto optimizer =
      optim::make_optimizer(name, {{{w1, w2}, kDecay}, {{bias}}}, {.learning_rate = kRate, .arguments = arguments});
  std::vector<std::string> lines;
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    const Tensor hidden = tanh(matmul(numbers({6, 7}, 300 + 42 * step, dtype), w1) + bias);
    mean(square(matmul(hidden, w2) - numbers({6, 5}, 1000 + 30 * step, dtype))).backward();
    optimizer->step();
    mark_step();
    std::vector<double> values;
    for (const Tensor& p : {w1, w2, bias})
      for (const double x : p.detach().to(DType::kF64).to_vector<double>()) values.push_back(x);
    lines.push_back(fmt::format("[{}]", fmt::join(values, ",")));
  }
  return fmt::format("[{}]", fmt::join(lines, ","));
}

std::string rates(const std::string& name, const std::string& arguments) {
  const auto type = optim::schedule_from_name(name);
  optim::Schedule schedule(type, kRate, kWarmup, kTotal, optim::ScheduleArguments::parse(type, arguments));
  std::vector<double> out;
  for (std::int64_t step = 0; step < kTotal + 5; ++step) {
    out.push_back(schedule.rate(step));
    schedule.note_metric(std::cos(0.3 * static_cast<double>(step)) + 1.5);
  }
  return fmt::format("[{}]", fmt::join(out, ","));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  std::vector<std::string> texts;
  for (int i = 1; i < argc; ++i) {
    const std::string one = argv[i];
    const auto parts = split(one, ':');
    require(parts.size() == 3, "a case is KIND:NAME:ARGUMENTS, got {}", one);
    if (parts[0] == "schedule") {
      texts.push_back(fmt::format("\"{}\": {}", one, rates(parts[1], parts[2])));
      continue;
    }
    texts.push_back(fmt::format("\"{} float64\": {}", one, trajectory(parts[1], parts[2], DType::kF64)));
    texts.push_back(fmt::format("\"{} float32\": {}", one, trajectory(parts[1], parts[2], DType::kF32)));
  }
  fmt::print("{{{}}}\n", fmt::join(texts, ",\n"));
  return 0;
}
