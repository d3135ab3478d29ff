// SPDX-License-Identifier: Apache-2.0
// Every strategy, several axes on one mesh, no_sync, clipping and accumulation give the course of one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>

#include "frontend/on_ranks.h"
#include "support/sanitizers.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

constexpr std::int64_t kLength = 6;

nn::GPT2Config odd_gpt2() {
  nn::GPT2Config config;
  config.vocab_size = 13, config.n_positions = kLength, config.n_embd = 12, config.n_layer = 2, config.n_head = 3;
  config.dtype = DType::kF64, config.initializer_range = 0.2;
  return config;
}

struct Plan {
  std::string name;
  std::string mesh = "data=1";
  std::optional<ShardingStrategy> strategy{};
  ReshardAfterForward reshard = true;
  bool tensor_parallel = false;
  bool defers = false;       // no_sync for all micro-batches but the last
  bool one_program = false;  // all micro-batches in one step
  double norm_type = 2;
};
void PrintTo(const Plan& plan, std::ostream* out) { *out << plan.name; }

Tensor rows_of(const Mesh& mesh, int number, std::int64_t rows) {
  std::vector<std::int32_t> values;
  for (int i = 0; i < rows * kLength; ++i) values.push_back((7 * i + 3 * number + i * i / 5) % 13);
  const Tensor tokens = Tensor::from<std::int32_t>({rows, kLength}, values);
  SpecEntry axes;
  for (const auto& axis : mesh.axes())
    if (axis.name != "model") axes.push_back(axis.name);
  mark_sharding(tokens, mesh, PartitionSpec({PartitionSpec::Entry(axes), PartitionSpec::Entry()}));
  return tokens;
}

struct Results {
  std::vector<double> losses, norms;
  std::vector<double> parameters;  // after the last step
};

constexpr double kRowsOfMicroBatch[] = {5, 3, 4};

// Micro-batches of different sizes, each weighted by its tokens.
Results train_on_this_rank(const Plan& plan) {
  const Mesh mesh = Mesh::parse(plan.mesh);
  set_default_mesh(mesh);
  manual_seed(7);
  nn::GPT2LMHeadModel model(odd_gpt2());
  if (plan.tensor_parallel) nn::shard_tensor_parallel(model, mesh, "model");
  FullyShardedDataParallel wrapped(
      model, {.mesh = mesh, .reshard_after_forward = plan.reshard, .sharding_strategy = plan.strategy});
  optim::AdamW optimizer(wrapped.parameters(), {.learning_rate = 1e-3, .weight_decay = 0.1});
  const double all_rows = std::accumulate(std::begin(kRowsOfMicroBatch), std::end(kRowsOfMicroBatch), 0.0);
  Results out;
  for (int step = 0; step < 2; ++step) {
    std::vector<Tensor> losses;
    for (int i = 0; i < 3; ++i) {
      std::optional<NoSync> deferred;
      if (plan.defers && i < 2) deferred.emplace(wrapped.no_sync());
      const auto rows = static_cast<std::int64_t>(kRowsOfMicroBatch[i]);
      const MicroBatch part(i * 5);
      const Tensor tokens = rows_of(mesh, 3 * step + i, rows);
      const Tensor loss = wrapped(tokens, tokens) * (kRowsOfMicroBatch[i] / all_rows);
      loss.backward();
      losses.push_back(loss);
      if (!plan.one_program && i < 2) mark_step();
    }
    const Tensor norm = wrapped.clip_grad_norm_(0.05, plan.norm_type);
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
    double total = 0;
    for (const Tensor& loss : losses) total += loss.item();
    out.losses.push_back(total);
    out.norms.push_back(norm.item());
  }
  for (const auto& literal : read_all(wrapped.parameters()))
    out.parameters.insert(out.parameters.end(), literal.data<double>().begin(), literal.data<double>().end());
  return out;
}

Results train(const Plan& plan) {
  Results out;
  std::mutex guard;
  on_ranks(static_cast<int>(Mesh::parse(plan.mesh).device_count()), [&](int rank) {
    Results mine = train_on_this_rank(plan);
    const std::lock_guard lock(guard);
    if (rank == 0) out = std::move(mine);
  });
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], 1e-9 * std::max(1.0, std::fabs(wanted[i]))) << what << " " << i;
}

class Strategies : public ::testing::TestWithParam<Plan> {};

TEST_P(Strategies, GiveTheLossesNormsAndParametersOfOneRank) {
  static std::map<double, Results> of_one_rank;  // by norm
  const auto [known, fresh] = of_one_rank.try_emplace(GetParam().norm_type);
  if (fresh) known->second = train({.name = "one", .norm_type = GetParam().norm_type});
  const Results& expected = known->second;
  const Results got = train(GetParam());
  expect_near(got.losses, expected.losses, "loss");
  expect_near(got.norms, expected.norms, "norm");
  expect_near(got.parameters, expected.parameters, "parameter");
}

constexpr double kMaximumNorm = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    All, Strategies,
    ::testing::ValuesIn(tessera::testing::cases_of<Plan>(
        {Plan{.name = "Zero0", .mesh = "fsdp=3", .strategy = ShardingStrategy::kNoShard},
         Plan{.name = "Zero1", .mesh = "fsdp=3", .strategy = ShardingStrategy::kShardOptimizer},
         Plan{.name = "Zero2", .mesh = "fsdp=2", .strategy = ShardingStrategy::kShardGradOp},
         Plan{.name = "Zero3InfinityNorm",
              .mesh = "fsdp=4",
              .strategy = ShardingStrategy::kFullShard,
              .norm_type = kMaximumNorm},
         Plan{.name = "Hybrid2x3", .mesh = "data=2,fsdp=3", .strategy = ShardingStrategy::kHybridShard},
         Plan{.name = "ReshardWithin2Of4", .mesh = "fsdp=4", .reshard = 2},
         Plan{.name = "ReshardWithin3Of6DeferredSums", .mesh = "fsdp=6", .reshard = 3, .defers = true},
         Plan{.name = "NoSyncOverPrograms", .mesh = "fsdp=3", .defers = true},
         Plan{.name = "NoSyncInOneProgram", .mesh = "fsdp=2", .defers = true, .one_program = true},
         Plan{.name = "NoSyncOfReplicas", .mesh = "data=3", .strategy = ShardingStrategy::kNoShard, .defers = true},
         Plan{.name = "NoSyncBesideTensorParallelism",
              .mesh = "data=2,model=3",
              .tensor_parallel = true,
              .defers = true,
              .norm_type = 1}})),
    [](const auto& info) { return info.param.name; });

/// The collectives of the micro-batch before the last one.
StepPlan plan_of_micro_batch(bool defers, std::optional<ShardingStrategy> strategy, std::int64_t devices = 3) {
  plan_for_devices(devices);
  const Mesh mesh({{"fsdp", devices}});
  nn::GPT2LMHeadModel model(odd_gpt2());
  FullyShardedDataParallel wrapped(model, {.mesh = mesh, .sharding_strategy = strategy});
  optim::AdamW optimizer(wrapped.parameters(), {});
  std::optional<NoSync> deferred;
  if (defers) deferred.emplace(wrapped.no_sync());
  const Tensor tokens = Tensor::abstract(Type::array(DType::kS32, {6, kLength}), "tokens");
  mark_sharding(tokens, mesh, {"fsdp", {}});
  wrapped(tokens, tokens).backward();
  return plan_step();
}

std::int64_t bytes_of(const StepPlan& plan, std::string_view opcode) {
  std::int64_t bytes = 0;
  for (const auto& note : plan.partitioned.notes) bytes += note.opcode == opcode ? note.bytes : 0;
  return bytes;
}

