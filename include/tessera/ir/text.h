// SPDX-License-Identifier: Apache-2.0
// HLO text: reading and writing programs.
#pragma once

#include <string>
#include <string_view>

#include "tessera/ir/op_def.h"
#include "tessera/ir/program.h"

namespace tessera {

struct ParseOptions {
  std::string file_name = "<input>";  // for messages
  /// What the program is for; an error if its text says another number (0 = as the text says).
  std::int64_t num_partitions = 0;
  /// Meshes to say its shardings on where they can, unless the text brings its own.
  std::vector<Mesh> meshes{};
};
/// Reads an HLO module. Errors: `file:line:column: what was expected` with the source line and a caret.
Program parse_program(std::string_view text, const OpTable& table, const ParseOptions& options = {});

struct PrintOptions {
  /// Leave out what XLA does not know (xla.sdy.* and tessera.* attributes).
  bool for_xla = false;
};
/// Deterministic; parse_program(print_program(p)) equals p (equal_programs below).
std::string print_program(const Program& program, const PrintOptions& options = {});
std::string print_instruction(const Program& program, const Computation& computation, Id id);

/// Empty when both programs are the same in everything that text carries, else the first difference in words.
std::string difference(const Program& a, const Program& b);

/// Structural soundness: operand order, types as inferred, called computations, shardings one per leaf and fitting, unique
/// names. Throws InternalError or Error naming the instruction. `where` goes before the message ("after pass 'localize'").
void verify(const Program& program, std::string_view where = {});

/// Text to literal of a type, HLO's literal grammar.
Literal parse_literal(std::string_view text, const Type& type);

}  // namespace tessera
