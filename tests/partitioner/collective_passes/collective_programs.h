// SPDX-License-Identifier: Apache-2.0
// Per-device programs before and after a pass over collectives: they must give equal values on all devices, and never
// transfer more bytes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/passes/passes.h"

namespace tessera::testing {

/// Returns a module for `devices` with `body` as its entry, after the reducers %add and %max of f32 and %addi of s32,
/// and after `computations`.
inline Program local_program(int devices, const std::string& body, const std::string& computations = {}) {
  const auto reducer = [](const char* name, const char* type, const char* op) {
    return fmt::format(
        "%{0} {{\n  %a = {1}[] parameter(0)\n  %b = {1}[] parameter(1)\n  ROOT %r = {1}[] {2}(%a, %b)\n}}\n", name,
        type, op);
  };
  return parse_program(fmt::format("HloModule local, num_partitions={}\n", devices) + reducer("add", "f32", "add") +
                           reducer("max", "f32", "maximum") + reducer("addi", "s32", "add") + computations +
                           "ENTRY %main {\n" + body + "}\n",
                       op_table());
}

/// Returns `channel_id=N, replica_groups=…, use_global_device_ids=true`.
inline const std::string kRows = "[2,3]<=[6]";  // of a 2x3 mesh
inline const std::string kColumns = "[3,2]<=[2,3]T(1,0)";

inline std::string over(const std::string& groups, int channel) {
  return fmt::format("channel_id={}, replica_groups={}, use_global_device_ids=true", channel, groups);
}

inline std::vector<std::vector<Literal>> arguments_of(const Program& program) {
  std::vector<std::vector<Literal>> out;
  for (std::int64_t device = 0; device < program.num_partitions; ++device)
    out.push_back(seeded_arguments(program, 7 + 31 * static_cast<std::uint64_t>(device)));
  return out;
}

/// Returns the number of collectives by opcode, in all computations.
inline std::map<std::string, int> collectives_of(const Program& program) {
  std::map<std::string, int> out;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (instruction.op->role == Role::kCollective) ++out[std::string(instruction.op->name)];
  return out;
}
using Counts = std::map<std::string, int>;

inline void expect_close(const Literal& want, const Literal& have, const std::string& where) {
  const auto left = want.leaves();
  const auto right = have.leaves();
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t leaf = 0; leaf < left.size(); ++leaf) {
    ASSERT_EQ(left[leaf].type(), right[leaf].type());
    if (!left[leaf].type().is_array()) continue;
    for (std::int64_t i = 0; i < left[leaf].type().element_count(); ++i) {
      const double a = element_as_double(left[leaf], i);
      const double b = element_as_double(right[leaf], i);
      // The sums may have another order.
      ASSERT_TRUE(a == b || std::fabs(a - b) <= 1e-5 * (1 + std::fabs(a)))
          << where << " leaf " << leaf << " at " << i << ": " << a << ", " << b;
    }
  }
}

/// Runs both programs in lockstep. `after` must be valid, read back as equal, and transfer no more bytes.
inline void expect_same_values(const Program& before, const Program& after) {
  verify(after);
  EXPECT_EQ(difference(after, parse_program(print_program(after), op_table())), "");
  const auto arguments = arguments_of(before);
  const auto want = evaluate_lockstep(before, arguments);
  const auto have = evaluate_lockstep(make_synchronous(after), arguments);
  for (std::size_t device = 0; device < want.size(); ++device)
    expect_close(want[device], have[device], fmt::format("device {}", device));
  EXPECT_LE(program_stats(after).total_collective_bytes, program_stats(before).total_collective_bytes);
}

using CollectivePass = std::function<Program(const Program&)>;
/// Applies the pass. The result must compute the same values with these collectives.
inline Program expect_collectives(const CollectivePass& pass, const Program& before, const Counts& counts) {
  Program after = pass(before);
  expect_same_values(before, after);
  EXPECT_EQ(collectives_of(after), counts) << print_program(after);
  return after;
}
/// The pass must not change the program.
inline void expect_untouched(const CollectivePass& pass, const Program& program) {
  EXPECT_EQ(print_program(pass(program)), print_program(program));
}

}  // namespace tessera::testing
