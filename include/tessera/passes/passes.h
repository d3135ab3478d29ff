// SPDX-License-Identifier: Apache-2.0
// Passes that know nothing of devices.
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Drops instructions whose value no one uses (parameters, side effects and collectives' peers stay) and computations
/// no one
/// calls.
Program remove_dead_code(const Program& program);

/// Computes equal values once: same op, operands, attributes, equal callees (whatever their names), type, sharding and frontend attributes but for
/// what only
/// explains (`tessera.why`, `.reason`, `.from`, `.to`, `.remedy`). Never ops with side effects.
Program merge_duplicates(const Program& program);

/// Local rewrites that keep every value, NaN and infinities included: moves and conversions that change nothing,
/// chains of
/// reshapes, transposes, broadcasts, x + 0, x * 1, elements of a tuple just made, scalars of constants. Shardings that
/// differ from
/// the operand's, frontend attributes and opt-barriers stand.
Program simplify(const Program& program);

/// Slices what a reverse reads instead of its result, where nobody else reads that and the slice takes 3/4 of it at most: less moves.
Program slice_first(const Program& program);

/// Puts the body of what is called in place of every `call`, so that passes see through it. Calls that other threads run, or that
/// stand in an order by control predecessors, stay.
Program inline_calls(const Program& program);

/// Takes out of the state of loops what nobody needs there: elements that only they themselves read (behind the loop, what is handed on
/// unchanged is read as it went in), and constants, broadcast constants and iotas that are handed on unchanged, which the body and the
/// condition make themselves. Loops with side effects stay, and so do elements annotated otherwise than their initial values.
Program simplify_loops(const Program& program);

/// Conditionals return only what is read of them, and are given only what their branches read. Those with side effects stay.
Program simplify_branches(const Program& program);

/// Loops, conditionals and calls that share a computation get one each, so that values may lie differently in them.
Program separate_callees(const Program& program);

/// Spells out ops that are sums of smaller ones (OpDef::expand), so that more of their dims can be cut.
Program expand_ops(const Program& program);

/// Puts one op in place of every start and done (async_half): a global program is not scheduled yet.
Program make_synchronous(const Program& program);

}  // namespace tessera
