// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::testing {

/// The bytes that the partitioned module exchanges. Expects that it computes the same values.
inline std::int64_t checked_bytes(const std::string& text) {
  const Program program = parse_program(text, op_table());
  const CheckReport report = check_partition(program);
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n")) << "\n" << text;
  return program_stats(partition(program).program).total_collective_bytes;
}

}  // namespace tessera::testing
