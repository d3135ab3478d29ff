// SPDX-License-Identifier: Apache-2.0
// Compares programs with the reference evaluation, for each instruction set.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "runtime/close.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/evaluate.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/schedule/schedule.h"

namespace tessera::testing {

inline void expect_on_each_isa(const Program& program, const std::vector<Literal>& arguments, double units = 64) {
  const auto world = make_single_rank_world();
  verify_schedule(program, *make_schedule(program));
  const Literal expected = evaluate(program, arguments);
  on_each_isa([&] { EXPECT_TRUE(close(run_program(program, *world, arguments), expected, units)); });
}
inline Program expect_on_each_isa(const std::vector<Type>& types, const Body& body, double units = 64) {
  const Program program = program_of(types, body);
  expect_on_each_isa(program, random_arguments(program, 5), units);
  return program;
}

/// Returns the number of instructions of each step.
inline std::vector<std::size_t> step_sizes(const Program& program) {
  std::vector<std::size_t> out;
  const auto plan = make_schedule(program);
  for (const Step& step : plan->steps) out.push_back(step.instructions.size());
  return out;
}

inline void expect_as_reference(const Program& program, const std::vector<Literal>& arguments, double units = 8) {
  const auto world = make_single_rank_world();
  const Literal expected = evaluate(program, arguments);
  on_each_isa([&] { EXPECT_TRUE(close(run_program(program, *world, arguments), expected, units)); });
}
inline void expect_as_reference(const std::vector<Type>& types, const Body& body, double units = 8) {
  const Program program = program_of(types, body);
  expect_as_reference(program, random_arguments(program, 5), units);
}

}  // namespace tessera::testing
