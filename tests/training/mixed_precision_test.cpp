// SPDX-License-Identifier: Apache-2.0
// bf16 end to end: which values are bf16 and which stay f32, and that training gives the same results.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ir/op_def.h"
#include "tessera/nn/initializers.h"
#include "training/gpt2_training.h"

namespace tessera::testing {
namespace {

constexpr MixedPrecision kNarrow{.param_dtype = DType::kBF16, .reduce_dtype = std::nullopt};

TrainingCase small(const std::string& mesh, const MixedPrecision& types) {
  return {.mesh = mesh,
          .width = 24,
          .heads = 2,
          .layers = 2,
          .vocabulary = 40,
          .time = 12,
          .rows = 4,
          .dropout = 0,
          .mixed_precision = types};
}

std::vector<double> losses(const TrainingCase& options, int steps) {
  const int ranks = static_cast<int>(device_count_of(options.mesh));
  std::vector<double> out;
  on_ranks(ranks, [&](int rank) {
    Training training(options);
    for (int i = 0; i < steps; ++i) {
      const double loss = training.step(i % 3).item();
      if (rank == 0) out.push_back(loss);
    }
  });
  return out;
}

void expect_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * b[i]) << "step " << i;
}

TEST(MixedPrecision, LossesAreCloseToThoseOfFloat32) {
  constexpr int kSteps = 30;
  const auto wide = losses(small("data=1", {}), kSteps);
  const auto narrow = losses(small("data=1", kNarrow), kSteps);
  EXPECT_LT(narrow.back(), 0.9 * narrow.front()) << "it learns";
  expect_close(narrow, wide, 0.01);
  EXPECT_NE(narrow.back(), wide.back()) << "it computes in bf16";
}

class NarrowMesh : public ::testing::TestWithParam<const char*> {};
TEST_P(NarrowMesh, TrainsLikeOneRank) {
  constexpr int kSteps = 6;
  static const std::vector<double> alone = losses(small("data=1", kNarrow), kSteps);
  expect_close(losses(small(GetParam(), kNarrow), kSteps), alone, 0.003);
}
INSTANTIATE_TEST_SUITE_P(Meshes, NarrowMesh, ::testing::Values("data=2", "fsdp=2", "fsdp=2,model=2"));

// Returns the element types of the results of an op's instructions.
std::set<std::string> types_of(const Program& program, std::string_view op) {
  std::set<std::string> out;
  for (const auto& instruction : program.entry_computation().instructions)
    if (instruction.op->name == op)
      for (const Type& leaf : instruction.type.leaves()) out.emplace(dtype_name(leaf.dtype()));
  return out;
}
using Names = std::set<std::string>;

TEST(MixedPrecision, GathersBf16AndReducesAndKeepsStatisticsInF32) {
  for (const char* mesh : {"fsdp=2", "data=2"}) {
    SCOPED_TRACE(mesh);
    TrainingCase options = small(mesh, kNarrow);
    options.rows = 128;  // with few rows, a sum of bf16 activations over the devices has fewer bytes than the gradients
    const Program program = plan_of(options).partitioned.program;
    EXPECT_EQ(types_of(program, "reduce-scatter"), Names{"f32"});
    for (const char* op : {"exponential", "rsqrt", "log", "sqrt", "all-reduce"})
      EXPECT_EQ(types_of(program, op), Names{"f32"}) << op;
    EXPECT_EQ(types_of(program, "parameter"), (Names{"f32", "s32"})) << "weights and state are stored wide";
    const Computation& entry = program.entry_computation();
    for (const auto& instruction : entry.instructions) {
      if (instruction.op->name != "dot") continue;
      for (const Id operand : instruction.operands)
        EXPECT_EQ(entry[operand].type.dtype(), DType::kBF16) << instruction.name;
    }
  }
  const Program program = plan_of(small("fsdp=2", kNarrow)).partitioned.program;
  Names gathered;  // of weights; gradients of the embedding may gather tokens
  for (const auto& instruction : program.entry_computation().instructions)
    if (instruction.op->name == "all-gather" && instruction.frontend_attribute("tessera.recompute") != nullptr)
      for (const Type& leaf : instruction.type.leaves()) gathered.emplace(dtype_name(leaf.dtype()));
  EXPECT_EQ(gathered, Names{"bf16"});
}

TEST(MixedPrecision, ReducesInTheRequestedType) {
  const MixedPrecision types{.param_dtype = DType::kBF16, .reduce_dtype = DType::kBF16};
  const Program program = plan_of(small("fsdp=2", types)).partitioned.program;
  Names reduced;  // weights of norms are used, and therefore reduced, in f32
  for (const auto& instruction : program.entry_computation().instructions)
    if (instruction.op->name == "reduce-scatter")
      for (const Type& leaf : instruction.type.leaves())
        if (leaf.ndim() > 1) reduced.emplace(dtype_name(leaf.dtype()));
  EXPECT_EQ(reduced, Names{"bf16"});
}

TEST(MixedPrecision, RequiresFloatsAndAReductionAtLeastAsWideAsTheUse) {
  const FreshRank rank;
  nn::Linear layer(2, 2);
  EXPECT_EQ(error_of([&] { fully_shard(layer, {.mixed_precision = {.param_dtype = DType::kS32}}); }),
            "mixed_precision takes floating-point types, got s32");
  EXPECT_EQ(error_of([&] { fully_shard(layer, {.mixed_precision = {.reduce_dtype = DType::kBF16}}); }),
            "mixed_precision: reduce_dtype bf16 needs a param_dtype that is no wider");
}

// In bf16 a sum of ones stops at 256.
TEST(MixedPrecision, SumsOfGradientsAreInF32) {
  const FreshRank rank;
  constexpr std::int64_t kCount = 4096;
  const auto variable = [](Dims dims) {
    Tensor out = Tensor::deferred(Type::array(DType::kF32, std::move(dims)), nn::ones(), "w");
    out.set_requires_grad();
    out.impl().compute_dtype = DType::kBF16;
    return out;
  };
  const Tensor table = variable({3, 2});
  const Tensor bias = variable({2});
  const Tensor weight = variable({1, 2});
  const Tensor ids = Tensor::from<std::int32_t>({kCount}, std::vector<std::int32_t>(kCount, 1));
  const Tensor column = Tensor::ones(Type::array(DType::kBF16, {kCount, 1}));
  const Tensor all = embedding(table, ids) + bias + matmul(column, weight);
  EXPECT_EQ(all.dtype(), DType::kBF16);
  sum(all.to(DType::kF32)).backward();
  mark_step();
  EXPECT_EQ(table.grad().to_host(), Literal::from<float>({3, 2}, {0, 0, kCount, kCount, 0, 0}));
  EXPECT_EQ(bias.grad().to_host(), Literal::from<float>({2}, {kCount, kCount}));
  EXPECT_EQ(weight.grad().to_host(), Literal::from<float>({1, 2}, {kCount, kCount}));
}

}  // namespace
}  // namespace tessera::testing
