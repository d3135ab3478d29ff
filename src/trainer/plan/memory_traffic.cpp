// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_traffic.h"

#include <vector>

#include "tessera/base/text.h"
#include "tessera/ops/rows.h"

namespace tessera::trainer {
namespace {

std::int64_t bytes_of_arrays(const Type& type) {
  std::int64_t bytes = 0;
  for (const Type& leaf : type.leaves())
    if (leaf.is_array()) bytes += leaf.byte_size();
  return bytes;
}

bool reads_in_group(const Instruction& reader) {
  return reader.op->elementwise || reader.op->movement == Movement::kBroadcast || reader.op == &rows::kReduce;
}

bool moves_bytes(const Instruction& instruction) {
  const OpDef& op = *instruction.op;
  return op.role == Role::kPlain && op.movement == Movement::kNone && op.payload == Payload::kOperands &&
         !op.rematerializable;
}

// By instruction: whether it has readers, and all of them belong to its group.
std::vector<bool> read_only_in_group(const Computation& computation) {
  std::vector<bool> is_read(computation.instructions.size());
  std::vector<bool> out(computation.instructions.size(), true);
  for (const Instruction& reader : computation.instructions)
    for (const Id operand : reader.operands) {
      at(is_read, operand) = true;
      if (!reads_in_group(reader)) at(out, operand) = false;
    }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i] && is_read[i];
  return out;
}

}  // namespace

std::int64_t memory_traffic(const Program& program) {
  const Computation& entry = program[program.entry];
  const std::vector<bool> stays_in_group = read_only_in_group(entry);
  std::int64_t bytes = 0;
  for (Id id = 0; id < isize(entry.instructions); ++id) {
    const Instruction& instruction = entry[id];
    if (!moves_bytes(instruction)) continue;
    const bool is_elementwise = instruction.op->elementwise;
    if (!is_elementwise || !at(stays_in_group, id)) bytes += bytes_of_arrays(instruction.type);
    if (is_elementwise) continue;
    for (const Id operand : instruction.operands) bytes += bytes_of_arrays(entry[operand].type);
  }
  return bytes;
}

}  // namespace tessera::trainer
