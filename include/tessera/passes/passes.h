// SPDX-License-Identifier: Apache-2.0
// Passes that do not depend on devices.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Removes unused instructions and computations. Keeps parameters and instructions with side effects.
Program remove_dead_code(const Program& program);

/// Computes equal values once. Two values are equal if op, operands, attributes, callees, type, sharding and frontend
/// attributes are equal. Names of callees and attributes that only explain (explanations.h) are ignored. Keeps all ops
/// with side effects.
Program merge_duplicates(const Program& program);

/// Simplifies expressions and keeps every value exactly, including NaN and infinities: ops and conversions that change
/// nothing, chains of reshapes, transposes and broadcasts, x + 0, x * 1, get-tuple-element of a tuple, scalar ops on
/// constants. Keeps opt-barriers, instructions with frontend attributes, and instructions whose sharding differs from
/// that of their operand.
Program simplify(const Program& program);

/// Slices the operand of a reverse instead of its result, so that less data is moved. The pass does this only if
/// nothing else reads the reverse and the slice has at most 3/4 of its elements.
Program slice_first(const Program& program);

/// Replaces every `call` by the body of its computation. Keeps calls that run on another execution thread and calls
/// with control predecessors.
Program inline_calls(const Program& program);

/// Removes two kinds of elements from the state of loops. The first kind are elements that influence only themselves.
/// The second kind are constants, broadcast constants and iotas that the body returns unchanged; the body and the
/// condition then create them. Also replaces results of the loop that the body does not change by their initial values.
/// Does not change loops with side effects, or elements whose sharding differs from that of their initial value.
Program simplify_loops(const Program& program);

/// Removes the results of conditionals that nothing reads, and the operands that no branch reads. Does not change
/// conditionals with side effects.
Program simplify_branches(const Program& program);

/// If several loops, conditionals or calls share a computation, gives each its own copy, so that the values in each
/// copy can have different shardings.
Program separate_callees(const Program& program);

/// Replaces ops by their expanded form (OpDef::expand), so that more of their dims can be sharded.
Program expand_ops(const Program& program);
/// Replaces ops that HLO lacks by ops of HLO (OpDef::hlo_form), for XLA.
Program in_ops_of_hlo(const Program& program);

/// Merges every start and its done (async_half) into one op, because a global program is not scheduled yet.
Program make_synchronous(const Program& program);
/// Replaces collectives whose groups have one device by their operands. In a program for one device, replaces
/// partition-id by 0. Dumps of programs with axes of size 1 contain such instructions outside of manual regions.
Program without_degenerate_collectives(const Program& program);
/// Replaces collectives without a channel and without use_global_device_ids by their operands, in a program with
/// replica_count=1. The groups of such a collective consist of replicas, and there is only one replica.
///   %r = f32[8] all-reduce(%x), replica_groups={{0}}, to_apply=%sum        is %x
Program without_replica_collectives(const Program& program);
/// Rewrites all collectives such that their groups consist of devices. Runs without_replica_collectives(). In a
/// collective with a channel but without use_global_device_ids, a group of replicas becomes the group of all partitions
/// of these replicas.
Program with_groups_of_devices(const Program& program);

}  // namespace tessera
