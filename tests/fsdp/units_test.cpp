// SPDX-License-Identifier: Apache-2.0
// Units: nested, frozen, tied, ignored; the dim that is sharded; padding; options and their errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/fsdp/spmd.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

using testing::error_of;

nn::GPT2Config tiny_gpt2(int layers) {
  nn::GPT2Config config;
  config.vocab_size = 16, config.n_positions = 4, config.n_embd = 8, config.n_layer = layers, config.n_head = 2;
  return config;
}

class OneArray : public nn::Module {
 public:
  explicit OneArray(Dims dims) {
    add_parameter("bias", Type::array(DType::kF32, std::move(dims)), [](Builder&, const Type&) { return Value(); });
  }
};

struct Storage {
  std::string sharding;
  std::int64_t padding = 0;
};
Storage storage_of_array(Dims dims, std::int64_t devices, const FsdpOptions& given = {}) {
  const FreshRank rank;
  plan_for_devices(devices);
  FsdpOptions options = given;
  options.mesh = Mesh({{"fsdp", devices}});
  OneArray module(std::move(dims));
  const auto units = fully_shard(module, options);
  const auto sharding = module.parameter("bias").sharding();
  return {sharding ? sharding->str() : "none", units.front().padding};
}

TEST(ShardedDim, IsTheFirstThatDividesAndNothingIsPadded) {
  EXPECT_EQ(storage_of_array({6, 4}, 2).sharding, "{fsdp,-}");
  EXPECT_EQ(storage_of_array({5, 4}, 2).sharding, "{-,fsdp}");
  EXPECT_EQ(storage_of_array({5, 7, 6}, 3).sharding, "{-,-,fsdp}");
  for (const Dims& dims : {Dims{6, 4}, Dims{5, 4}, Dims{3, 5, 16}}) EXPECT_EQ(storage_of_array(dims, 2).padding, 0);
}

TEST(ShardedDim, IsTheOneWithTheSmallestShardsIfNoneDivides) {
  EXPECT_EQ(storage_of_array({5, 3}, 4).sharding, "{-,fsdp}");  // 5 elements on a device; dim 0 would give 6
  EXPECT_EQ(storage_of_array({5, 3}, 4).padding, 4 * (4 * 5 - 15));
  EXPECT_EQ(storage_of_array({7}, 3).padding, 4 * 2);
}

TEST(ShardedDim, ABiasOfManyDevicesIsNotPaddedToTheirNumber) {
  // 75 elements on a device either way: 64 shards, each on 8 devices, hold no padding, and 512 shards would.
  const Storage bias = storage_of_array({3, 25, 64}, 512);
  EXPECT_EQ(bias.sharding, "{-,-,fsdp:(8)64}");
  EXPECT_EQ(bias.padding, 0);
}

TEST(ShardedDim, OptionsSelectIt) {
  EXPECT_EQ(storage_of_array({5, 4}, 2, {.shard_param_on_dim_0 = true}).sharding, "{fsdp,-}");
  EXPECT_EQ(storage_of_array({5, 4}, 2, {.shard_param_on_dim_0 = true}).padding, 4 * 4);
  FsdpOptions placed;
  placed.shard_placement_fn = [](const nn::NamedParameter&) { return 1; };
  EXPECT_EQ(storage_of_array({6, 4}, 2, placed).sharding, "{-,fsdp}");
  placed.shard_placement_fn = [](const nn::NamedParameter&) { return 2; };
  EXPECT_EQ(error_of([&] {
              storage_of_array({6, 4}, 2, placed);
            }),
            "shard_placement_fn: bias is f32[6,4], which has no dim 2 to shard");
}

TEST(ShardedDim, ANoteSaysWhatPaddingCosts) {
  const FreshRank rank;
  plan_for_devices(4);
  nn::Linear layer(3, 5);  // weight [3, 5], bias [5]
  const auto units = fully_shard(layer, {.mesh = Mesh({{"fsdp", 4}})});
  ASSERT_EQ(units.front().notes.size(), 1U);
  EXPECT_NE(units.front().notes.front().find("no dim divides: weight f32["), std::string::npos)
      << units.front().notes.front();
  EXPECT_NE(unit_report(units).find("note: padding takes"), std::string::npos);
}

