// SPDX-License-Identifier: Apache-2.0
// Random programs with random shardings: the partitioned program equals the unpartitioned one, and faults planted into
// the partitioned program are found. `random_programs` does the same for longer (docs/internals/debugging.md).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "random/faults.h"
#include "random/noise_result.h"
#include "random/random_program.h"
#include "random/run_cases.h"
#include "random/shrink.h"
#include "support/sanitizers.h"

#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/passes/passes.h"

namespace tessera::testing {
namespace {

TEST(RandomProgram, PartitionedEqualsUnpartitioned) {
  const RunReport report = run_cases({.seed = 0, .cases = cases_here(300), .most_failures = 3});
  for (const auto& failure : report.failures) ADD_FAILURE() << failure;
  EXPECT_GE(report.with_collective * 10, report.cases * 7) << "too few cases hold a collective";
  EXPECT_GT(report.on_ranks, 5 / kSanitizedShare);
}

TEST(RandomProgram, EveryOpOccursWithEveryPossibleKindOfSharding) {
  CaseTable table;
  for (std::int64_t i = 0; i < feature_count(); ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const Program program = random_program(seed);
    table.count(program);
    if (i % (4 * kSanitizedShare) == 0) {
      ASSERT_EQ(failure_of(program, Trial::kPartition), "") << "seed " << seed << "\n" << print_program(program);
    }
  }
  EXPECT_EQ(fmt::format("{}", fmt::join(table.empty_cells(), "\n")), "");
}

// Programs that the generator found: each file describes the fault.
TEST(RandomProgram, PastFailuresPass) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_RANDOM_FAILURES)) {
    const Program program = parse_program(read_file(entry.path()), op_table(), {.file_name = entry.path()});
    for (const Trial trial : {Trial::kValues, Trial::kRanks}) EXPECT_EQ(failure_of(program, trial), "") << entry.path();
    ++files;
  }
  EXPECT_GE(files, 9);
}

TEST(RandomProgram, PrintsAndReadsBackEqualBeforeAndAfterPartitioning) {
  for (int seed = 0; seed < cases_here(40); ++seed) {
    const Program program = random_program(static_cast<std::uint64_t>(seed));
    PartitionOptions options;
    options.dump = [&](const std::string& pass, const Program& p) {
      EXPECT_EQ(difference(p, parse_program(print_program(p), op_table())), "") << "seed " << seed << " after " << pass;
    };
    partition(program, options);
  }
}