TEST(NoSyncProgram, ReducesNoGradient) {
  const FreshRank rank;
  const StepPlan reduced = plan_of_micro_batch(false, std::nullopt);
  EXPECT_GT(bytes_of(reduced, "reduce-scatter"), 10'000);
}

TEST(NoSyncProgram, KeepsPartialGradients) {
  const FreshRank rank;
  const StepPlan deferred = plan_of_micro_batch(true, std::nullopt);
  EXPECT_EQ(bytes_of(deferred, "reduce-scatter"), 0);
  EXPECT_LE(bytes_of(deferred, "all-reduce"), 64);  // the loss
}

TEST(ZeroStages, DifferInTheBytesOfStateAndInTheCollectives) {
  const auto collectives = [](int stage) {
    const FreshRank rank;
    return plan_of_micro_batch(false, zero_stage(stage));
  };
  EXPECT_EQ(bytes_of(collectives(0), "all-gather"), 0);
  EXPECT_EQ(bytes_of(collectives(1), "all-gather"), 0);
  EXPECT_GT(bytes_of(collectives(0), "all-reduce"), bytes_of(collectives(2), "reduce-scatter"));
  // Stage 3 gathers the blocks twice, and the root once.
  EXPECT_GT(bytes_of(collectives(3), "all-gather"), bytes_of(collectives(2), "all-gather"));
}

TEST(ReshardAfterForward, ANumberGathersWithinTheGroupInTheBackwardPass) {
  const FreshRank rank;
  plan_for_devices(6);
  const Mesh mesh({{"fsdp", 6}});
  nn::GPT2LMHeadModel model(odd_gpt2());
  fully_shard(model, {.mesh = mesh, .reshard_after_forward = 3});
  const auto& weight = model.parameter("transformer.h.0.mlp.c_fc.weight").impl();
  EXPECT_EQ(weight.node->sharding->str(), "{fsdp:(2)3+fsdp:(1)2,-}");
  EXPECT_EQ(weight.unshard->kept->str(), "{fsdp:(2)3,-}");
  const Tensor tokens = Tensor::abstract(Type::array(DType::kS32, {6, kLength}), "tokens");
  mark_sharding(tokens, mesh, {"fsdp", {}});
  model(tokens, tokens).backward();
  const StepPlan plan = plan_step();
  bool has_inner = false;
  for (const auto& note : plan.partitioned.notes) has_inner = has_inner || note.axes == "fsdp:(2)3";
  EXPECT_TRUE(has_inner);
}

TEST(SyncOnFinalization, EndsTheStepWithBackward) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(odd_gpt2());
  const Mesh mesh({{"fsdp", 1}});
  fully_shard(model, {.mesh = mesh, .sync_on_finalization = true});
  const Tensor tokens = rows_of(mesh, 0, 2);
  const std::int64_t before = lazy_counters().mark_steps;
  model(tokens, tokens).backward();
  EXPECT_EQ(lazy_counters().mark_steps, before + 1);
}

TEST(GradientDivideFactors, ScaleGradients) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(odd_gpt2());
  model.eval();
  const Mesh mesh({{"fsdp", 1}});
  FullyShardedDataParallel wrapped(model, {.mesh = mesh});
  const Tensor tokens = rows_of(mesh, 0, 2);
  const Tensor weight = model.parameter("transformer.wpe.weight");
  wrapped(tokens, tokens).backward();
  const std::vector<double> plain = weight.grad().to_vector<double>();
  model.zero_grad();
  wrapped.set_gradient_divide_factors(2, 4, 2);
  wrapped(tokens, tokens).backward();
  const std::vector<double> scaled = weight.grad().to_vector<double>();
  ASSERT_EQ(plain.size(), scaled.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(scaled[i], plain[i] / 4, 1e-12 * std::fabs(plain[i]));
}

TEST(RootMethods, OnAUnitBelowAreErrors) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(odd_gpt2());
  fully_shard(model, {.mesh = Mesh({{"fsdp", 1}})});
  try {
    clip_grad_norm_(model.block(1), 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "clip_grad_norm_ is for the root unit, but transformer.h.1 is a unit below it: call it on the module "
                 "that was wrapped last");
  }
  EXPECT_THROW(NoSync scope(model.block(1)), Error);
}

}  // namespace
}  // namespace tessera
