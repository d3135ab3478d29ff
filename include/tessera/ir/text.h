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
  /// The number of partitions; 0 means that of the text. Error if the text has another number.
  std::int64_t num_partitions = 0;
  /// The meshes that shardings use if these can express them. A sharding that names a mesh of the text uses that mesh.
  std::vector<Mesh> meshes{};
};
/// Reads an HLO module. Errors have the form `file:line:column: expected …, got …`, followed by the source line and a
/// caret.
Program parse_program(std::string_view text, const OpTable& table, const ParseOptions& options = {});

struct PrintOptions {
  /// Omit attributes that XLA does not support (xla.sdy.* and tessera.*).
  bool for_xla = false;
};
/// Prints a program. The text is deterministic, and parse_program(print_program(p)) equals p (see difference()).
std::string print_program(const Program& program, const PrintOptions& options = {});
/// The line of one instruction, as in print_program().
std::string print_instruction(const Program& program, const Computation& computation, Id id);

/// Returns "" if the programs are equal in everything that text can express, else a description of the first
/// difference.
std::string difference(const Program& a, const Program& b);

/// Checks a program: operands come first, types are those that the ops infer, called computations fit, each leaf of an
/// annotated value has a valid sharding, names are unique. Throws an InternalError or Error that names the instruction.
/// `where` is the beginning of the message ("after pass 'localize'").
void verify(const Program& program, std::string_view where = {});

/// Reads a literal of a type, in HLO's literal grammar.
Literal parse_literal(std::string_view text, const Type& type);

}  // namespace tessera
