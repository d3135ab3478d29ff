// SPDX-License-Identifier: Apache-2.0
// Reads, prints and reads texts again.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"

namespace tessera {

inline Program read(std::string_view text) { return parse_program(text, op_table(), {"in.hlo"}); }

// Returns the program of a text. Checks that it verifies, and that it prints and reads back as equal.
inline Program round_trip(std::string_view text) {
  Program program = read(text);
  verify(program);
  const auto printed = print_program(program);
  const Program again = read(printed);
  EXPECT_EQ(difference(program, again), "") << printed;
  EXPECT_EQ(print_program(again), printed);
  return program;
}

inline const Instruction& named(const Program& program, std::string_view name) {
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (instruction.name == name) return instruction;
  throw Error("no instruction " + std::string(name));
}

}  // namespace tessera
