// SPDX-License-Identifier: Apache-2.0
// Dummies for the forward pass, the gathers, the reductions and the barriers: which collectives remain, that values have
// the right types, and that a warning says that results are wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/ir/op_def.h"
#include "tessera/nn/batch_norm.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

constexpr std::int64_t kDebuggedDevices = 3;

nn::GPT2Config debugged_gpt2() {
  nn::GPT2Config config;
  config.vocab_size = 15, config.n_positions = 6, config.n_embd = 12, config.n_layer = 2, config.n_head = 3;
  return config;
}

struct DebuggedPlan {
  StepPlan step;
  Type loss;

  // The collectives whose reason contains the text.
  [[nodiscard]] std::int64_t count(std::string_view text) const {
    return std::count_if(step.partitioned.notes.begin(), step.partitioned.notes.end(),
                         [&](const CollectiveNote& note) { return note.reason.find(text) != std::string::npos; });
  }
  [[nodiscard]] std::int64_t gathers() const { return count(" in unit "); }
  [[nodiscard]] std::int64_t reductions() const { return count("gradient of "); }
  // Barriers over a parameter and a gradient.
  [[nodiscard]] std::int64_t barriers() const {
    const auto& all = step.global.entry_computation().instructions;
    return std::count_if(all.begin(), all.end(),
                         [](const Instruction& i) { return i.op->role == Role::kOptBarrier && i.type.is_tuple(); });
  }
};

// A forward and a backward pass of a small GPT-2.
DebuggedPlan plan_debugged(FsdpOptions options) {
  const FreshRank rank;
  plan_for_devices(kDebuggedDevices);
  options.mesh = Mesh({{"fsdp", kDebuggedDevices}});
  nn::GPT2LMHeadModel model(debugged_gpt2());
  FullyShardedDataParallel wrapped(model, options);
  const Tensor tokens = Tensor::abstract(Type::array(DType::kS32, {96, 6}), "tokens");
  mark_sharding(tokens, *options.mesh, {"fsdp", {}});
  const Tensor loss = wrapped(tokens, tokens);
  loss.backward();
  return {plan_step(), loss.type()};
}

FsdpOptions with_debug(const FsdpDebugOptions& debug) {
  FsdpOptions options;
  options.debug = debug;
  return options;
}

TEST(DebugOptions, DummyGathersLeaveTheReductions) {
  const DebuggedPlan plain = plan_debugged({});
  const DebuggedPlan dummy = plan_debugged(with_debug({.dummy_all_gather_op = true}));
  EXPECT_GT(plain.gathers(), 30);
  EXPECT_EQ(dummy.gathers(), 0);
  EXPECT_GT(plain.reductions(), 20);
  EXPECT_EQ(dummy.reductions(), plain.reductions());
}

TEST(DebugOptions, DummyReductionsLeaveTheGathers) {
  const DebuggedPlan plain = plan_debugged({});
  const DebuggedPlan dummy = plan_debugged(with_debug({.dummy_reduce_scatter_op = true}));
  EXPECT_EQ(dummy.reductions(), 0);
  EXPECT_EQ(dummy.gathers(), plain.gathers());
}

