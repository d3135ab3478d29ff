// SPDX-License-Identifier: Apache-2.0
// Passes that do not depend on devices.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Removes unused instructions and computations. Parameters, side effects and the peers of collectives stay.
Program remove_dead_code(const Program& program);

/// Computes equal values once. Two values are equal if op, operands, attributes, callees (whatever their names),
/// type, sharding and frontend attributes are equal, except for attributes that only explain (`tessera.why`,
/// `.reason`, `.from`, `.to`, `.remedy`). Ops with side effects stay.
Program merge_duplicates(const Program& program);

/// Local simplifications that keep every value, also NaN and infinities: operations and conversions that change
/// nothing, chains of reshapes, transposes and broadcasts, x + 0, x * 1, elements of a tuple just made, scalars of
/// constants. Instructions with another sharding than their operand's, frontend attributes and opt-barriers stay.
Program simplify(const Program& program);

/// Slices the operand of a reverse instead of its result, so that less data moves. Only if nothing else reads the
/// reverse and the slice takes at most 3/4 of it.
Program slice_first(const Program& program);

/// Replaces every `call` by the body of its computation. Calls that other threads run, and calls with control
/// predecessors, stay.
Program inline_calls(const Program& program);

/// Removes unnecessary elements from the state of loops: elements that only they themselves read; and constants,
/// broadcast constants and iotas that the body passes on unchanged, which the body and the condition then create.
/// After the loop, elements that are passed on unchanged are replaced by their initial values. Loops with side
/// effects, and elements whose sharding differs from that of their initial value, stay.
Program simplify_loops(const Program& program);

/// Conditionals return only values that are read, and take only values that their branches read. Conditionals with
/// side effects stay.
Program simplify_branches(const Program& program);

/// Gives loops, conditionals and calls that share a computation one copy each, so that values can have different
/// shardings in them.
Program separate_callees(const Program& program);

/// Replaces ops by their expanded form (OpDef::expand), so that more of their dims can be sharded.
Program expand_ops(const Program& program);
/// Replaces ops that HLO lacks by ops of HLO (OpDef::hlo_form), for XLA.
Program in_ops_of_hlo(const Program& program);

/// Merges every start and done (async_half) into one op, because a global program is not scheduled yet.
Program make_synchronous(const Program& program);
/// Replaces collectives whose groups have one device by their operands, and partition-id in a program for one device by
/// 0. Dumps of programs over axes of size 1 contain both outside of manual regions.
Program without_degenerate_collectives(const Program& program);
/// The same for collectives without a channel and without use_global_device_ids in a program with replica_count=1: their
/// groups consist of replicas, of which there is one.
///   %r = f32[8] all-reduce(%x), replica_groups={{0}}, to_apply=%sum        is %x
Program without_replica_collectives(const Program& program);
/// The groups of all collectives as numbers of devices: without_replica_collectives(), and a group of replicas in a
/// collective with a channel but without use_global_device_ids becomes the group of all their partitions.
Program with_groups_of_devices(const Program& program);

}  // namespace tessera
