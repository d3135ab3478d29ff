// SPDX-License-Identifier: Apache-2.0
// Predicates and queries that the passes over collectives share.
#pragma once

#include <optional>
#include <vector>

#include "tessera/ir/op_def.h"
#include "tessera/ops/collectives.h"

namespace tessera {

/// Whether the instruction is a collective of this kind with a single array as operand and result.
bool is_single(const Instruction& instruction, CollectiveKind kind);

/// Whether two collectives are equal except for the channel: same groups, dim and reduction.
bool same_exchange(const Program& program, const Instruction& a, const Instruction& b);
/// Equal for collectives for which same_exchange() holds.
std::size_t hash_exchange(const Instruction& instruction);

/// The replica groups of a collective; one group of all devices if its text names none.
std::vector<std::vector<std::int64_t>> groups_of(const Program& program, const Instruction& collective);
/// The size of the groups, 1 if nothing is exchanged; nullopt if groups differ in size.
std::optional<std::int64_t> size_of_groups(const Program& program, const Instruction& collective);
/// The reduction of an all-reduce or reduce-scatter, if it is a known one.
std::optional<Reduction> reduction_by(const Program& program, const Instruction& collective);

/// A channel number that exceeds those of all collectives, sends and receives of the program.
std::int64_t free_channel(const Program& program);

/// Whether this is a gather or scatter of FSDP (an unshard or a stored gradient), which must stay where it is.
bool is_pinned(const Instruction& instruction);

/// By instruction: whether it is the source or the target of a control edge.
std::vector<bool> ordered_by_control(const Computation& computation);

}  // namespace tessera