TEST(DebugOptions, DummyReductionsApplyToGradientsOfUnshardedParametersToo) {
  FsdpOptions options = with_debug({.dummy_reduce_scatter_op = true});
  options.sharding_strategy = ShardingStrategy::kNoShard;
  const DebuggedPlan dummy = plan_debugged(options);
  options.debug = {};
  const DebuggedPlan plain = plan_debugged(options);
  const auto reduced_bytes = [](const DebuggedPlan& plan) {
    std::int64_t bytes = 0;
    for (const CollectiveNote& note : plan.step.partitioned.notes) bytes += note.bytes;
    return bytes;
  };
  EXPECT_GT(reduced_bytes(plain), 10'000);
  EXPECT_LT(reduced_bytes(dummy), reduced_bytes(plain) / 4);
}

TEST(DebugOptions, DummyBarriersKeepTheRepeatedGathers) {
  const DebuggedPlan plain = plan_debugged({});
  const DebuggedPlan dummy = plan_debugged(with_debug({.dummy_optimization_barrier_op = true}));
  EXPECT_EQ(dummy.gathers(), plain.gathers());
  EXPECT_GT(plain.barriers(), 0);
  EXPECT_EQ(dummy.barriers(), 0);
}

TEST(DebugOptions, ADummyForwardPassGathersAndReducesButHardlyComputes) {
  const DebuggedPlan plain = plan_debugged({});
  const DebuggedPlan dummy = plan_debugged(with_debug({.dummy_forward_pass = true}));
  EXPECT_EQ(dummy.loss, plain.loss);
  for (const char* name : {"transformer.h.0.mlp.c_fc.weight", "transformer.h.1.ln_2.bias"}) {
    EXPECT_EQ(dummy.count(fmt::format("{} in unit ", name)), 2) << name;  // in both passes
    EXPECT_EQ(dummy.count(fmt::format("gradient of {} ", name)), 1) << name;
  }
  EXPECT_EQ(dummy.count("lm_head.weight in unit root"), 1);
  const auto flops = [](const DebuggedPlan& plan) {
    return program_stats(plan.step.partitioned.program).flops_per_device;
  };
  EXPECT_LT(flops(dummy), flops(plain) / 5);
}

TEST(DebugOptions, ApplyToOneUnitIfTheWrapperCallableSetsThem) {
  FsdpOptions options;
  options.auto_wrapper_callable = [](nn::Module& module, FsdpOptions& own) {
    own.debug.dummy_all_gather_op = module.path() == "transformer.h.1";
  };
  const DebuggedPlan dummy = plan_debugged(options);
  EXPECT_GT(dummy.count(" in unit transformer.h.0 "), 0);
  EXPECT_GT(dummy.count(" in unit root "), 0);
  EXPECT_EQ(dummy.count(" in unit transformer.h.1 "), 0);
}

struct WeightTwice : nn::Callable<WeightTwice> {
  WeightTwice() { weight = register_parameter("weight", Tensor::from<float>({4}, std::vector<float>{0, 1, 2, 3})); }
  Tensor forward() { return weight * 2.0; }
  Tensor weight;
};

TEST(DebugOptions, ADummyGatherRepeatsTheShardOfTheRank) {
  on_ranks(2, [](int rank) {
    const Mesh mesh({{"fsdp", 2}});
    set_default_mesh(mesh);
    WeightTwice module;
    fully_shard(module, {.mesh = mesh, .debug = {.dummy_all_gather_op = true}});
    const Tensor result = with_sharding_constraint(module(), mesh, PartitionSpec{PartitionSpec::Entry()});
    mark_step();
    const Literal own = result.local_shard();
    const std::vector<float> values(own.data<float>().begin(), own.data<float>().end());
    EXPECT_EQ(values, rank == 0 ? (std::vector<float>{0, 2, 0, 2}) : (std::vector<float>{4, 6, 4, 6}));
  });
}

struct NormAndCount : nn::Callable<NormAndCount> {
  NormAndCount() {
    register_module("linear", linear);
    register_module("norm", norm);
  }
  std::pair<Tensor, Tensor> forward(const Tensor& x) {
    const Tensor y = norm(linear(x));
    return {y.to(DType::kBF16), sum(y > 0.0, 1)};
  }
  nn::Linear linear{4, 6};
  nn::BatchNorm1d norm{6};
};

TEST(DebugOptions, ADummyForwardPassKeepsTypesAndBuffersAndGivesEveryInputAGradient) {
  on_ranks(2, [](int /*rank*/) {
    const Mesh mesh({{"fsdp", 2}});
    set_default_mesh(mesh);
    NormAndCount net;
    fully_shard(net, {.mesh = mesh, .debug = {.dummy_forward_pass = true}});
    Tensor x = Tensor::from<float>({2, 4}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
    x.set_requires_grad();
    const auto [y, count] = net(x);
    EXPECT_EQ(y.type(), Type::array(DType::kBF16, {2, 6}));
    EXPECT_EQ(count.type(), Type::array(DType::kS32, {2}));
    sum(y.to(DType::kF32)).backward();
    mark_step();
    EXPECT_EQ(net.norm.running_mean().to_vector<float>(), std::vector<float>(6, 0));
    const auto nonzero = [](const Tensor& gradient) {
      const auto values = gradient.to_vector<float>();
      return std::any_of(values.begin(), values.end(), [](float value) { return value != 0; });
    };
    EXPECT_TRUE(nonzero(x.grad()));
    EXPECT_TRUE(nonzero(net.linear.parameter("weight").grad()));
    EXPECT_EQ(net.linear.parameter("weight").grad().dims(), net.linear.parameter("weight").dims());
  });
}

// The lines on standard error, and the notes, of fully_shard() with these options and of one forward pass.
std::pair<std::string, std::vector<std::string>> printed_by(const FsdpOptions& given) {
  const FreshRank rank;
  plan_for_devices(2);
  FsdpOptions options = given;
  options.mesh = Mesh({{"fsdp", 2}});
  options.auto_wrap_policy = transformer_auto_wrap_policy({"Linear"});
  NormAndCount net;
  ::testing::internal::CaptureStderr();
  const auto units = fully_shard(net, options);
  (void)net(Tensor::abstract(Type::array(DType::kF32, {2, 4}), "x"));
  return {::testing::internal::GetCapturedStderr(), units.front().notes};
}

TEST(DebugOptions, AWarningAndANoteSayOnceThatResultsAreWrong) {
  const auto [text, notes] = printed_by(with_debug({.dummy_all_gather_op = true, .dummy_reduce_scatter_op = true}));
  const std::string expected =
      "debug options of FSDP replace work by dummies (dummy_all_gather_op, dummy_reduce_scatter_op), in units root and "
      "1 "
      "more: ALL RESULTS ARE WRONG, and only memory and time mean anything";
  EXPECT_EQ(text, "warning: " + expected + "\n");
  EXPECT_EQ(notes, std::vector<std::string>{expected});
  EXPECT_EQ(printed_by(with_debug({.dummy_optimization_barrier_op = true})).first, "");
  EXPECT_EQ(printed_by({}).first, "");
}

TEST(DebugOptions, PrintNamesUnitsAndForwardPasses) {
  EXPECT_EQ(printed_by(with_debug({.msg = "mine", .print = true})).first,
            "mine: unit root (NormAndCount) has 42 parameters, with those of units below it\n"
            "mine: unit linear (Linear) has 30 parameters, with those of units below it\n"
            "mine: forward pass of unit root (NormAndCount) with f32[2,4]\n"
            "mine: forward pass of unit linear (Linear) with f32[2,4]\n");
}

struct NoTensor : nn::Callable<NoTensor> {
  NoTensor() { register_module("linear", linear); }
  int forward(const Tensor& x) { return linear(x).ndim(); }
  nn::Linear linear{4, 4};
};

TEST(DebugOptions, ADummyForwardPassWithoutATensorToReplaceIsAnError) {
  const FreshRank rank;
  plan_for_devices(2);
  NoTensor module;
  fully_shard(module, {.mesh = Mesh({{"fsdp", 2}}), .debug = {.dummy_forward_pass = true}});
  const Tensor x = Tensor::abstract(Type::array(DType::kF32, {2, 4}), "x");
  const std::string error = testing::error_of([&] { (void)module(x); });
  EXPECT_NE(error.find("dummy_forward_pass: NoTensor returns no tensor, pair, tuple or vector of tensors to replace"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace tessera
