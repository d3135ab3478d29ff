// SPDX-License-Identifier: Apache-2.0
// State in 16 and 8 bits, and loss scaling for f16.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/optim/factory.h"
#include "tessera/optim/grad_scaler.h"

namespace tessera::optim {
namespace {

constexpr std::int64_t kRows = 7;
constexpr std::int64_t kColumns = 613;  // two blocks of 256 and a part of one

std::vector<float> wave(std::int64_t count, double frequency) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(std::sin(frequency * static_cast<double>(i)) * (1 + static_cast<double>(i % 97)));
  return out;
}

// A state with one quantity for a matrix.
StateQuantity quantity(StateFormat format, bool is_signed) {
  Tensor parameter = Tensor::from<float>({kRows, kColumns}, wave(kRows * kColumns, 1));
  parameter.set_name("w");
  return {"s", {parameter}, {.format = format, .is_signed = is_signed}};
}

TEST(StateFormatTest, EightBitsKeepTheLargeElementsOfEachBlock) {
  for (const bool is_signed : {true, false}) {
    const FreshRank rank;
    StateQuantity state = quantity(StateFormat::kInt8, is_signed);
    std::vector<float> values = wave(kRows * kColumns, 0.37);
    if (!is_signed)
      for (float& x : values) x *= x;
    state.write(0, Tensor::from<float>({kRows, kColumns}, values), {});
    mark_step();
    const auto kept = state.read(0).to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = i / kColumns;
      const std::size_t begin = row * kColumns + (i % kColumns) / 256 * 256;
      const std::size_t end = std::min(begin + 256, (row + 1) * kColumns);
      float scale = 0;
      for (std::size_t j = begin; j < end; ++j) scale = std::max(scale, std::fabs(values[j]));
      // Neighbouring codes are (c + 1)^p - c^p apart.
      const double c =
          is_signed ? 127 * std::sqrt(std::fabs(values[i]) / scale) : 255 * std::pow(values[i] / scale, 0.25);
      const double step =
          is_signed ? (2 * c + 3) / (127.0 * 127) : (std::pow(c + 2, 4) - std::pow(c, 4)) / std::pow(255.0, 4);
      ASSERT_LE(std::fabs(kept[i] - values[i]), scale * (step + 1e-6)) << "element " << i;
      if (values[i] > 0 && !is_signed) {
        ASSERT_GT(kept[i], 0) << "element " << i;
      }
    }
    std::vector<NamedState> variables;
    state.append_to(variables, 0);
    ASSERT_EQ(variables.size(), 2U);
    EXPECT_EQ(variables[0].tensor.dtype(), is_signed ? DType::kS8 : DType::kU8);
    EXPECT_EQ(variables[1].tensor.dims(), (Dims{kRows, 3}));
  }
}

// Adding 0.01 to 1 a hundred times gives 2 in the mean, although neighbouring numbers of bf16 are 0.008 apart.
TEST(StateFormatTest, StochasticRoundingAddsUpSmallChanges) {
  const FreshRank rank;
  Tensor parameter = Tensor::from<float>({4096}, std::vector<float>(4096, 0));
  StateQuantity state("s", {parameter}, {.format = StateFormat::kBF16});
  state.write(0, ones({4096}), {});
  mark_step();
  for (int i = 0; i < 100; ++i) {
    state.write(0, state.read(0) + 0.01, {});
    mark_step();
  }
  EXPECT_NEAR(mean(state.read(0)).item(), 2, 0.01);
  state.write(0, full({4096}, std::numeric_limits<double>::infinity()), {});
  mark_step();
  EXPECT_TRUE(std::isinf(state.read(0).to_vector<float>()[17]));
}

std::vector<float> trained(const std::string& optimizer_name, const std::string& mesh_text, int steps = 5) {
  manual_seed(3);
  const Mesh mesh = Mesh::parse(mesh_text);
  Tensor w = Tensor::from<float>({12, 400}, wave(4800, 0.11));
  w.set_name("w");
  w.set_requires_grad();
  mark_sharding(w, mesh, PartitionSpec(std::vector{PartitionSpec::Entry(SpecEntry{"a"}), PartitionSpec::Entry()}));
  const auto optimizer = make_optimizer(optimizer_name, {{{w}}}, {.learning_rate = 0.05});
  const Tensor target = Tensor::from<float>({12, 400}, wave(4800, 0.13));
  for (int i = 0; i < steps; ++i) {
    optimizer->zero_grad();
    sum(square(w - target)).backward();
    optimizer->step();
    mark_step();
  }
  return w.to_vector<float>();
}

TEST(StateFormatTest, RoundedStateDoesNotDependOnTheMesh) {
  for (const std::string name : {"adamw_8bit", "adamw_anyprecision", "lion_8bit"}) {
    std::vector<float> expected;
    {
      const FreshRank rank;
      expected = trained(name, "a=1");
    }
    for (const std::string mesh : {"a=3", "a=4"})
      on_ranks(mesh == "a=3" ? 3 : 4, [&](int) { EXPECT_EQ(trained(name, mesh), expected) << name << " " << mesh; });
  }
}

// The distance to the target of the quadratic loss, after 100 steps.
TEST(StateFormatTest, RoundedStateTrainsAsWellAsFullState) {
  const auto distance = [](const std::string& name) {
    const FreshRank rank;
    const std::vector<float> values = trained(name, "a=1", 100);
    const std::vector<float> target = wave(4800, 0.13);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += std::fabs(values[i] - target[i]);
    return sum;
  };
  const double full = distance("adamw_torch");
  EXPECT_NEAR(distance("adamw_8bit"), full, 0.02 * full);
  EXPECT_NEAR(distance("adamw_anyprecision"), full, 0.02 * full);
}

