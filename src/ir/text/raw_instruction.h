// SPDX-License-Identifier: Apache-2.0
// An instruction that was read as text but not interpreted, the functions that interpret it, and the header line of a
// computation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/text_reader.h"

namespace tessera {

/// `opcode(..)` and its surroundings, before attributes are interpreted.
struct RawInstruction {
  std::string name;
  std::size_t position = 0;  // of the opcode
  const OpDef* op = nullptr;
  const OpDef* wrapped = nullptr;  // the op that an async-start wraps, if the text has x-start
  std::optional<Type> declared;
  std::string layouts;  // the declared type if its layouts have tails
  std::vector<Id> operands;
  std::optional<std::int64_t> number;  // Payload::kNumber
  std::optional<Literal> literal;      // Payload::kLiteral
  std::vector<TextAttribute> attributes;
  std::vector<std::size_t> positions;  // of the attributes
};

/// Whether the attribute names several computations.
bool is_list_of_computations(std::string_view name);
/// For `x-start`, `x-update`, `x-done` of an op x without such rows: async-start of a computation that contains x,
/// async-update and async-done.
const OpDef* wrapped_op(const OpTable& table, std::string_view opcode, const OpDef*& wrapped);
/// Reads `mesh['x'=2,'y'=2], device_ids=(..) {'x'}`, a value that contains blanks and commas. `text` is the part before
/// the first one.
void read_mesh_groups(TextCursor& in, std::string& text);
/// Whether a computation follows instead of its name: `{ x = ..`, `{ROOT x = ..`, or a list of them, `{ { x = ..`.
bool called_is_written_out(TextCursor& in, const RawInstruction& raw, const std::string& name);
ComputationId computation_named(const ModuleState& state, const std::string& name);
/// Reads a `{..}` list of names with or without %.
std::vector<std::string> read_names(std::string_view text);
/// Reads the typed attributes of the row and adds others to the notes. Returns the names of the row's attributes if
/// there are others.
std::vector<std::string> read_own_attributes(const RawInstruction& raw, std::vector<TextAttribute> own,
                                             Instruction& out, Notes& notes);
/// Warns once per op and name on standard error that unknown attributes are kept as text.
void warn_of_unknown(ModuleState& state, const RawInstruction& raw, const Notes& notes, std::vector<std::string> known);
/// Infers the type from the operands in `computation`, and checks it against the declared type, whose layout it keeps.
void infer_type(const ModuleState& state, const Computation& computation, const RawInstruction& raw, Instruction& out);

/// `(x: f32[2], y: f32[]) -> f32[2]` after the name of a computation, if present.
struct Signature {
  std::vector<Type> types;  // of the parameters, then of the result; empty if absent
  std::vector<std::size_t> positions;
};
Signature read_signature(TextCursor& in);
void check_signature(const TextCursor& in, const Signature& signature, const Computation& computation);

/// The computation that wraps an asynchronous op (`x-start`).
struct Wrapping {
  std::vector<TextAttribute> own;            // attributes of the op
  std::vector<ComputationId> called;         // by the op
  std::vector<TextAttribute> kept;           // attributes of the start: async_execution_thread, async_group_id
  const Computation* computation = nullptr;  // the computation that contains the start
  std::vector<Id> operands;                  // of the start
};
ComputationId add_wrapped(ModuleState& state, const RawInstruction& raw, Wrapping wrapping);

}  // namespace tessera
