// SPDX-License-Identifier: Apache-2.0
// What passes over collectives ask of an instruction.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/op_def.h"
#include "tessera/ops/collectives.h"

namespace tessera {

/// Null where an instruction's attributes are of another type.
template <class T>
const T* attributes_if(const Instruction& instruction) {
  const auto* typed = dynamic_cast<const AttributesOf<T>*>(instruction.attributes.get());
  return typed != nullptr ? &typed->value : nullptr;
}
/// Of that kind and of one array.
bool is_single(const Instruction& instruction, CollectiveKind kind);

/// Equal but for the channel: groups, dim, and for reductions what they reduce by.
bool same_exchange(const Program& program, const Instruction& a, const Instruction& b);
/// Equal where same_exchange() holds.
std::size_t hash_exchange(const Instruction& instruction);

/// Of a collective with replica groups: all devices where its text names none.
std::vector<std::vector<std::int64_t>> groups_of(const Program& program, const Instruction& collective);
/// 1 where nothing is exchanged; nothing when groups differ in size.
std::optional<std::int64_t> size_of_groups(const Program& program, const Instruction& collective);
/// The reduction of an all-reduce or reduce-scatter, where it is a known one.
std::optional<Reduction> reduction_by(const Program& program, const Instruction& collective);

/// A channel that no collective, send or receive of the program uses, nor any above it.
std::int64_t free_channel(const Program& program);

/// FSDP's unshard or a stored gradient: gathered, or scattered, where and as often as it stands.
bool is_pinned(const Instruction& instruction);

/// By instruction: some other one waits for it by a control edge, or it waits for one itself.
std::vector<bool> ordered_by_control(const Computation& computation);

}  // namespace tessera