TEST(NestedUnits, KeepTheirOwnOptionsBelowALaterRoot) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  nn::GPT2LMHeadModel model(tiny_gpt2(2));
  fully_shard(model.block(0), {.mesh = mesh, .reshard_after_forward = false});
  fully_shard(model.block(1), {.mesh = mesh});
  const auto recomputes = [&](const char* name) { return model.parameter(name).impl().unshard->recompute; };
  EXPECT_FALSE(recomputes("transformer.h.1.mlp.c_fc.weight"));  // a root keeps its parameters
  const auto units = fully_shard(model, {.mesh = mesh});
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(units[1].name, "transformer.h.0");
  EXPECT_FALSE(recomputes("transformer.h.0.mlp.c_fc.weight"));
  EXPECT_TRUE(recomputes("transformer.h.1.mlp.c_fc.weight"));
  EXPECT_FALSE(recomputes("transformer.wte.weight"));
  EXPECT_EQ(model.parameter("transformer.h.1.mlp.c_fc.weight").impl().unshard->unit, "transformer.h.1");
  EXPECT_EQ(units[0].elements + units[1].elements + units[2].elements, model.parameter_count());
}

TEST(NestedUnits, APolicyOnAModuleWithUnitsAndAListAreErrors) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  nn::GPT2LMHeadModel model(tiny_gpt2(1));
  fully_shard(model.block(0), {.mesh = mesh});
  EXPECT_EQ(error_of([&] { fully_shard(model, {.mesh = mesh, .auto_wrap_policy = always_wrap_policy()}); }),
            "transformer.h.0 is already an FSDP unit; an auto_wrap_policy needs a module without units below it");
  for (const auto& [path, module] : model.named_modules()) {
    if (!module->is_container()) continue;
    EXPECT_EQ(error_of([&, list = module] { fully_shard(*list, {.mesh = mesh}); }),
              "transformer.h is a ModuleList, which has no forward(): wrap its elements, or the module around it");
  }
}

TEST(NestedUnits, APolicyVisitsEveryLevelWithTheRemainingParameters) {
  const FreshRank rank;
  plan_for_devices(2);
  std::vector<std::string> asked;
  nn::GPT2LMHeadModel model(tiny_gpt2(1));
  const WrapPolicy policy = [&](const nn::Module& module, bool recurse, std::int64_t unwrapped) {
    if (module.class_name() == "GPT2Block" || module.class_name() == "GPT2MLP")
      asked.push_back(fmt::format("{} {} {}", module.class_name(), recurse, unwrapped));
    return recurse || module.class_name() == "GPT2MLP" || module.class_name() == "GPT2Block";
  };
  const auto units = fully_shard(model, {.mesh = Mesh({{"fsdp", 2}}), .auto_wrap_policy = policy});
  const int block = 12 * 64 + 13 * 8;
  const int mlp = 8 * 64 + 5 * 8;
  EXPECT_EQ(asked, (std::vector<std::string>{fmt::format("GPT2Block true {}", block),
                                             fmt::format("GPT2MLP true {}", mlp), fmt::format("GPT2MLP false {}", mlp),
                                             fmt::format("GPT2Block false {}", block - mlp)}));
  ASSERT_EQ(units.size(), 3U);
}

// The program of a step holds nothing for frozen parameters but their shards.
TEST(FrozenParameters, CostNoGradientNoReductionAndNoState) {
  const FreshRank rank;
  plan_for_devices(3);
  const Mesh mesh({{"fsdp", 3}});
  nn::GPT2Config config = tiny_gpt2(2);
  config.n_embd = 12, config.vocab_size = 15, config.n_head = 3;
  nn::GPT2LMHeadModel model(config);
  for (Tensor parameter : model.block(0).parameters()) parameter.set_requires_grad(false);
  const auto units = fully_shard(model, {.mesh = mesh});
  EXPECT_EQ(units[1].frozen, units[1].elements);
  EXPECT_EQ(units[2].frozen, 0);
  optim::AdamW optimizer(model.parameters(), {});
  const Tensor tokens = Tensor::abstract(Type::array(DType::kS32, {96, 4}), "tokens");
  mark_sharding(tokens, mesh, {"fsdp", {}});
  model(tokens, tokens).backward();
  optimizer.step();
  const StepPlan plan = plan_step();
  std::int64_t reductions = 0;
  for (const auto& note : plan.partitioned.notes) {
    const bool is_reduction = note.opcode == "reduce-scatter" || note.opcode == "all-reduce";
    const bool is_of_gradient = note.reason.find("gradient of ") != std::string::npos;
    reductions += is_reduction && is_of_gradient ? 1 : 0;
    EXPECT_EQ(note.reason.find("gradient of transformer.h.0."), std::string::npos) << note.reason;
  }
  std::int64_t trainable = 0;
  for (const Tensor& parameter : model.parameters()) trainable += parameter.requires_grad() ? 1 : 0;
  EXPECT_EQ(reductions, trainable);
  for (const Instruction& instruction : plan.global.entry_computation().instructions) {
    const bool is_input = instruction.op->role == Role::kParameter;
    const bool is_state_of_frozen =
        instruction.name.find("exp_avg") != std::string::npos && instruction.name.find("h.0.") != std::string::npos;
    EXPECT_FALSE(is_input && is_state_of_frozen) << instruction.name;
  }
  for (Tensor parameter : model.block(0).parameters()) EXPECT_TRUE(parameter.grad().is_null());
}