// The first passes of partition() on the global program, one after another.
TEST(RandomProgram, SimplifyingPassesKeepEveryValue) {
  const std::pair<const char*, Program (*)(const Program&)> passes[] = {{"inline_calls", inline_calls},
                                                                        {"simplify", simplify},
                                                                        {"merge_duplicates", merge_duplicates},
                                                                        {"simplify_branches", simplify_branches},
                                                                        {"simplify_loops", simplify_loops}};
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Program before = make_synchronous(random_program(seed));
    const bool has_region = std::any_of(before.computations.begin(), before.computations.end(), [](const auto& c) {
      return std::any_of(c->instructions.begin(), c->instructions.end(),
                         [](const Instruction& i) { return manual_border(i) != ManualBorder::kNone; });
    });
    if (has_region) continue;  // the values inside a region are not values of the global program
    const auto arguments = seeded_arguments(before, seed);
    EvaluateOptions options;
    options.trip_limit = 100;
    const Literal expected = evaluate(before, arguments, options);
    Program after = before;
    for (const auto& [name, pass] : passes) {
      after = pass(after);
      verify(after);
      EXPECT_EQ(evaluate(after, arguments, options), expected) << "seed " << seed << " after " << name;
    }
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

// Expects that every fault is found in some case, and prints the first one. `changed` returns the program to test, or
// nothing to skip the case.
void expect_all_found(const std::function<std::optional<Program>(const Program&)>& changed) {
  constexpr std::int64_t kMostCases = 2000;
  std::map<std::string_view, std::int64_t> found;
  std::int64_t cases = 0;
  for (; cases < kMostCases && found.size() < faults().size(); ++cases) {
    const auto seed = static_cast<std::uint64_t>(cases);
    const auto tried = changed(random_program(seed));
    if (!tried) continue;
    const Program& program = *tried;
    const Partitioned parts = partition(program, {.keep_shardings = true});
    for (const Fault& fault : faults()) {
      Dice dice(hash_mix(seed, 3));
      if (found.contains(fault.name)) continue;
      const auto faulty = planted(fault, parts, dice);
      if (faulty && !check_partitioned(program, *faulty, {.seed = 1, .trip_limit = 100, .run = nullptr}).passed)
        found[fault.name] = cases + 1;
    }
  }
  for (const Fault& fault : faults()) {
    EXPECT_TRUE(found.contains(fault.name)) << fault.name << " was not found in " << cases << " cases";
    if (found.contains(fault.name)) fmt::print("{:>5} cases: {}\n", found.at(fault.name), fault.name);
  }
  EXPECT_GE(faults().size(), 20U);
}
TEST(RandomProgram, PlantedFaultsAreFound) {
  expect_all_found([](const Program& program) { return std::optional(program); });
}
TEST(RandomProgram, PlantedFaultsAreFoundNextToAnIllConditionedResult) { expect_all_found(with_noise_result); }

TEST(RandomProgram, NoiseDividedByNoiseIsNoFault) {
  int ill_conditioned = 0;
  for (int seed = 0; seed < cases_here(120); ++seed) {
    const auto program = with_noise_result(random_program(static_cast<std::uint64_t>(seed)));
    if (!program) continue;
    const CheckReport report = check_partition(*program, {.seed = 1, .trip_limit = 100, .run = nullptr});
    EXPECT_TRUE(report.passed) << "seed " << seed << "\n"
                               << fmt::format("{}", fmt::join(report.failures, "\n")) << "\n"
                               << print_program(*program);
    ill_conditioned += report.ill_conditioned.empty() ? 0 : 1;
  }
  EXPECT_GT(ill_conditioned, 3 / kSanitizedShare)
      << "the sums have one order on both sides, and the test shows nothing";
}

// Returns true if a result other than those of the key bias differs.
bool differs_elsewhere(const CheckReport& report) {
  return std::any_of(report.failures.begin(), report.failures.end(), [](const std::string& failure) {
    return !failure.starts_with("result 4 ") && !failure.starts_with("result 5 ") && !failure.starts_with("result 6 ");
  });
}

// A step of AdamW on an attention block. The updates of the key bias (results 4 to 6) are noise, and their error bounds
// must not hide faults in other results.
TEST(RandomProgram, PlantedFaultsInAnAdamWStepAreFound) {
  const std::string path = std::string(TESSERA_CHECKED_PROGRAMS) + "/attention_adamw_uneven.hlo";
  const Program program = parse_program(read_file(path), op_table(), {.file_name = path});
  const Partitioned parts = partition(program, {.keep_shardings = true});
  const CheckReport right = check_partitioned(program, parts);
  EXPECT_TRUE(right.passed) << fmt::format("{}", fmt::join(right.failures, "\n"));
  EXPECT_FALSE(right.ill_conditioned.empty());
  std::set<std::string_view> found;
  for (const Fault& fault : faults())
    for (std::uint64_t place = 0; place < 4; ++place) {
      Dice dice(hash_mix(place, 3));
      const auto faulty = planted(fault, parts, dice);
      if (!faulty) continue;
      const CheckReport strict = check_partitioned(program, *faulty, {.run = nullptr, .accept_ill_conditioned = false});
      if (!differs_elsewhere(strict)) continue;
      found.insert(fault.name);
      EXPECT_FALSE(check_partitioned(program, *faulty).passed) << fault.name << ", place " << place;
    }
  EXPECT_GE(found.size(), 8U);
}

TEST(RandomProgram, FailingProgramsAreShrunk) {
  const auto has_dot = [](const Program& program) {
    for (const auto& computation : program.computations)
      for (const auto& instruction : computation->instructions)
        if (instruction.op->name == "dot" && instruction.sharding) return true;
    return false;
  };
  std::uint64_t seed = 0;
  while (!has_dot(random_program(seed, {"dot", ShardingKind::kOneAxis}))) ++seed;
  const Program least = shrink(random_program(seed, {"dot", ShardingKind::kOneAxis}), has_dot);
  EXPECT_LE(least.entry_computation().size(), 3) << print_program(least);  // two parameters and the dot
}

}  // namespace
}  // namespace tessera::testing