TEST(StateFormatTest, OneMessageSaysWhichStateIsNotInTheFormat) {
  const FreshRank rank;
  Tensor large = Tensor::from<float>({kRows, kColumns}, wave(kRows * kColumns, 1)).set_requires_grad();
  Tensor small = Tensor::from<float>({3}, {1, 2, 3}).set_requires_grad();
  EXPECT_EQ(make_optimizer("adamw_anyprecision", {{{large, small}}}, {})->note(), "");
  const std::string note = make_optimizer("adamw_8bit", {{{large, small}}}, {})->note();
  EXPECT_NE(note.find("2 of 4 state variables (0.07% of the elements) are in f32"), std::string::npos) << note;
}

TEST(StateFormatTest, NamesOfFormatsAreChecked) {
  EXPECT_EQ(state_format_from_name("bfloat16"), StateFormat::kBF16);
  EXPECT_THROW(state_format_from_name("int4"), Error);
}

// ---- loss scaling -------------------------------------------------------------------------------------------------------

struct Scaled {
  Tensor p = Tensor::from<float>({2}, std::vector<float>{1, 2}).set_requires_grad();
  std::unique_ptr<Optimizer> optimizer;
  GradScaler scaler{{.init_scale = 8, .growth_interval = 2}};
  explicit Scaled(const std::string& name, const std::string& arguments = "") {
    p.set_name("p");
    optimizer = make_optimizer(name, {{{p}}}, {.learning_rate = 0.1, .arguments = arguments});
  }
  // A step with the gradient (factor, factor).
  void step(float factor) {
    optimizer->zero_grad();
    const Tensor loss = sum(p * Tensor::from<float>({2}, std::vector<float>{factor, factor}));
    scaler.scale(loss).backward();
    scaler.step(*optimizer);
    scaler.update();
    mark_step();
  }
};

constexpr float kInfinite = std::numeric_limits<float>::infinity();

TEST(GradScalerTest, TheScaleGrowsAndShrinksAsInPyTorch) {
  const FreshRank rank;
  Scaled run("sgd");
  run.step(1);
  EXPECT_EQ(run.scaler.get_scale(), 8);
  run.step(1);
  EXPECT_EQ(run.scaler.get_scale(), 16);
  run.step(kInfinite);
  EXPECT_EQ(run.scaler.get_scale(), 8);
  run.step(1);
  run.step(kInfinite);  // the count starts again
  EXPECT_EQ(run.scaler.get_scale(), 4);
  run.step(1);
  EXPECT_EQ(run.scaler.get_scale(), 4);
  EXPECT_EQ(run.scaler.skipped_steps(), 2);
  EXPECT_NEAR(run.p.to_vector<float>()[0], 1 - 4 * 0.1, 1e-6);
}

// A skipped step changes nothing, also not the number of the step in Adam's bias correction.
TEST(GradScalerTest, ASkippedStepLeavesNoTrace) {
  const std::map<std::string, std::string> arguments_of{{"adamw_torch", ""},         {"adafactor", ""}, {"muon", ""},
                                                        {"adagrad", "lr_decay=0.5"}, {"adamax", ""},    {"nadam", ""},
                                                        {"radam", "beta2=0.95"}};
  for (const auto& [name, arguments] : arguments_of) {
    std::vector<float> expected;
    {
      const FreshRank rank;
      Scaled run(name, arguments);
      for (const float g : {1.0F, 3.0F, -2.0F, 0.5F, 2.0F, -1.0F, 4.0F}) run.step(g);
      expected = run.p.to_vector<float>();
    }
    const FreshRank rank;
    Scaled run(name, arguments);
    for (const float g : {1.0F, kInfinite, 3.0F, std::nanf(""), -2.0F, 0.5F, 2.0F, -1.0F, 4.0F}) run.step(g);
    const auto values = run.p.to_vector<float>();
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << name;
  }
}

TEST(GradScalerTest, UnscalingComesBeforeClipping) {
  const FreshRank rank;
  Scaled run("sgd");
  sum(run.p * 3.0).backward();
  run.optimizer->zero_grad();
  run.scaler.scale(sum(run.p * 3.0)).backward();
  run.scaler.unscale(*run.optimizer);
  EXPECT_THROW(run.scaler.unscale(*run.optimizer), Error);
  const Tensor norm = clip_grad_norm({run.p}, 1.0);
  run.scaler.step(*run.optimizer);
  run.scaler.update();
  mark_step();
  EXPECT_NEAR(norm.item(), 3 * std::sqrt(2.0), 1e-5);
  EXPECT_NEAR(run.p.to_vector<float>()[0], 1 - 0.1 / std::sqrt(2.0), 1e-5);
}

TEST(GradScalerTest, TheStateIsSaved) {
  const FreshRank rank;
  Scaled run("sgd");
  run.step(1);
  run.step(1);
  run.step(kInfinite);
  GradScaler other;
  other.load_state_dict(run.scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 8);
  EXPECT_EQ(other.skipped_steps(), 1);
}

TEST(GradScalerTest, ADisabledScalerChangesNothing) {
  const FreshRank rank;
  GradScaler scaler({.enabled = false});
  const Tensor loss = Tensor::scalar(DType::kF32, 3.0);
  EXPECT_EQ(scaler.scale(loss).item(), 3);
  EXPECT_EQ(scaler.get_scale(), 1);
}

}  // namespace
}  // namespace tessera::optim