TEST(IgnoredParameters, AreNotSharded) {
  const FreshRank rank;
  plan_for_devices(2);
  nn::GPT2LMHeadModel model(tiny_gpt2(2));
  FsdpOptions options{.mesh = Mesh({{"fsdp", 2}})};
  options.ignored_modules = {&model.block(0)};
  options.ignored_parameters = [](const nn::NamedParameter& parameter) {
    return parameter.name.ends_with("wpe.weight");
  };
  const auto units = fully_shard(model, options);
  EXPECT_EQ(units.size(), 2U);
  EXPECT_FALSE(model.parameter("transformer.h.0.ln_1.weight").sharding());
  EXPECT_FALSE(model.parameter("transformer.wpe.weight").sharding());
  EXPECT_EQ(model.parameter("transformer.h.1.ln_1.weight").sharding()->str(), "{fsdp}");
}

TEST(ShardingGroups, AreThoseOfAxesOfTheMesh) {
  const FreshRank rank;
  plan_for_devices(6);
  const Mesh mesh({{"data", 2}, {"inner", 3}});
  FsdpOptions options{.mesh = mesh};
  options.sharding_groups = {{0, 1, 2}, {3, 4, 5}};
  nn::Linear layer(6, 12);
  EXPECT_EQ(error_of([&] { fully_shard(layer, options); }),
            "sharding_groups needs sharding_rank and sharding_world_size: the place of this rank in its group, and the "
            "size of the group");
  options.sharding_rank = 0, options.sharding_world_size = 2;
  EXPECT_EQ(
      error_of([&] { fully_shard(layer, options); }),
      "rank 0 is number 0 of the 3 ranks of its sharding group, but sharding_rank is 0 and sharding_world_size is 2");
  options.sharding_world_size = 3;
  fully_shard(layer, options);
  EXPECT_EQ(layer.parameter("bias").sharding()->str(), "{inner}");
  nn::Linear other(6, 12);
  options.sharding_groups = {{0, 1}, {2, 3}, {4, 5}};
  options.sharding_world_size = 2;
  EXPECT_NE(error_of([&] { fully_shard(other, options); }).find("must be the groups of axes of mesh<data=2, inner=3>"),
            std::string::npos);
}

TEST(Options, WithoutEffectAreNotedAndContradictionsAreErrors) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  nn::Linear layer(4, 4);
  FsdpOptions options{.mesh = mesh};
  options.flatten_parameters = true;
  const auto units = fully_shard(layer, options);
  ASSERT_EQ(units.front().notes.size(), 1U);
  EXPECT_EQ(units.front().notes.front(),
            "flatten_parameters has no effect: parameters keep their names and shapes, and the gathers of a unit are "
            "combined without a flat copy");
  nn::Linear other(4, 4);
  EXPECT_EQ(error_of([&] { fully_shard(other, {.mesh = mesh, .reshard_after_forward = 3}); }),
            "reshard_after_forward is 3: a number of devices must divide the 2 devices of fsdp");
  EXPECT_EQ(error_of([&] { fully_shard(other, {.mesh = mesh, .sharding_strategy = ShardingStrategy::kHybridShard}); }),
            "hybrid sharding shards over fsdp and replicates over data; mesh<fsdp=2> does not have both axes");
  EXPECT_EQ(error_of([] { (void)zero_stage(4); }), "ZeRO has the stages 0, 1, 2 and 3, got 4");
}

TEST(Options, TheWrapperCallableChangesUnitsAndTheInitializerNewModules) {
  const FreshRank rank;
  plan_for_devices(2);
  nn::GPT2LMHeadModel model(tiny_gpt2(2));
  FsdpOptions options{.mesh = Mesh({{"fsdp", 2}})};
  options.auto_wrapper_callable = [](nn::Module& module, FsdpOptions& own) {
    if (module.path() == "transformer.h.1") own.reshard_after_forward = false;
  };
  int initialized = 0;
  options.param_init_fn = [&](nn::Module& module) { initialized += module.class_name() == "LayerNorm" ? 1 : 0; };
  fully_shard(model, options);
  EXPECT_TRUE(model.parameter("transformer.h.0.ln_1.weight").impl().unshard->recompute);
  EXPECT_FALSE(model.parameter("transformer.h.1.ln_1.weight").impl().unshard->recompute);
  EXPECT_EQ(initialized, 5);
}

