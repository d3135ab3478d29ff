// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/layout_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "tessera/base/error.h"
#include "tessera/base/files.h"

namespace tessera::trainer {
namespace {

constexpr const char* kFiveBlocks =
    R"({"model_type": "gpt2", "n_embd": 24, "n_head": 3, "n_layer": 5, "n_positions": 12,
  "vocab_size": 40, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})";
constexpr const char* kFourExperts = R"({"model_type": "mixtral", "hidden_size": 16, "intermediate_size": 24,
  "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 2, "num_local_experts": 4,
  "num_experts_per_tok": 2, "max_position_embeddings": 8, "vocab_size": 32})";

// As files of Hugging Face: with the type of every layer.
constexpr const char* kFourLayerTypes = R"({"model_type": "qwen2", "hidden_size": 16, "intermediate_size": 24,
  "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 4, "max_position_embeddings": 8,
  "vocab_size": 32, "use_sliding_window": true, "sliding_window": 3,
  "layer_types": ["full_attention", "full_attention", "sliding_attention", "sliding_attention"]})";

LayoutSearchOptions options_of(const std::string& config, std::int64_t devices) {
  static int next = 0;
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tessera_layouts_{}_{}.json", getpid(), next++)).string();
  write_file(path, config);
  LayoutSearchOptions out;
  out.arguments.config_name = path;
  out.arguments.global_batch_size = 12;
  out.devices = devices;
  out.machine = MachineModel::load("cpu-node");
  return out;
}

std::set<std::string> meshes_of(const std::vector<LayoutPlan>& plans) {
  std::set<std::string> out;
  for (const LayoutPlan& plan : plans) out.insert(plan.layout.mesh());
  return out;
}

TEST(LayoutSearch, PlansEveryMeshOfThreeAxesInOrderOfTime) {
  const auto plans = find_layouts(options_of(kFiveBlocks, 6));
  // 6 = data * fsdp * model with at most 3 heads on the model axis.
  EXPECT_EQ(meshes_of(plans),
            (std::set<std::string>{"data=6", "fsdp=6", "data=3,fsdp=2", "data=2,fsdp=3", "data=3,model=2",
                                   "fsdp=3,model=2", "data=2,model=3", "fsdp=2,model=3"}));
  EXPECT_EQ(plans.size(), 8U);
  EXPECT_TRUE(std::is_sorted(plans.begin(), plans.end(),
                             [](const auto& a, const auto& b) { return a.cost.seconds < b.cost.seconds; }));
  for (const LayoutPlan& plan : plans) {
    EXPECT_TRUE(plan.fits);
    EXPECT_GT(plan.work_seconds, 0);
    double sum = plan.work_seconds;
    for (const auto& [axes, seconds] : plan.communication_seconds) sum += seconds;
    EXPECT_NEAR(sum, plan.cost.seconds, 1e-9 * plan.cost.seconds) << plan.layout.mesh();
    EXPECT_FALSE(plan.received_bytes.empty()) << plan.layout.mesh();
  }
}

TEST(LayoutSearch, LayersThatAreNotTracedCountAsTheTracedOnes) {
  LayoutSearchOptions five = options_of(kFiveBlocks, 2);
  const auto extrapolated = find_layouts(five);
  // The difference between four and five layers is that between two and three.
  const auto seconds = [&](std::int64_t layers) {
    LayoutSearchOptions other = five;
    other.arguments.config_overrides = fmt::format("n_layer={}", layers);
    for (const LayoutPlan& plan : find_layouts(other))
      if (plan.layout.mesh() == "data=2") return plan.cost.seconds;
    return 0.0;
  };
  const double three = seconds(3);
  EXPECT_GT(three, seconds(2));
  EXPECT_NEAR(seconds(5), three + 2 * (three - seconds(2)), 1e-9 * three);
}

TEST(LayoutSearch, LessMemoryTakesTheModesThatNeedLess) {
  constexpr int kDevices = 3;
  LayoutSearchOptions options = options_of(kFiveBlocks, kDevices);
  options.arguments.config_overrides = "n_layer=2";
  const auto free = find_layouts(options);
  const auto of_mesh = [](const std::vector<LayoutPlan>& plans, std::string_view mesh) {
    return *std::find_if(plans.begin(), plans.end(), [&](const auto& plan) { return plan.layout.mesh() == mesh; });
  };
  const std::string mesh = fmt::format("fsdp={}", kDevices);
  const LayoutPlan fast = of_mesh(free, mesh);
  EXPECT_FALSE(fast.layout.reshard_after_forward);
  EXPECT_FALSE(fast.layout.recompute);
  options.memory = fast.cost.peak_bytes - 1;
  const LayoutPlan less = of_mesh(find_layouts(options), mesh);
  EXPECT_TRUE(less.layout.reshard_after_forward);
  EXPECT_LT(less.cost.peak_bytes, fast.cost.peak_bytes);

  options.memory = 1;
  const auto none = find_layouts(options);
  EXPECT_FALSE(none.front().fits);
  EXPECT_TRUE(none.front().layout.recompute);
  EXPECT_TRUE(std::all_of(none.begin(), none.end(),
                          [&](const auto& plan) { return plan.cost.peak_bytes >= none.front().cost.peak_bytes; }));
}

TEST(LayoutSearch, ExpertsHaveAnAxis) {
  const auto plans = find_layouts(options_of(kFourExperts, 2));
  EXPECT_EQ(meshes_of(plans), (std::set<std::string>{"data=2", "fsdp=2", "expert=2", "model=2"}));
}

TEST(LayoutSearch, PlansAModelWithTheTypesOfItsLayers) {
  const auto plans = find_layouts(options_of(kFourLayerTypes, 2));
  EXPECT_EQ(meshes_of(plans), (std::set<std::string>{"data=2", "fsdp=2", "model=2"}));
}

TEST(LayoutSearch, FlagsAndCallsNameTheLayout) {
  const Layout layout{.data = 2, .fsdp = 3, .model = 3, .recompute = true};
  EXPECT_EQ(layout.flags(),
            "--mesh data=2,fsdp=3,model=3 --fsdp full_shard --tensor_parallel model --gradient_checkpointing true");
  const std::string calls = layout_calls(options_of(kFiveBlocks, 18), layout);
  EXPECT_NE(calls.find("const Mesh mesh = Mesh::parse(\"data=2,fsdp=3,model=3\", 18);"), calls.npos) << calls;
  EXPECT_NE(calls.find("mark_sharding(transformer.h.0."), calls.npos) << calls;
  EXPECT_EQ(calls.find("transformer.h.1."), calls.npos) << calls;
}

TEST(LayoutSearch, RefusesABatchWithoutRows) {
  LayoutSearchOptions options = options_of(kFiveBlocks, 8);
  options.arguments.global_batch_size = 0;
  EXPECT_THROW((void)find_layouts(options), Error);
  options.arguments.global_batch_size = 1;  // 8 devices, and at most 3 of them on the model axis
  EXPECT_THROW((void)find_layouts(options), Error);
}

}  // namespace
}  // namespace tessera::trainer
