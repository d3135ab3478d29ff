// SPDX-License-Identifier: Apache-2.0
// An instruction between text and meaning, and what turns one into the other; the header line of a computation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text_reader.h"

namespace tessera {

/// `opcode(..)` and what stands around it, before attributes are understood.
struct RawInstruction {
  std::string name;
  std::size_t position = 0;  // of the opcode
  const OpDef* op = nullptr;
  const OpDef* wrapped = nullptr;  // the op that an async-start wraps, where the text says x-start
  std::optional<Type> declared;
  std::string layouts;  // the declared type where its layouts have tails
  std::vector<Id> operands;
  std::optional<std::int64_t> number;  // Payload::kNumber
  std::optional<Literal> literal;      // Payload::kLiteral
  std::vector<TextAttribute> attributes;
  std::vector<std::size_t> positions;  // of the attributes
};

/// True of the attributes that name several computations.
bool is_list_of_computations(std::string_view name);
/// `x-start`, `x-update`, `x-done` of an op x without such rows: async-start of a computation that holds it, and the others.
const OpDef* wrapped_op(const OpTable& table, std::string_view opcode, const OpDef*& wrapped);
/// `mesh['x'=2,'y'=2], device_ids=(..) {'x'}`: the value has blanks and commas. `text` is what stands before the first.
void read_mesh_groups(TextCursor& in, std::string& text);
/// A computation in place of its name comes next: `{ x = ..`, `{ROOT x = ..`, or a list of such, `{ { x = ..`.
bool called_is_written_out(TextCursor& in, const RawInstruction& raw, const std::string& name);
ComputationId computation_named(const ModuleState& state, const std::string& name);
/// A `{..}` list of names with or without %.
std::vector<std::string> read_names(std::string_view text);
/// The row's typed attributes; what it does not know goes to the notes. Returns the names it knows where some are left.
std::vector<std::string> read_own_attributes(const RawInstruction& raw, std::vector<TextAttribute> own,
                                             Instruction& out, Notes& notes);
/// Says once per op and name on standard error that what the row does not know is kept as it stands.
void warn_of_unknown(ModuleState& state, const RawInstruction& raw, const Notes& notes, std::vector<std::string> known);
/// From the operands, which stand in `computation`; checked against the declared type, whose layout it keeps.
void infer_type(const ModuleState& state, const Computation& computation, const RawInstruction& raw, Instruction& out);

/// `(x: f32[2], y: f32[]) -> f32[2]` behind a computation's name, where it stands.
struct Signature {
  std::vector<Type> types;  // the parameters', then the result's; empty when absent
  std::vector<std::size_t> positions;
};
Signature read_signature(TextCursor& in);
void check_signature(const TextCursor& in, const Signature& signature, const Computation& computation);

/// The computation of its own that an op in two halves (`x-start`) is put into.
struct Wrapping {
  std::vector<TextAttribute> own;            // attributes of the op
  std::vector<ComputationId> called;         // by the op
  std::vector<TextAttribute> kept;           // attributes of the start: async_execution_thread, async_group_id
  const Computation* computation = nullptr;  // where the start stands
  std::vector<Id> operands;                  // of the start
};
ComputationId add_wrapped(ModuleState& state, const RawInstruction& raw, Wrapping wrapping);

}  // namespace tessera
