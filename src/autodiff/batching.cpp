// SPDX-License-Identifier: Apache-2.0
#include "tessera/autodiff/batching.h"

#include <algorithm>

#include "batch_leaves.h"
#include "loop_support.h"
#include "nested_batching.h"
#include "tessera/ops/batching.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/loops.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/hlo_sharding.h"

namespace tessera {

bool Batched::any() const { return autodiff::any_leaf(leaves); }

namespace autodiff {
namespace {

// The elements of a value, with the leaves of each.
std::vector<Batched> parts_of(const Batched& x) {
  std::vector<Batched> out;
  auto next = x.leaves.begin();
  for (const Value& element : ops::elements_of(x.value)) {
    const int count = element.type().leaf_count();
    out.push_back({element, {next, next + count}});
    next += count;
  }
  return out;
}

// The sharding of a leaf with the dim of the examples, which propagation shards.
Sharding with_open_examples(Sharding sharding) {
  if (!sharding.is_tiled()) return sharding;
  DimSharding open;
  open.open = true;
  sharding.dims.insert(sharding.dims.begin(), std::move(open));
  return sharding;
}

ShardingRef sharding_with_examples(const ShardingRef& one, const BatchedLeaves& leaves) {
  if (!one) return one;
  Shardings out = *one;
  for (std::size_t k = 0; k < out.size() && k < leaves.size(); ++k)
    if (leaves[k]) out[k] = with_open_examples(std::move(out[k]));
  return make_shardings(std::move(out));
}

// True for an array, and for a tuple of arrays.
bool is_flat_of_arrays(const Type& type) {
  const auto is_array = [](const Type& element) { return element.is_array(); };
  return type.is_array() || (type.is_tuple() && std::all_of(type.elements().begin(), type.elements().end(), is_array));
}

}  // namespace

Value packed(Builder& builder, const std::vector<Batched>& elements, BatchedLeaves& leaves) {
  std::vector<Value> values;
  for (const Batched& element : elements) {
    values.push_back(element.value);
    leaves.insert(leaves.end(), element.leaves.begin(), element.leaves.end());
  }
  return ops::tuple(builder, values);
}

namespace {

// Copies the instructions of one computation.
class Batching {
 public:
  Batching(Builder& into, const Computation& from, std::int64_t examples)
      : into_(into), from_(from), examples_(examples), made_(from.instructions.size()) {}

  Batched run(const std::vector<Batched>& arguments) {
    const NotesRef before = into_.default_notes;
    for (std::size_t k = 0; k < arguments.size(); ++k) at(made_, from_.parameters[k]) = arguments[k];
    for (Id id = 0; id < from_.size(); ++id) {
      if (from_[id].op->role == Role::kParameter) continue;
      into_.default_notes = from_[id].notes;
      at(made_, id) = step(id);
    }
    into_.default_notes = before;
    return at(made_, from_.root);
  }

 private:
  Batched step(Id id) {
    const Instruction& instruction = from_[id];
    std::vector<Batched> operands;
    for (const Id operand : instruction.operands) operands.push_back(at(made_, operand));
    const bool is_shared =
        std::none_of(operands.begin(), operands.end(), [](const Batched& operand) { return operand.any(); });
    if (is_shared) return copied(instruction, operands);
    switch (instruction.op->role) {
      case Role::kTuple: {
        BatchedLeaves leaves;
        const Value value = packed(into_, operands, leaves);
        return {value, std::move(leaves)};
      }
      case Role::kOptBarrier: return barrier(operands);
      case Role::kGetTupleElement: return element(instruction, operands[0]);
      case Role::kCall: return batched_call(into_, instruction, operands, examples_);
      case Role::kWhile: return batched_while(into_, instruction, operands[0], examples_);
      case Role::kConditional: return batched_conditional(into_, instruction, operands, examples_);
      default: return of_op(instruction, operands);
    }
  }

  Batched copied(const Instruction& instruction, const std::vector<Batched>& operands) {
    Instruction copy = instruction;
    for (std::size_t i = 0; i < operands.size(); ++i) copy.operands[i] = operands[i].value.id;
    copy.control_predecessors.clear();
    return {into_.append(std::move(copy)),
            BatchedLeaves(static_cast<std::size_t>(instruction.type.leaf_count()), false)};
  }

  Batched barrier(const std::vector<Batched>& operands) {
    std::vector<Value> values;
    BatchedLeaves leaves;
    for (const Batched& operand : operands)
      for (const Batched& part : operand.value.type().is_tuple() ? parts_of(operand) : std::vector<Batched>{operand}) {
        values.push_back(part.value);
        leaves.insert(leaves.end(), part.leaves.begin(), part.leaves.end());
      }
    const std::vector<Value> results = ops::opt_barrier(values);
    const bool is_tuple = operands.size() > 1 || operands.front().value.type().is_tuple();
    return {is_tuple ? ops::tuple(into_, results) : results.front(), std::move(leaves)};
  }

  Batched element(const Instruction& instruction, const Batched& tuple) {
    const auto index = attributes_as<IndexAttributes>(instruction.attributes).index;
    const Type& one = from_[instruction.operands[0]].type;
    const auto first = tuple.leaves.begin() + one.leaf_offset(index);
    return {ops::get_tuple_element(tuple.value, static_cast<int>(index)),
            {first, first + instruction.type.leaf_count()}};
  }

  // An op whose operands are arrays.
  Batched of_op(const Instruction& instruction, const std::vector<Batched>& operands) {
    check(instruction);
    const OpView view = view_of(into_.program().program(), from_, instruction);
    BatchContext context{into_, view, {}, {}, examples_, instruction.called};
    for (const Batched& operand : operands) {
      context.operands.push_back(operand.value);
      context.is_batched.push_back(operand.any());
    }
    const BatchedLeaves leaves(static_cast<std::size_t>(instruction.type.leaf_count()), true);
    if (is_sharding_mark(instruction) || is_sharding_barrier(instruction))
      return {marked(instruction, context), leaves};
    Value value = emit_batched(context);
    if (value.is_null()) value = looped(context);
    const Type expected = with_examples(instruction.type, examples_);
    ensure(value.type() == expected, "{}: the form for several examples is {}, not {}", instruction.op->name,
           value.type(), expected);
    if (instruction.sharding) into_.set_sharding(value, sharding_with_examples(instruction.sharding, leaves));
    return {value, leaves};
  }

  void check(const Instruction& instruction) const {
    const bool is_possible = !has_side_effect(instruction) && instruction.op->collective == CollectiveKind::kNone &&
                             manual_border(instruction) == ManualBorder::kNone;
    const bool has_arrays =
        is_flat_of_arrays(instruction.type) && std::all_of(instruction.operands.begin(), instruction.operands.end(),
                                                           [&](Id operand) { return from_[operand].type.is_array(); });
    if (is_possible && has_arrays) return;
    Error error(
        manual_border(instruction) != ManualBorder::kNone
            ? "shard_map cannot run for several examples: call it outside of vmap, or call vmap in its function"
            : fmt::format("{} cannot run for several examples: it has a side effect, communicates between devices, or "
                          "takes no arrays; call it outside of vmap",
                          instruction.op->name));
    throw error.note_place(fmt::format("  at   %{}: {}    {}", instruction.name, instruction.type.str(),
                                       instruction.source().empty() ? "unknown source" : instruction.source()));
  }

  // A sharding constraint. The gradient of a mark may have the same sharding.
  Value marked(const Instruction& instruction, const BatchContext& context) {
    constexpr std::string_view kGradient = "tessera.gradient_sharding";
    const ShardingRef sharding = sharding_with_examples(instruction.sharding, {true});
    NotesRef notes = instruction.notes;
    if (sharding && instruction.frontend_attribute(kGradient) != nullptr)
      notes = with_frontend_attribute(notes, kGradient, sdy_sharding_text(sharding->front()));
    return into_.emit(*instruction.op, context.operands, instruction.attributes,
                      {.type = with_examples(instruction.type, examples_),
                       .called = context.called,
                       .sharding = sharding,
                       .notes = notes});
  }

  // One example after the other. The state is the results and then the operands.
  Value looped(const BatchContext& context) {
    const OpView& view = context.view;
    const auto leaves = view.result.leaves();
    std::vector<Value> init;
    for (const Type& leaf : leaves) init.push_back(ops::full(into_, with_examples(leaf, examples_), 0));
    init.insert(init.end(), context.operands.begin(), context.operands.end());
    const int count = isize(leaves);
    const NotesRef notes = into_.default_notes;
    const auto results = ops::counted_while(
        into_, std::string(view.op.name) + ".examples", examples_, init,
        [&](Value round, const std::vector<Value>& now) {
          Builder& inner = *round.builder;
          inner.default_notes = notes;
          std::vector<Value> operands;
          for (int i = 0; i < isize(view.operands); ++i)
            operands.push_back(context.batched(i) ? ops::row_at(at(now, count + i), round) : at(now, count + i));
          const Value result =
              inner.emit(view.op, operands, view.attributes, {.type = view.result, .called = context.called});
          const auto rows = view.result.is_tuple() ? ops::elements_of(result) : std::vector<Value>{result};
          std::vector<Value> next;
          for (int k = 0; k < count; ++k) next.push_back(ops::with_row_at(at(now, k), at(rows, k), round));
          next.insert(next.end(), now.begin() + count, now.end());
          return next;
        });
    if (!view.result.is_tuple()) return results.front();
    return ops::tuple(into_, {results.begin(), results.begin() + count});
  }

  Builder& into_;
  const Computation& from_;
  std::int64_t examples_;
  std::vector<Batched> made_;
};

}  // namespace
}  // namespace autodiff

Batched batched(Builder& into, const Computation& computation, const std::vector<Batched>& arguments,
                std::int64_t examples) {
  ensure(arguments.size() == computation.parameters.size(), "{} arguments for {} parameters", arguments.size(),
         computation.parameters.size());
  return autodiff::Batching(into, computation, examples).run(arguments);
}

Batched with_batched(const Batched& x, const std::vector<bool>& leaves, std::int64_t examples) {
  if (x.leaves == leaves) return x;
  if (!x.value.type().is_tuple()) {
    ensure(!x.any(), "a value for several examples where one is expected");
    return {for_each_example(x.value, examples), leaves};
  }
  std::vector<Batched> elements;
  auto next = leaves.begin();
  for (const Batched& part : autodiff::parts_of(x)) {
    const auto count = static_cast<std::ptrdiff_t>(part.leaves.size());
    elements.push_back(with_batched(part, {next, next + count}, examples));
    next += count;
  }
  Batched out;
  out.value = autodiff::packed(*x.value.builder, elements, out.leaves);
  return out;
}

}  // namespace tessera
