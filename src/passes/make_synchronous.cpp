// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ops/async.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

bool is_half(const Instruction& instruction) { return async_half(*instruction.op) != AsyncHalf::kNeither; }

// Removes the attributes that only apply to the -start and -done instructions.
NotesRef synchronous_notes(const NotesRef& notes) {
  if (!notes || notes->other.empty()) return notes;
  auto out = std::make_shared<Notes>(*notes);
  std::erase_if(out->other,
                [](const TextAttribute& a) { return a.name.starts_with("async_") || a.name == "backend_config"; });
  return out;
}

// Of the shardings of a start, those of the element that is the result of the synchronous op; -1: all of it.
ShardingRef sharding_of_result(const Instruction& start, int result) {
  if (!start.sharding || result < 0 || start.sharding->size() == 1) return start.sharding;
  std::ptrdiff_t first = 0;
  for (int k = 0; k < result; ++k) first += isize(at(start.type.elements(), k).leaves());
  const auto from = start.sharding->begin() + first;
  return make_shardings({from, from + isize(at(start.type.elements(), result).leaves())});
}

Value rewritten(ComputationRewriter& r, Id id) {
  const Instruction& old = r.from()[id];
  const AsyncHalf half = async_half(*old.op);
  if (half == AsyncHalf::kNeither) {
    for (const Id operand : old.operands)
      require(async_half(*r.from()[operand].op) != AsyncHalf::kStart,
              "%{} reads the start %{}, which only a done may read", old.name, r.from()[operand].name);
    return {};
  }
  if (half != AsyncHalf::kStart) {
    const Value synchronous = r.mapped(old.operands[0]);
    if (half == AsyncHalf::kDone && old.sharding && !synchronous.instruction().sharding)
      r.builder().set_sharding(synchronous, old.sharding);
    return synchronous;
  }
  Instruction synchronous = r.translated(id);
  const int result = async_result(*old.op);
  if (result >= 0) synchronous.type = at(old.type.elements(), result);
  synchronous.op = &synchronous_op(*old.op);
  synchronous.sharding = sharding_of_result(old, result);
  synchronous.notes = synchronous_notes(synchronous.notes);
  return r.builder().append(std::move(synchronous));
}

}  // namespace

Program make_synchronous(const Program& program) {
  const auto touches = [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(), is_half);
  };
  const bool any = std::any_of(program.computations.begin(), program.computations.end(),
                               [&](const ComputationRef& c) { return touches(*c); });
  if (!any) return program;
  Program out = rewrite(program, rewritten, touches);
  for (auto& computation : out.computations) {
    if (computation->execution_thread.empty()) continue;
    auto main = std::make_shared<Computation>(*computation);
    main->execution_thread.clear();
    computation = std::move(main);
  }
  return out;
}

}  // namespace tessera
