// SPDX-License-Identifier: Apache-2.0
// Removes unneeded elements from the state of loops:
//
//   (i, sum, w, zeros, log) = while (0, 0, w0, broadcast(0), l0)
//     body: (i + 1, sum + dot(w, ..) + zeros, w, zeros, log + sum)          condition: i < 8
//
// Only `log` itself reads `log`, and the body can compute `zeros`. The new state is (i, sum, w). Reads of w and zeros
// after the loop become reads of their initial values.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "plain.h"
#include "simplify/expression.h"
#include "simplify/tuple_elements.h"
#include "tessera/base/text.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

// ---- analysis --------------------------------------------------------------------------------------------------------

/// A loop before the rewrite. Its computations are already simplified.
struct Loop {
  const Computation& caller;
  const Instruction& instruction;
  ComputationRef condition;
  ComputationRef body;

  [[nodiscard]] const Instruction& init() const { return caller[instruction.operands.front()]; }
  [[nodiscard]] const Type& state() const { return instruction.type; }
  [[nodiscard]] std::int64_t size() const { return isize(state().elements()); }
  [[nodiscard]] const Instruction& root() const { return (*body)[body->root]; }
};

ShardingRef initial_sharding(const Loop& loop, std::int64_t element) {
  const Instruction& init = loop.init();
  if (init.op->role == Role::kTuple && !init.sharding) return loop.caller[at(init.operands, element)].sharding;
  return element_sharding(loop.state(), init.sharding, element);
}

// Returns the elements whose annotation in the loop differs from that of their initial value.
Elements annotated_elements(const Loop& loop) {
  Elements out(static_cast<std::size_t>(loop.size()), false);
  const auto compare = [&](std::int64_t element, const ShardingRef& leaves) {
    if (!leaves || std::none_of(leaves->begin(), leaves->end(), says_something)) return;
    if (!same_shardings(leaves, initial_sharding(loop, element))) out.add(element);
  };
  const auto compare_all = [&](const Instruction& tuple) {
    for (std::int64_t e = 0; e < loop.size() && tuple.sharding; ++e)
      compare(e, element_sharding(loop.state(), tuple.sharding, e));
  };
  compare_all(loop.instruction);
  compare_all(loop.root());
  for (const auto& computation : {loop.condition, loop.body}) {
    const Id parameter = computation->parameters.front();
    compare_all((*computation)[parameter]);
    for (const Instruction& instruction : computation->instructions) {
      if (instruction.op->role != Role::kGetTupleElement || instruction.operands.front() != parameter) continue;
      compare(element_index(instruction), instruction.sharding);
      if (!is_plain(instruction)) out.add(element_index(instruction));
    }
  }
  return out;
}

// Returns the elements that the body passes on unchanged.
Elements invariant_elements(const Loop& loop) {
  const Elements annotated = annotated_elements(loop);
  Elements out(static_cast<std::size_t>(loop.size()), false);
  for (std::int64_t e = 0; e < loop.size(); ++e) {
    const Instruction& next = (*loop.body)[at(loop.root().operands, e)];
    const bool same = next.op->role == Role::kGetTupleElement && is_parameter((*loop.body)[next.operands.front()]) &&
                      element_index(next) == e;
    if (same && !annotated.has(e)) out.add(e);
  }
  return out;
}

/// The needed elements, and the instructions of the body that compute them.
struct Needed {
  Elements elements;
  std::vector<char> instructions;
};
Needed needed_in(const Computation& body, const Elements& first) {
  Needed out{first, std::vector<char>(body.instructions.size(), 0)};
  const Instruction& root = body[body.root];
  std::vector<Id> stack = first.of(root.operands);
  while (!stack.empty()) {
    const Id id = stack.back();
    stack.pop_back();
    if (std::exchange(at(out.instructions, id), 1) != 0) continue;
    const Instruction& instruction = body[id];
    stack.insert(stack.end(), instruction.operands.begin(), instruction.operands.end());
    stack.insert(stack.end(), instruction.control_predecessors.begin(), instruction.control_predecessors.end());
    if (instruction.op->role != Role::kGetTupleElement || !is_parameter(body[instruction.operands.front()])) continue;
    const auto element = element_index(instruction);
    if (out.elements.has(element)) continue;
    out.elements.add(element);
    stack.push_back(at(root.operands, element));
  }
  return out;
}

/// The planned change of a loop.
struct Plan {
  Elements kept;
  Elements as_before;                       // reads after the loop become reads of the initial values
  std::map<std::int64_t, Expression> made;  // recomputed in the body and the condition
  std::vector<char> instructions;           // of the body: nonzero for those that stay
};

bool same_plan(const Plan& a, const Plan& b) {
  return a.kept == b.kept && a.made.size() == b.made.size() &&
         std::equal(a.made.begin(), a.made.end(), b.made.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first && same_expression(x.second, y.second);
         });
}

// XLA's backend_config may contain the index of the element that counts the iterations. Calls f(position, length,
// index) for each such index in the text.
template <class F>
void for_each_number(const std::string& text, F&& f) {
  constexpr std::string_view kDigits = "0123456789";
  for (auto at = text.find("tuple_index"); at != std::string::npos; at = text.find("tuple_index", at)) {
    at = text.find_first_of(kDigits, at);
    if (at == std::string::npos) return;
    const auto end = std::min(text.find_first_not_of(kDigits, at), text.size());
    f(at, end - at, std::stoll(text.substr(at, end - at)));
    at = end;
  }
}

Elements elements_told(const Loop& loop) {
  Elements out(static_cast<std::size_t>(loop.size()), false);
  if (!loop.instruction.notes) return out;
  for (const TextAttribute& note : loop.instruction.notes->other)
    for_each_number(note.text, [&](auto, auto, std::int64_t number) {
      if (number < loop.size()) out.add(number);
    });
  return out;
}

NotesRef told_again(const NotesRef& notes, const Elements& kept) {
  if (!notes) return notes;
  auto out = std::make_shared<Notes>(*notes);
  for (TextAttribute& note : out->other) {
    std::string text;
    std::size_t done = 0;
    for_each_number(note.text, [&](std::size_t place, std::size_t length, std::int64_t number) {
      text += note.text.substr(done, place - done) + std::to_string(kept.place(number));
      done = place + length;
    });
    note.text = text + note.text.substr(done);
  }
  return out;
}

// Returns true if only get-tuple-element reads the tuple.
bool is_read_by_element(const Computation& computation, Id tuple) {
  return std::all_of(computation.instructions.begin(), computation.instructions.end(), [&](const Instruction& user) {
    return user.op->role == Role::kGetTupleElement ||
           std::find(user.operands.begin(), user.operands.end(), tuple) == user.operands.end();
  });
}

bool can_be_changed(const Loop& loop) {
  const Computation& body = *loop.body;
  if (!loop.state().is_tuple() || loop.root().op->role != Role::kTuple || at(body.use_counts(), body.root) > 1)
    return false;
  return is_read_by_element(*loop.condition, loop.condition->parameters.front()) &&
         is_read_by_element(body, body.parameters.front());
}

// Returns true if the value exists before and after the loop in any case, so that reading it after the loop extends no
// lifetime.
bool is_there_anyway(const Computation& computation, Id id) {
  const Instruction& instruction = computation[id];
  if (is_parameter(instruction)) return true;
  return instruction.op->role == Role::kGetTupleElement && is_parameter(computation[instruction.operands.front()]);
}

std::optional<Plan> plan_of(const Loop& loop, const Elements& read_after) {
  if (!can_be_changed(loop)) return std::nullopt;
  const Elements invariant = invariant_elements(loop);
  Elements needed = elements_read(*loop.condition, is_parameter).at(loop.condition->parameters.front());
  const Elements told = elements_told(loop);
  needed.add(told);
  for (std::int64_t e = 0; e < loop.size(); ++e)
    if (read_after.has(e) && !invariant.has(e)) needed.add(e);
  Needed found = needed_in(*loop.body, needed);
  Plan out{found.elements, Elements(found.elements.size(), false), {}, std::move(found.instructions)};
  const bool is_made = loop.init().op->role == Role::kTuple;
  bool changes = false;
  for (std::int64_t e = 0; e < loop.size(); ++e) {
    std::optional<Expression> expression;
    if (is_made && invariant.has(e) && !told.has(e))
      expression = expression_of(loop.caller, at(loop.init().operands, e));
    if (expression && out.kept.has(e)) {
      out.kept.remove(e);
      out.made.emplace(e, std::move(*expression));
    }
    const bool stays = is_made && is_there_anyway(loop.caller, at(loop.init().operands, e));
    if (!out.kept.has(e) || (invariant.has(e) && stays)) out.as_before.add(e);
    changes = changes || !out.kept.has(e) || (out.as_before.has(e) && read_after.has(e));
  }
  if (!changes || out.kept.none()) return std::nullopt;
  return out;
}

// ---- the new loop ----------------------------------------------------------------------------------------------------

// Rebuilds the body or the condition on the elements that are kept. `instructions` lists those of the body that stay;
// null keeps all.
ComputationId rebuilt(ProgramBuilder& program, const Computation& from, const Plan& plan,
                      const std::vector<char>* instructions) {
  Builder builder = program.computation(from.name);
  const Id parameter = from.parameters.front();
  const auto with_kept = [&](Instruction tuple) {
    tuple.sharding = plan.kept.of(tuple.type, tuple.sharding);
    tuple.type = plan.kept.of(tuple.type);
    return tuple;
  };
  std::vector<Id> new_ids(from.instructions.size(), -1);
  at(new_ids, parameter) = builder.append(with_kept(from[parameter])).id;
  const auto translated = [&](Instruction copy) {
    for (Id& operand : copy.operands) operand = at(new_ids, operand);
    std::erase_if(copy.control_predecessors, [&](Id before) { return at(new_ids, before) < 0; });
    for (Id& before : copy.control_predecessors) before = at(new_ids, before);
    return copy;
  };
  std::map<std::int64_t, Id> made;
  const auto element = [&](Instruction get) {
    const std::int64_t e = element_index(get);
    const auto expression = plan.made.find(e);
    if (expression == plan.made.end()) {
      get.attributes = make_attributes(IndexAttributes{plan.kept.place(e)});
      return builder.append(translated(std::move(get))).id;
    }
    const auto [known, is_new] = made.try_emplace(e, -1);
    if (is_new) known->second = made_in(builder, expression->second).id;
    return known->second;
  };
  for (Id id = 0; id < from.size(); ++id) {
    const Instruction& instruction = from[id];
    const bool goes = instructions != nullptr && at(*instructions, id) == 0;
    if (id == parameter || goes) continue;
    const bool reads_state =
        instruction.op->role == Role::kGetTupleElement && instruction.operands.front() == parameter;
    at(new_ids, id) = reads_state ? element(instruction) : builder.append(translated(instruction)).id;
  }
  Id root = at(new_ids, from.root);
  if (instructions != nullptr) {
    Instruction tuple = with_kept(from[from.root]);
    tuple.operands = plan.kept.of(tuple.operands);
    root = builder.append(translated(std::move(tuple))).id;
  }
  return program.add(std::move(builder), builder.value(root));
}

// Returns the initial values in the rewritten caller.
std::vector<Value> initial_values(Value init) {
  std::vector<Value> out;
  const Type type = init.type();
  const ShardingRef sharding = init.instruction().sharding;
  const bool is_made = init.instruction().op->role == Role::kTuple;
  for (int e = 0; e < isize(type.elements()); ++e)
    out.push_back(is_made ? init.builder->value(at(init.instruction().operands, e))
                          : with_sharding(ops::get_tuple_element(init, e), element_sharding(type, sharding, e)));
  return out;
}

