// SPDX-License-Identifier: Apache-2.0
// Three ways to say one placement give one partitioned program: mark_sharding, DTensor's placements, and FSDP.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/sharding/placements.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/ir/text.h"
#include "tessera/nn/layers.h"
#include "tessera/passes/explanations.h"

namespace tessera {
namespace {

constexpr std::int64_t kDevices = 3, kSampleRows = 6, kInputs = 9, kOutputs = 12;

// Two linear layers, y = tanh(x w0) w1, with weights as `use` gives them.
Program partitioned_step(std::vector<Tensor> weights, const Mesh& mesh,
                         const std::function<Tensor(const Tensor&)>& use) {
  const Tensor x = Tensor::abstract(Type::array(DType::kF32, {kSampleRows, kInputs}), "x");
  mark_sharding(x, mesh, {"fsdp", {}});
  for (Tensor& weight : weights) weight.set_requires_grad();
  const Tensor scaled = x * 0.5;  // so that x is the first input in all forms
  const Tensor hidden = tanh(matmul(scaled, use(weights[0])));
  sum(square(matmul(hidden, use(weights[1])))).backward();
  return plan_step().partitioned.program;
}

std::vector<Tensor> new_weights() {
  return {Tensor::abstract(Type::array(DType::kF32, {kInputs, kOutputs}), "w0"),
          Tensor::abstract(Type::array(DType::kF32, {kOutputs, kInputs}), "w1")};
}

class TwoWeights : public nn::Module {
 public:
  explicit TwoWeights(const std::vector<Tensor>& weights) {
    register_parameter("w0", weights[0]);
    register_parameter("w1", weights[1]);
  }
};

// The program without the attributes that only tell where a mark comes from.
std::size_t hash_of_computation(Program program) {
  for (auto& ref : program.computations) {
    auto computation = std::make_shared<Computation>(*ref);
    for (Instruction& instruction : computation->instructions) instruction.notes = nullptr;
    ref = std::move(computation);
  }
  return program.hash();
}

Program by_fsdp(const Mesh& mesh) {
  const auto weights = new_weights();
  TwoWeights module(weights);
  fully_shard(module, {.mesh = mesh, .reshard_after_forward = false});
  return partitioned_step(weights, mesh, [](const Tensor& w) { return w; });
}

Program by_mark_sharding(const Mesh& mesh) {
  const auto weights = new_weights();
  for (const Tensor& weight : weights) mark_sharding(weight, mesh, {"fsdp", {}});
  return partitioned_step(weights, mesh, [&](const Tensor& w) { return with_sharding_constraint(w, mesh, {{}, {}}); });
}

Program by_placements(const Mesh& mesh) {
  std::vector<Tensor> weights;
  for (const Tensor& weight : new_weights()) weights.push_back(distribute_tensor(weight, mesh, {Shard(0)}));
  weights[0].set_name("w0");
  weights[1].set_name("w1");
  return partitioned_step(weights, mesh, [&](const Tensor& w) { return redistribute(w, mesh, {Replicate()}); });
}

TEST(OneLowering, MarksPlacementsAndFsdpGiveTheSamePartitionedProgram) {
  const auto program_of = [](Program (*make)(const Mesh&)) {
    const FreshRank rank;
    plan_for_devices(kDevices);
    const Mesh mesh({{"fsdp", kDevices}});
    set_default_mesh(mesh);
    return make(mesh);
  };
  const Program fsdp = program_of(by_fsdp);
  const Program marks = program_of(by_mark_sharding);
  const Program placements = program_of(by_placements);
  EXPECT_EQ(hash_of_computation(marks), hash_of_computation(placements)) << difference(marks, placements);
  EXPECT_EQ(hash_of_computation(fsdp), hash_of_computation(marks)) << difference(fsdp, marks);
}

// A model whose weights are marked by hand as FSDP stores them, without marks where they are used.
TEST(OneLowering, AStoredShardingAloneGivesTheBytesOfFsdpWithoutResharding) {
  const auto bytes_of = [](bool fsdp) {
    const FreshRank rank;
    plan_for_devices(kDevices);
    const Mesh mesh({{"fsdp", kDevices}});
    set_default_mesh(mesh);
    const auto weights = new_weights();
    TwoWeights module(weights);
    if (fsdp)
      fully_shard(module, {.mesh = mesh, .reshard_after_forward = false});
    else
      for (const Tensor& weight : weights) mark_sharding(weight, mesh, {"fsdp", {}});
    const Tensor x = Tensor::abstract(Type::array(DType::kF32, {300 * kSampleRows, kInputs}), "x");
    mark_sharding(x, mesh, {"fsdp", {}});
    sum(square(matmul(tanh(matmul(x, weights[0])), weights[1]))).backward();
    std::int64_t bytes = 0;
    for (const auto& note : plan_step().partitioned.notes) bytes += note.bytes;
    return bytes;
  };
  EXPECT_EQ(bytes_of(true), bytes_of(false));
}

TEST(Reports, NameParametersAndUnits) {
  const FreshRank rank;
  plan_for_devices(kDevices);
  const Mesh mesh({{"fsdp", kDevices}});
  nn::Linear layer(kInputs, kOutputs);
  fully_shard(layer, {.mesh = mesh});
  const Tensor x = Tensor::abstract(Type::array(DType::kF32, {300 * kSampleRows, kInputs}), "x");
  mark_sharding(x, mesh, {"fsdp", {}});
  sum(square(layer(x))).backward();
  std::vector<std::string> reasons;
  for (const auto& note : plan_step().partitioned.notes) {
    reasons.push_back(note.reason);
    EXPECT_EQ(note.reason.find("%sharding"), std::string::npos) << note.reason;
    EXPECT_EQ(note.reason.find("custom-call"), std::string::npos) << note.reason;
  }
  const auto has = [&](const std::string& text) {
    return std::find(reasons.begin(), reasons.end(), text) != reasons.end();
  };
  EXPECT_TRUE(has("weight in unit root must be {-,-}"));
  EXPECT_TRUE(has("gradient of weight must be {-,fsdp}") || has("gradient of weight must be {fsdp,-}"));
  EXPECT_TRUE(has("gradient of bias must be {fsdp}"));
}

}  // namespace
}  // namespace tessera
