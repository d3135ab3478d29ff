// SPDX-License-Identifier: Apache-2.0
// Random programs under random shardings: partitioned equals unpartitioned. TESSERA_RANDOM_CASES and TESSERA_RANDOM_SEED choose
// how many and from where; a failure prints the program as HLO text, which `tessera check` takes.
#include "partitioner/random_program.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check.h"

namespace tessera {
namespace {

std::int64_t number_from(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

// Empty when the case passes.
std::string failure_of(const Program& program) {
  try {
    const CheckReport report = check_partition(program, {.seed = 1, .trip_limit = 100, .run = nullptr});
    return report.passed ? std::string() : join(report.failures, "\n");
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The smallest number of instructions at which a seed still fails.
std::string smallest_failure(std::uint64_t seed) {
  for (int instructions = 1; instructions <= 11; ++instructions) {
    const Program program = testing::random_program(seed, {.instructions = instructions});
    if (const auto failure = failure_of(program); !failure.empty())
      return fmt::format("seed {} with {} ops:\n{}\n{}", seed, instructions, failure, print_program(program));
  }
  return {};
}

TEST(RandomProgram, PartitionedEqualsUnpartitioned) {
  const auto first = number_from("TESSERA_RANDOM_SEED", 0);
  const auto cases = number_from("TESSERA_RANDOM_CASES", 300);
  int with_collective = 0;
  int failed = 0;
  for (std::int64_t i = 0; i < cases; ++i) {
    const auto seed = static_cast<std::uint64_t>(first + i);
    const Program program = testing::random_program(seed);
    if (const auto failure = failure_of(program); !failure.empty()) {
      ADD_FAILURE() << smallest_failure(seed);
      if (++failed >= 3) return;
      continue;
    }
    with_collective += program_stats(partition(program).program).collectives.empty() ? 0 : 1;
  }
  EXPECT_GE(with_collective * 10, cases * 7) << "too few cases hold a collective";
}

TEST(RandomProgram, PrintsAndReadsBackEqualBeforeAndAfterPartitioning) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Program program = testing::random_program(seed);
    PartitionOptions options;
    options.dump = [&](const std::string& pass, const Program& p) {
      EXPECT_EQ(difference(p, parse_program(print_program(p), op_table())), "") << "seed " << seed << " after " << pass;
    };
    partition(program, options);
    EXPECT_EQ(difference(program, parse_program(print_program(program), op_table())), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera
