// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/plain_forms.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/plain_form.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

Value rewritten(const Program& program, ComputationRewriter& r, Id id) {
  const Instruction& old = r.from()[id];
  if (!may_have_plain_form(old)) return {};
  Builder& builder = r.builder();
  const NotesRef before = std::exchange(builder.default_notes, old.notes);
  const auto made = plain_form(builder, view_of(program, r.from(), old), r.mapped(old.operands));
  builder.default_notes = before;
  if (!made) return {};
  const bool is_operand = std::any_of(old.operands.begin(), old.operands.end(),
                                      [&](Id operand) { return r.mapped(operand).id == made->id; });
  if (is_operand) return old.sharding || !old.control_predecessors.empty() ? Value{} : *made;
  builder.set_name(*made, old.name);
  if (old.sharding) builder.set_sharding(*made, old.sharding);
  return *made;
}

}  // namespace

Program plain_forms(const Program& program) {
  const auto touches = [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(), may_have_plain_form);
  };
  const bool any = std::any_of(program.computations.begin(), program.computations.end(),
                               [&](const ComputationRef& computation) { return touches(*computation); });
  return any ? rewrite(
                   program, [&](ComputationRewriter& r, Id id) { return rewritten(program, r, id); }, touches)
             : program;
}

}  // namespace tessera
