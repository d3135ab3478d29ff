// SPDX-License-Identifier: Apache-2.0
// The memory that fully sharded training needs on a rank, and the units that are gathered at the same time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "frontend/on_ranks.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/schedule/schedule.h"
#include "tessera/sharding/placement.h"
#include "training/gpt2_training.h"

namespace tessera::testing {
namespace {

TrainingCase case_on(std::int64_t devices, bool reshard_after_forward = true) {
  return {.mesh = fmt::format("fsdp={}", devices),
          .width = 24,
          .heads = 2,
          .layers = 4,
          .vocabulary = 37,
          .time = 6,
          .rows = 12,
          .reshard_after_forward = reshard_after_forward};
}

// FSDP shards the first dim that the devices divide, or dim 0 with padding.
std::int64_t padded_bytes(const Type& global, std::int64_t devices) {
  Dims dims = global.dims();
  const auto divides = std::find_if(dims.begin(), dims.end(), [&](std::int64_t size) { return size % devices == 0; });
  std::int64_t& size = divides == dims.end() ? dims[0] : *divides;
  size = ceil_div(size, devices);
  return Type::array(global.dtype(), dims).byte_size();
}

class Fsdp : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(Fsdp, EachRankStoresAnNthOfParametersGradientsAndStatePlusPadding) {
  const std::int64_t devices = GetParam();
  on_ranks(static_cast<int>(devices), [&](int) {
    Training training(case_on(devices));
    training.step(0);
    std::vector<Tensor> stored = training.model().parameters();
    for (const auto& state : training.optimizer().named_state()) stored.push_back(state.tensor);
    std::int64_t total = 0;
    std::int64_t held = 0;
    for (const auto& tensor : stored) {
      EXPECT_EQ(tensor.local_shard().type().byte_size(), padded_bytes(tensor.type(), devices)) << tensor.name();
      total += tensor.type().byte_size();
      held += tensor.local_shard().type().byte_size();
    }
    EXPECT_LE(static_cast<double>(held * devices), 1.1 * static_cast<double>(total));
  });
}

TEST_P(Fsdp, GradientsHaveTheShardingOfTheirParameters) {
  const std::int64_t devices = GetParam();
  on_ranks(static_cast<int>(devices), [&](int) {
    Training training(case_on(devices));
    const Tensor loss = training.gradients(0);
    mark_step();
    for (const auto& parameter : training.model().named_parameters()) {
      ASSERT_FALSE(parameter.tensor.grad().is_null()) << parameter.name;
      EXPECT_EQ(parameter.tensor.grad().local_shard().type(), parameter.tensor.local_shard().type()) << parameter.name;
    }
  });
}

// Returns, for each unit, the steps of the schedule during which one of its gathered values is in memory.
std::vector<std::set<std::string>> gathered_units(const Program& program, int* gathers) {
  const auto schedule = make_schedule(program);
  const Computation& entry = program.entry_computation();
  std::vector<std::set<std::string>> out(schedule->steps.size());
  for (Id id = 0; id < entry.size(); ++id) {
    if (entry[id].op->name != "all-gather" || entry[id].frontend_attribute("tessera.recompute") == nullptr) continue;
    const auto* unit = entry[id].frontend_attribute("tessera.unit");
    for (const Access& access : at(schedule->access, id)) {  // of each array in the collective
      ++*gathers;
      const Buffer& buffer = at(schedule->buffers, access.buffer);
      for (std::int32_t step = std::max(0, buffer.first); step <= buffer.last && step < isize(out); ++step)
        at(out, step).insert(unit == nullptr ? "?" : *unit);
    }
  }
  return out;
}

TEST_P(Fsdp, AtMostTheRootAndTwoOtherUnitsAreGatheredAtATime) {
  int gathers = 0;
  const auto alive = gathered_units(plan_of(case_on(GetParam())).partitioned.program, &gathers);
  EXPECT_GE(gathers, 2 * 4 * 4) << "each of four units is gathered, its weights at least, in both passes";
  std::size_t most = 0;
  std::set<std::string> seen;
  for (auto units : alive) {
    seen.insert(units.begin(), units.end());
    units.erase("root");
    most = std::max(most, units.size());
  }
  EXPECT_EQ(seen, (std::set<std::string>{"root", "transformer.h.0", "transformer.h.1", "transformer.h.2",
                                         "transformer.h.3"}));
  EXPECT_LE(most, 2U);
  EXPECT_GE(most, 1U);
}

TEST(FsdpWithoutResharding, KeepsEveryUnitGatheredFromForwardToBackward) {
  int gathers = 0;
  std::size_t most = 0;
  for (auto units : gathered_units(plan_of(case_on(2, false)).partitioned.program, &gathers)) {
    units.erase("root");
    most = std::max(most, units.size());
  }
  EXPECT_EQ(most, 4U);
}

TEST_P(Fsdp, AGradientIsReduceScatteredOnceAndNeverAllReduced) {
  const std::int64_t devices = GetParam();
  const FreshRank rank;
  plan_for_devices(devices);
  Training training(case_on(devices));
  const Tensor loss = training.record(0);
  const StepPlan plan = plan_step();
  for (const auto& instruction : plan.partitioned.program.entry_computation().instructions) {
    if (instruction.op->name == "all-reduce") {
      for (const Type& leaf : instruction.type.leaves()) EXPECT_EQ(leaf.element_count(), 1) << instruction.name;
    }
  }
  std::int64_t gradients = 0;
  for (const auto& parameter : training.model().parameters())
    gradients += devices * padded_bytes(parameter.type(), devices);
  std::int64_t reduced = 0;
  for (const auto& kind : program_stats(plan.partitioned.program).collectives)
    if (kind.opcode == "reduce-scatter") reduced = kind.bytes;
  EXPECT_GT(reduced, 0);
  EXPECT_LE(reduced, gradients * (devices - 1) / devices);
}

INSTANTIATE_TEST_SUITE_P(Devices, Fsdp, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace tessera::testing
