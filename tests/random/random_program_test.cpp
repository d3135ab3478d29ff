// SPDX-License-Identifier: Apache-2.0
// Random programs under random shardings: partitioned equals unpartitioned, and faults planted into the partitioned program are
// found. `random_programs` does the same for longer (docs/internals/debugging.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "random/faults.h"
#include "random/random_program.h"
#include "random/run_cases.h"
#include "random/shrink.h"

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
  const RunReport report = run_cases({.seed = 0, .cases = 300, .most_failures = 3});
  for (const auto& failure : report.failures) ADD_FAILURE() << failure;
  EXPECT_GE(report.with_collective * 10, report.cases * 7) << "too few cases hold a collective";
  EXPECT_GT(report.on_ranks, 5);
}

TEST(RandomProgram, EveryOpStandsUnderEveryKindOfShardingItCanHave) {
  CaseTable table;
  for (std::int64_t i = 0; i < feature_count(); ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const Program program = random_program(seed);
    table.count(program);
    if (i % 4 == 0) {
      ASSERT_EQ(failure_of(program, Trial::kPartition), "") << "seed " << seed << "\n" << print_program(program);
    }
  }
  EXPECT_EQ(join(table.empty_cells(), "\n"), "");
}

// What the generator found: each file says what was wrong.
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
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Program program = random_program(seed);
    PartitionOptions options;
    options.dump = [&](const std::string& pass, const Program& p) {
      EXPECT_EQ(difference(p, parse_program(print_program(p), op_table())), "") << "seed " << seed << " after " << pass;
    };
    partition(program, options);
  }
}

// What partition() does to the global program first, step by step.
TEST(RandomProgram, PassesThatTidyUpKeepEveryValue) {
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
    if (has_region) continue;  // what a device sees is no value of the global program
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

// The first case whose planted fault shows.
TEST(RandomProgram, PlantedFaultsAreFound) {
  constexpr std::int64_t kMostCases = 2000;
  std::map<std::string_view, std::int64_t> found;
  std::int64_t cases = 0;
  for (; cases < kMostCases && found.size() < faults().size(); ++cases) {
    const auto seed = static_cast<std::uint64_t>(cases);
    const Program program = random_program(seed);
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

TEST(RandomProgram, FailingProgramsAreMadeSmall) {
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
