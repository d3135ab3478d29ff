// SPDX-License-Identifier: Apache-2.0
// A program that needs more memory than a limit allows does not run, on any rank.
#include "executable/memory_check.h"  // of src/runtime

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "runtime/close.h"
#include "support/error_of.h"
#include "tessera/base/error.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {
namespace {

constexpr std::int64_t kMega = 1 << 20;

MemoryNeed need(std::int64_t more, std::uint64_t process, std::int64_t held, std::int64_t limit) {
  return {.more = more, .process = process, .held = held, .limit = limit};
}

TEST(MemoryCheck, RanksOfAProcessShareItsLimit) {
  const std::vector<MemoryNeed> two = {need(40 * kMega, 7, 10 * kMega, 100 * kMega),
                                       need(40 * kMega, 7, 10 * kMega, 100 * kMega)};
  EXPECT_EQ(memory_excess(two), "");
  std::vector<MemoryNeed> more = two;
  more[1].more += 11 * kMega;
  EXPECT_EQ(memory_excess(more),
            "the process of ranks 0, 1: 10.00MB in use and 91.00MB for the program make 101.00MB; TESSERA_MEMORY_LIMIT "
            "allows 100.00MB");
  more[1].process = 8;  // another process: each is below its own limit
  EXPECT_EQ(memory_excess(more), "");
}

TEST(MemoryCheck, ProcessesOfAMachineShareItsMemory) {
  MemoryNeed each{.more = 30 * kMega, .process = 1, .group = 5, .group_used = 20 * kMega, .group_limit = 100 * kMega};
  std::vector<MemoryNeed> needs(2, each);
  needs[1].process = 2;
  EXPECT_EQ(memory_excess(needs), "");
  needs.push_back(each);
  EXPECT_EQ(memory_excess(needs),
            "ranks 0, 1, 2: 20.00MB in use and 90.00MB for the program make 110.00MB; their control group has "
            "100.00MB");
  needs[2].group = 6;  // on another machine
  EXPECT_EQ(memory_excess(needs), "");
  EXPECT_EQ(memory_excess(std::vector<MemoryNeed>(3)), "") << "no limits";
}

TEST(MemoryLeft, IsDividedAmongTheRanksOfAProcessAndOfAGroup) {
  std::vector<MemoryNeed> needs = {need(0, 7, 10 * kMega, 100 * kMega), need(0, 7, 40 * kMega, 100 * kMega)};
  EXPECT_EQ(left_for_each(needs), 30 * kMega) << "of the 60 MB that the later measurement leaves";
  needs[1].process = 8;
  EXPECT_EQ(left_for_each(needs), 60 * kMega);
  for (MemoryNeed& one : needs) {
    one.group = 5;
    one.group_used = 20 * kMega;
    one.group_limit = 100 * kMega;
  }
  EXPECT_EQ(left_for_each(needs), 40 * kMega);
  needs[0].held = 110 * kMega;
  EXPECT_EQ(left_for_each(needs), -10 * kMega);
  EXPECT_EQ(left_for_each(std::vector<MemoryNeed>(3)), std::nullopt) << "no limits";
}

TEST(MemoryLeft, FollowsTheLimitOfTheProcess) {
  RankContext context(0, 1);  // with options of its own
  const RankScope scope(context);
  options().set("TESSERA_MEMORY_LIMIT", "0");
  EXPECT_EQ(memory_left(3, {}), std::nullopt);
  options().set("TESSERA_MEMORY_LIMIT", "1MB");
  EXPECT_LT(memory_left(3, {}), 0) << "this process holds more than a megabyte";
  options().set("TESSERA_MEMORY_LIMIT", "");
  const auto on_one = memory_left(4, {});
  const auto on_two = memory_left(4, {0, 0, 1, 1});
  ASSERT_TRUE(on_one && on_two);
  EXPECT_GT(*on_one, 0);
  EXPECT_NEAR(static_cast<double>(*on_two), 2.0 * static_cast<double>(*on_one), 0.2 * static_cast<double>(*on_two));
  run_virtual_ranks(2, [&](ProcessGroup& world) {
    const auto left = memory_left(world);
    ASSERT_TRUE(left);
    EXPECT_GT(*left, *on_one) << "fewer ranks share the machine";
  });
}

// A product whose intermediate value has 64 MB on each of two devices.
Program large_product() {
  return testing::read(R"(HloModule product, num_partitions=2
%add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY %main {
  %x = f32[4000,8] parameter(0)
  %zero = f32[] constant(0)
  %y = f32[4000,4000] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %sorted = f32[4000,4000] sort(%y), dimensions={1}, to_apply={ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
  %sum = f32[] reduce(%sorted, %zero), dimensions={0,1}, to_apply=%add
  ROOT %all = f32[] all-reduce(%sum), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, to_apply=%add
})");
}

TEST(MemoryCheck, ARunThatNeedsMoreThanTheLimitEndsOnAllRanksBeforeItStarts) {
  std::atomic<int> refused = 0;
  try {
    run_virtual_ranks(2, [&](ProcessGroup& world) {
      options().set("TESSERA_MEMORY_LIMIT", "60MB");  // of this rank
      ExecutableOptions how;
      how.use_cache = false;
      const auto executable = compile(large_product(), world, how);
      ASSERT_GT(executable->memory().arena, 60 * kMega);
      try {
        (void)executable->run({DeviceArray::uninitialized(Type::array(DType::kF32, {4000, 8}))});
      } catch (const Error& error) {
        ++refused;
        const std::string text = error.what();
        EXPECT_NE(text.find("program product does not fit into memory: the process of ranks 0, 1: "), text.npos)
            << text;
        EXPECT_NE(text.find("TESSERA_MEMORY_LIMIT allows 60.00MB"), text.npos) << text;
        EXPECT_NE(text.find("f32[4000,4000]"), text.npos) << text;
        throw;
      }
    });
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("does not fit into memory"), std::string::npos) << error.what();
  }
  EXPECT_EQ(refused, 2);
}

TEST(MemoryCheck, TheFirstRunAlsoChecksAProgramThatIsExpected) {
  const auto error_with = [](std::int64_t bytes) {
    std::array<std::string, 2> errors;
    run_virtual_ranks(2, [&](ProcessGroup& world) {
      options().set("TESSERA_MEMORY_LIMIT", fmt::format("{}B", process_memory() + 64 * kMega));
      ExpectedProgram later;
      later.name = "an evaluation";
      later.inputs = bytes;
      expect_program(later);
      ExecutableOptions how;
      how.use_cache = false;
      const auto executable = compile(testing::read(R"(HloModule twice, num_partitions=2
ENTRY %main { %x = f32[4] parameter(0) ROOT %y = f32[4] add(%x, %x) })"),
                                      world, how);
      errors.at(static_cast<std::size_t>(world.rank())) = testing::error_of(
          [&] { (void)executable->run({DeviceArray::uninitialized(Type::array(DType::kF32, {4}))}); });
    });
    EXPECT_EQ(errors[0], errors[1]);
    return errors[0];
  };
  EXPECT_EQ(error_with(20 * kMega), "no error") << "on each of two ranks";
  const std::string text = error_with(40 * kMega);
  EXPECT_TRUE(text.starts_with("an evaluation does not fit into memory: the process of ranks 0, 1: ")) << text;
}

}  // namespace
}  // namespace tessera
