// SPDX-License-Identifier: Apache-2.0
// Evaluates one line of HLO on literals: run("s32[2] divide(%a, %b)", {"s32[2] {7, 7}", "s32[2] {2, 0}"}) is "{3, -1}".
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"

namespace tessera {

/// Returns a module whose entry has the operands as constants %a, %b, …, after `computations`.
inline std::string module_text(const std::string& instruction, const std::vector<std::string>& operands,
                               const std::string& computations = {}) {
  std::string text = "HloModule test\n" + computations + "\nENTRY %main {\n";
  char name = 'a';
  for (const auto& operand : operands) {
    const auto blank = operand.find(' ');
    text += fmt::format("  %{} = {} constant({})\n", name++, operand.substr(0, blank), operand.substr(blank + 1));
  }
  return text + "  ROOT %result = " + instruction + "\n}\n";
}

inline std::string run(const std::string& instruction, const std::vector<std::string>& operands,
                       const std::string& computations = {}) {
  std::string spaced;
  for (const char c : evaluate(parse_program(module_text(instruction, operands, computations), op_table()), {}).str()) {
    if (c == ' ') continue;
    spaced += c;
    if (c == ',') spaced += ' ';
  }
  return spaced;
}

/// Returns the message of the Error for the instruction, or "" if it is valid.
inline std::string error_of(const std::string& instruction, const std::vector<std::string>& operands,
                            const std::string& computations = {}) {
  try {
    parse_program(module_text(instruction, operands, computations), op_table());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace tessera
