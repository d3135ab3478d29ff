// SPDX-License-Identifier: Apache-2.0
// Compares the text of a program before and after a pass.
#pragma once

#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/passes/passes.h"

namespace tessera::passes_tests {

inline Program parsed(std::string_view text) { return parse_program(text, op_table()); }

inline void expect_pass(Program (*pass)(const Program&), std::string_view before, std::string_view after) {
  const Program out = pass(parsed(before));
  verify(out);
  EXPECT_EQ(print_program(out), print_program(parsed(after)));
}
inline void expect_unchanged(Program (*pass)(const Program&), std::string_view text) { expect_pass(pass, text, text); }

}  // namespace tessera::passes_tests