TEST(Wrapper, IsAModuleWithTheNamesOfTheModuleAndShowsUnitsShapesAndBytes) {
  const FreshRank rank;
  plan_for_devices(2);
  nn::GPT2LMHeadModel model(tiny_gpt2(1));
  model.parameter("transformer.wpe.weight").set_requires_grad(false);
  FullyShardedDataParallel wrapped(model, {.mesh = Mesh({{"fsdp", 2}})});
  nn::Module& as_module = wrapped;
  EXPECT_EQ(as_module.named_parameters().front().name, "transformer.wte.weight");
  EXPECT_EQ(as_module.parameter("transformer.h.0.ln_1.bias").name(), "transformer.h.0.ln_1.bias");
  EXPECT_EQ(as_module.parameter_count(), model.parameter_count());
  as_module.eval();
  EXPECT_FALSE(model.is_training());
  EXPECT_EQ(&wrapped->block(0), &model.block(0));
  std::ostringstream text;
  text << wrapped;
  for (const char* part : {"GPT2LMHeadModel 1048 parameters [unit root: ",
                           "(0) GPT2Block 872 parameters [unit transformer.h.0: 3.41KB gathered, 1.70KB per device]",
                           "weight f32[16,8] {fsdp,-}, 512.00B, 256.00B per device",
                           "weight f32[4,8] {fsdp,-}, 128.00B, 64.00B per device, frozen"})
    EXPECT_NE(text.str().find(part), std::string::npos) << part << "\n" << text.str();
}

TEST(Wrapper, AUnitThatTheForwardPassDoesNotUseIsAnError) {
  struct Two : nn::Callable<Two> {
    Two() {
      register_module("used", used);
      register_module("unused", unused);
    }
    Tensor forward(const Tensor& x) { return used(x); }
    nn::Linear used{4, 4}, unused{4, 4};
  };
  const FreshRank rank;
  plan_for_devices(2);
  Two two;
  FullyShardedDataParallel wrapped(
      two, {.mesh = Mesh({{"fsdp", 2}}), .auto_wrap_policy = transformer_auto_wrap_policy({"Linear"})});
  const Tensor x = Tensor::abstract(Type::array(DType::kF32, {2, 4}), "x");
  EXPECT_NE(error_of([&] {
              wrapped(x);
            }).find("unit unused (Linear) has 2 trained parameters, but the forward pass used none of them"),
            std::string::npos);
  for (Tensor parameter : two.unused.parameters()) parameter.set_requires_grad(false);
  wrapped(x);
}

TEST(SpmdWrapper, ShardsTheLargestDimAndTheRowsOfEveryResult) {
  struct TwoResults : nn::Callable<TwoResults> {
    TwoResults() { register_module("linear", linear); }
    std::pair<Tensor, Tensor> forward(const Tensor& x) {
      const Tensor y = linear(x);
      return {y, sum(y, {.dims = {1}})};
    }
    nn::Linear linear{4, 6};
  };
  const FreshRank rank;
  plan_for_devices(6);
  const Mesh mesh({{"data", 2}, {"fsdp", 3}});
  TwoResults module;
  SpmdFullyShardedDataParallel wrapped(module, {.mesh = mesh, .extra_data_axis = "data"});
  const auto& dims = module.linear.weight().dims();
  EXPECT_EQ(module.linear.weight().sharding()->str(), dims[0] == 6 ? "{fsdp,-}" : "{-,fsdp}");
  const auto [y, total] = wrapped(Tensor::abstract(Type::array(DType::kF32, {6, 4}), "x"));
  EXPECT_EQ(y.sharding()->str(), "{data+fsdp,-}");
  EXPECT_EQ(total.sharding()->str(), "{data+fsdp}");
  nn::Linear other(4, 6);
  EXPECT_EQ(error_of([&] {
              (void)SpmdFullyShardedDataParallel(other, {.mesh = Mesh({{"data", 6}})});
            }),
            "SpmdFullyShardedDataParallel needs a mesh with an axis fsdp; mesh<data=6> has none");
}

TEST(Metadata, NamesTheShardsOfEachDevice) {
  const FreshRank rank;
  plan_for_devices(3);
  nn::Linear layer(5, 7);
  fully_shard(layer, {.mesh = Mesh({{"fsdp", 3}}), .shard_param_on_dim_0 = true});
  const auto metadata = get_shard_metadata(layer);
  ASSERT_EQ(metadata.size(), 2U);
  const auto& bias = metadata[0].name == "bias" ? metadata[0] : metadata[1];
  EXPECT_EQ(bias.shard_dims, (Dims{3}));
  EXPECT_EQ(bias.starts, (std::vector<Dims>{{0}, {3}, {6}}));
  EXPECT_EQ(get_original_names_and_sharded_parameters(layer).size(), 2U);
  EXPECT_EQ(error_of([&] { (void)get_original_names_and_sharded_parameters(layer, "rot"); }),
            "Linear has no unit rot; did you mean \"root\"?");
}

}  // namespace
}  // namespace tessera
