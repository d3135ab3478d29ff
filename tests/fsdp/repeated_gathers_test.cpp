// SPDX-License-Identifier: Apache-2.0
// How often a step gathers the parameters of a unit: reshard_after_forward holds for several passes of one step and for
// checkpointed modules.
#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/on_ranks.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/layers.h"

namespace tessera {
namespace {

struct LayerPair : nn::Callable<LayerPair> {
  explicit LayerPair(bool checkpoints) : checkpoints_(checkpoints) {
    register_module("first", first);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) {
    Tensor y = x;
    for (nn::Linear* layer : {&first, &second}) {
      const auto run = [layer](const Tensor& v) { return tanh((*layer)(v)); };
      y = checkpoints_ ? checkpoint(run)(y) : run(y);
    }
    return y;
  }
  nn::Linear first{6, 6}, second{6, 6};

 private:
  bool checkpoints_;
};

struct StepForm {
  bool reshards = true;
  bool checkpoints = false;
  int passes = 1;  // forward and backward passes in the step
};

// The gathers of the weight of the second layer in one step.
std::int64_t gathers_of_second(const StepForm& form) {
  const FreshRank rank;
  plan_for_devices(3);
  const Mesh mesh({{"fsdp", 3}});
  LayerPair layers(form.checkpoints);
  fully_shard(layers, {.mesh = mesh,
                       .auto_wrap_policy = transformer_auto_wrap_policy({"Linear"}),
                       .reshard_after_forward = form.reshards});
  for (int i = 0; i < form.passes; ++i) {
    const Tensor x = Tensor::abstract(Type::array(DType::kF32, {300, 6}), fmt::format("x{}", i));
    mark_sharding(x, mesh, {"fsdp", {}});
    sum(square(layers(x))).backward();
  }
  const StepPlan plan = plan_step();
  return std::count_if(plan.partitioned.notes.begin(), plan.partitioned.notes.end(), [](const CollectiveNote& note) {
    return note.opcode == "all-gather" && note.reason.starts_with("second.weight in unit second ");
  });
}

TEST(RepeatedGathers, TheBackwardPassGathersAgainIfParametersAreResharded) {
  EXPECT_EQ(gathers_of_second({.reshards = true}), 2);
  EXPECT_EQ(gathers_of_second({.reshards = false}), 1);
}

TEST(RepeatedGathers, EachForwardPassOfAStepGathersAgainIfParametersAreResharded) {
  EXPECT_EQ(gathers_of_second({.reshards = true, .passes = 2}), 4);
  EXPECT_EQ(gathers_of_second({.reshards = true, .passes = 3}), 6);
  EXPECT_EQ(gathers_of_second({.reshards = false, .passes = 2}), 1);
}

// The backward pass computes the values of a checkpointed module again, but parameters that are kept are not gathered
// again for that.
TEST(RepeatedGathers, CheckpointedModulesAreGatheredAsOthers) {
  EXPECT_EQ(gathers_of_second({.reshards = true, .checkpoints = true}), 2);
  EXPECT_EQ(gathers_of_second({.reshards = false, .checkpoints = true}), 1);
}

// With gathers of different passes, the sums of the gradients are those of the batches one after the other.
TEST(RepeatedGathers, SeveralPassesOfAStepGiveTheSumOfTheirGradients) {
  on_ranks(2, [](int /*rank*/) {
    const Mesh mesh({{"fsdp", 2}});
    set_default_mesh(mesh);
    const auto batch = [&](int i) {
      std::vector<float> values;
      for (int k = 0; k < 24; ++k) values.push_back(0.1F * static_cast<float>((5 * k + 3 * i) % 11) - 0.5F);
      const Tensor x = Tensor::from<float>({4, 6}, values);
      mark_sharding(x, mesh, {"fsdp", {}});
      return x;
    };
    const auto gradient = [&](bool one_program) {
      manual_seed(5);
      LayerPair layers(true);
      fully_shard(layers, {.mesh = mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"Linear"})});
      for (int i = 0; i < 2; ++i) {
        sum(square(layers(batch(i)))).backward();
        if (!one_program) mark_step();
      }
      mark_step();
      return layers.parameter("second.weight").grad().to_vector<float>();
    };
    const auto together = gradient(true);
    const auto apart = gradient(false);
    ASSERT_EQ(together.size(), apart.size());
    for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(together[i], apart[i], 1e-4) << i;
  });
}

}  // namespace
}  // namespace tessera