// Returns the value that replaces the loop's old state after the new loop.
Value replaced(ComputationRewriter& r, Id id, const Plan& plan, std::pair<ComputationId, ComputationId> called) {
  Instruction loop = r.translated(id);
  const Type state = loop.type;
  const ShardingRef shardings = loop.sharding;
  Builder& builder = r.builder();
  const std::vector<Value> initial = initial_values(builder.value(loop.operands.front()));
  const Value init = with_sharding(ops::tuple(builder, plan.kept.of(initial)), plan.kept.of(state, shardings));
  loop.operands = {init.id};
  loop.called = {called.first, called.second};
  loop.type = init.type();
  loop.sharding = plan.kept.of(state, shardings);
  loop.notes = told_again(loop.notes, plan.kept);
  const Value end = builder.append(std::move(loop));
  std::vector<Value> elements;
  for (int e = 0; e < isize(state.elements()); ++e)
    elements.push_back(plan.as_before.has(e)
                           ? at(initial, e)
                           : with_sharding(ops::get_tuple_element(end, static_cast<int>(plan.kept.place(e))),
                                           element_sharding(state, shardings, e)));
  return with_sharding(ops::tuple(builder, elements), shardings);
}

/// One pass over a program, inner loops first.
class LoopSimplifier {
 public:
  explicit LoopSimplifier(const Program& program)
      : program_(program), with_effects_(computations_with_effects(program)) {}
  Program run() {
    Program out = rewrite(
        program_, [this](ComputationRewriter& r, Id id) { return rule(r, id); },
        [](const Computation& c) { return std::any_of(c.instructions.begin(), c.instructions.end(), is_loop); });
    return changed_ ? simplify(out) : program_;
  }
  [[nodiscard]] bool changed() const { return changed_; }

 private:
  static bool is_loop(const Instruction& instruction) { return instruction.op->role == Role::kWhile; }

  Value rule(ComputationRewriter& r, Id id) {
    const Instruction& instruction = r.from()[id];
    if (!is_loop(instruction) || has_side_effect(instruction, with_effects_)) return {};
    if (caller_ != &r.from()) {
      caller_ = &r.from();
      read_ = elements_read(r.from(), is_loop);
    }
    ProgramBuilder& program = r.builder().program();
    const std::pair<ComputationId, ComputationId> called{r.callee(instruction.called[0]),
                                                         r.callee(instruction.called[1])};
    const Loop loop{r.from(), instruction, at(program.program().computations, called.first),
                    at(program.program().computations, called.second)};
    const auto read = read_.find(id);
    if (read == read_.end()) return {};  // the state is not a tuple
    auto plan = plan_of(loop, read->second);
    if (!plan) return {};
    changed_ = true;
    // Loops that share a body share the new body if their plans are equal.
    auto& known = known_[called];
    const auto same =
        std::find_if(known.begin(), known.end(), [&](const auto& k) { return same_plan(k.first, *plan); });
    if (same != known.end()) return replaced(r, id, *plan, same->second);
    const std::pair<ComputationId, ComputationId> made{rebuilt(program, *loop.condition, *plan, nullptr),
                                                       rebuilt(program, *loop.body, *plan, &plan->instructions)};
    known.emplace_back(*plan, made);
    return replaced(r, id, *plan, made);
  }

  const Program& program_;
  const std::vector<bool> with_effects_;
  bool changed_ = false;
  const Computation* caller_ = nullptr;
  std::unordered_map<Id, Elements> read_;  // of the caller's loops
  std::map<std::pair<ComputationId, ComputationId>,
           std::vector<std::pair<Plan, std::pair<ComputationId, ComputationId>>>>
      known_;
};

}  // namespace

Program simplify_loops(const Program& program) {
  Program out = program;
  // Simplifying an outer loop can simplify inner loops further, and the reverse.
  while (true) {
    LoopSimplifier round(out);
    Program next = round.run();
    if (!round.changed()) return out;
    out = std::move(next);
  }
}

}  // namespace tessera
