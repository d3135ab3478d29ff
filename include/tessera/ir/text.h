// SPDX-License-Identifier: Apache-2.0
// HLO text: reading and writing programs.
#pragma once

#include <string>
#include <string_view>

#include "tessera/ir/program.h"

namespace tessera {

class OpTable;

struct ParseOptions {
  std::string file_name = "<input>";  // for messages
  /// The number of partitions. 0: that of the text. Error if the text has another number.
  std::int64_t num_partitions = 0;
  /// Meshes on which shardings are expressed if possible, unless the text has its own meshes.
  std::vector<Mesh> meshes{};
};
/// Reads an HLO module. Errors: `file:line:column: what was expected` with the source line and a caret.
Program parse_program(std::string_view text, const OpTable& table, const ParseOptions& options = {});

struct PrintOptions {
  /// Omit attributes that XLA does not support (xla.sdy.* and tessera.*).
  bool for_xla = false;
};
/// Deterministic; parse_program(print_program(p)) equals p (equal_programs below).
std::string print_program(const Program& program, const PrintOptions& options = {});
std::string print_instruction(const Program& program, const Computation& computation, Id id);

/// Returns "" if the programs are equal in everything that text can express, else a description of the first
/// difference.
std::string difference(const Program& a, const Program& b);

/// Verifies a program: the order of operands, inferred types, called computations, one fitting sharding for each
/// leaf, unique names. Throws an InternalError or Error that names the instruction. `where` is the beginning of the
/// message ("after pass 'localize'").
void verify(const Program& program, std::string_view where = {});

/// Reads a literal of a type, in HLO's literal grammar.
Literal parse_literal(std::string_view text, const Type& type);

}  // namespace tessera
