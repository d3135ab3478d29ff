// SPDX-License-Identifier: Apache-2.0
#include "check/widen_to_double.h"

#include <algorithm>
#include <memory>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera {
namespace {

DType wide_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32: return DType::kF64;
    case DType::kC64: return DType::kC128;
    default: return is_narrow_float(dtype) ? DType::kF64 : dtype;
  }
}

Type wide_type(const Type& type) {
  if (type.is_array()) return type.with_dtype(wide_dtype(type.dtype()));
  if (!type.is_tuple()) return type;
  std::vector<Type> elements;
  for (const Type& element : type.elements()) elements.push_back(wide_type(element));
  return Type::tuple(std::move(elements));
}

Literal wide_array(const Literal& array) {
  Literal out(wide_type(array.type()));
  if (is_narrow(array.type().dtype())) {
    auto to = out.mutable_data<double>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = element_as_double(array, static_cast<std::int64_t>(i));
    return out;
  }
  visit_any_dtype(array.type().dtype(), [&]<class T>() {
    const auto from = array.data<T>();
    if constexpr (is_complex(kDTypeOf<T>)) {
      auto to = out.mutable_data<Complex128>();
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = {static_cast<double>(from[i].real()), static_cast<double>(from[i].imag())};
    } else {
      auto to = out.mutable_data<double>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<double>(from[i]);
    }
  });
  return out;
}

// Rewrites one computation.
class Widening {
 public:
  // `callees`: the computations of `program`, those before this one rewritten. Appends to `out`.
  Widening(const Program& program, const Computation& from, const std::vector<ComputationRef>& callees,
           Computation& out)
      : program_(program), from_(from), callees_(callees), out_(out) {}

  // Returns false if an op supports neither the wide nor the original types.
  bool run() {
    for (const Instruction& old : from_.instructions)
      if (!add(old)) return false;
    for (const Id parameter : from_.parameters) out_.parameters.push_back(at(new_ids_, parameter));
    out_.root = at(new_ids_, from_.root);
    return true;
  }

 private:
  // Appends the called computation instead of the call, because a partitioner may do so before it folds. Returns false
  // if that is impossible.
  bool add_body(const Instruction& call) {
    Widening body(program_, program_[call.called.front()], callees_, out_);
    for (const Instruction& inner : body.from_.instructions) {
      const auto parameter =
          std::find(body.from_.parameters.begin(), body.from_.parameters.end(), static_cast<Id>(body.new_ids_.size()));
      if (parameter == body.from_.parameters.end()) {
        if (!body.add(inner)) return false;
        continue;
      }
      const Id given = at(call.operands, static_cast<std::int64_t>(parameter - body.from_.parameters.begin()));
      body.new_ids_.push_back(at(new_ids_, given));
      body.is_splat_.push_back(is_splat(given));
    }
    new_ids_.push_back(at(body.new_ids_, body.from_.root));
    is_splat_.push_back(body.is_splat(body.from_.root));
    return true;
  }

  bool add(const Instruction& old) {
    if (old.op->role == Role::kCall &&
        std::any_of(old.operands.begin(), old.operands.end(), [&](Id id) { return is_splat(id); }))
      return add_body(old);
    Instruction next = old;
    next.type = wide_type(old.type);
    for (Id& id : next.operands) id = at(new_ids_, id);
    for (Id& id : next.control_predecessors) id = at(new_ids_, id);
    if (old.op->role == Role::kConstant)
      next.attributes = make_attributes(
          ConstantAttributes{with_wide_floats(attributes_as<ConstantAttributes>(old.attributes).value)});
    const bool is_narrow_here = is_folded(old);
    is_splat_.push_back(is_narrow_here || moves_splats(old));
    if (!is_narrow_here && takes_its_types(next)) {
      new_ids_.push_back(append(std::move(next)));
      return true;
    }
    if (!old.called.empty()) return false;
    next.type = old.type;
    for (int i = 0; i < isize(next.operands); ++i)
      at(next.operands, i) = converted(at(next.operands, i), from_[at(old.operands, i)].type, old);
    const Id narrow = append(std::move(next));
    new_ids_.push_back(converted(narrow, wide_type(old.type), old));
    return true;
  }

  [[nodiscard]] bool is_splat(Id id) const { return at(is_splat_, id); }

  // Whether a partitioner may fold the instruction, which it does in the original types: an op on scalar constants or on
  // arrays that repeat one. Ops on other constants are the same in both programs, though one of them may cut the
  // constants into shards at run time, so their types do not depend on that.
  [[nodiscard]] bool is_folded(const Instruction& old) const {
    if (!is_pure(old) || !old.type.is_array() || only_moves(old)) return false;
    if (!old.op->elementwise && old.type.ndim() > 0) return false;
    return std::all_of(old.operands.begin(), old.operands.end(), [&](Id id) { return is_splat(id); });
  }

  // Whether the result is a scalar constant, or repeats one, because its operand does.
  [[nodiscard]] bool moves_splats(const Instruction& old) const {
    if (old.op->role == Role::kConstant) return old.type.is_array() && old.type.ndim() == 0;
    if (old.operands.empty()) return false;
    switch (old.op->role) {
      case Role::kPlain: return is_pure(old) && only_moves(old) && is_splat(old.operands.front()) && has_one_array(old);
      case Role::kTuple:
      case Role::kGetTupleElement:
      case Role::kOptBarrier:
      case Role::kCopy:
      case Role::kShardingMark:
        return std::all_of(old.operands.begin(), old.operands.end(), [&](Id id) { return is_splat(id); });
      default: return false;
    }
  }

  [[nodiscard]] static bool is_pure(const Instruction& old) {
    if (old.op->role != Role::kPlain || old.operands.empty() || !old.called.empty()) return false;
    return old.op->side_effect == nullptr || !old.op->side_effect(old.attributes);
  }

  // Whether all operands but the first are indices: a pad has two kinds of elements.
  [[nodiscard]] bool has_one_array(const Instruction& old) const {
    return std::none_of(old.operands.begin() + 1, old.operands.end(),
                        [&](Id id) { return wide_type(from_[id].type) != from_[id].type; });
  }

  // Whether the instruction only moves elements of its first operand, which rounds nothing.
  [[nodiscard]] bool only_moves(const Instruction& old) const {
    OpView view{*old.op, {}, old.type, old.attributes, {}};
    for (const Id id : old.operands) view.operands.push_back(from_[id].type);
    return old.op->linearity != nullptr && old.op->linearity(view, 0) == Linearity::kAny;
  }

  bool takes_its_types(const Instruction& instruction) const {
    if (instruction.op->infer == nullptr) return true;
    OpView view{*instruction.op, {}, instruction.type, instruction.attributes, {}};
    for (const Id id : instruction.operands) view.operands.push_back(out_[id].type);
    for (const ComputationId id : instruction.called) view.called.push_back(at(callees_, id));
    try {
      return instruction.op->infer(view) == instruction.type;
    } catch (const Error&) {
      return false;
    }
  }

  Id append(Instruction instruction) {
    out_.instructions.push_back(std::move(instruction));
    return out_.size() - 1;
  }

  Id emit(const OpDef& op, std::vector<Id> operands, Type type, Attributes attributes, const Instruction& around) {
    Instruction out;
    out.op = &op;
    out.operands = std::move(operands);
    out.type = std::move(type);
    out.attributes = std::move(attributes);
    out.name = fmt::format("{}.width.{}", around.name, out_.size());
    return append(std::move(out));
  }

  // Converts the value to the types of `to`, leaf by leaf.
  Id converted(Id value, const Type& to, const Instruction& around) {
    const Type from = out_[value].type;
    if (from == to) return value;
    if (!to.is_tuple()) return emit(rows::kConvert, {value}, to, nullptr, around);
    std::vector<Id> elements;
    for (int i = 0; i < isize(to.elements()); ++i) {
      const Id element =
          emit(rows::kGetTupleElement, {value}, at(from.elements(), i), make_attributes(IndexAttributes{i}), around);
      elements.push_back(converted(element, at(to.elements(), i), around));
    }
    return emit(rows::kTuple, std::move(elements), to, nullptr, around);
  }

  const Program& program_;
  const Computation& from_;
  const std::vector<ComputationRef>& callees_;
  Computation& out_;
  std::vector<Id> new_ids_;
  std::vector<bool> is_splat_;
};

}  // namespace

Literal with_wide_floats(const Literal& value) {
  if (value.type().is_tuple()) {
    std::vector<Literal> elements;
    for (const Literal& element : value.elements()) elements.push_back(with_wide_floats(element));
    return Literal::tuple(std::move(elements));
  }
  const bool changes = value.type().is_array() && wide_dtype(value.type().dtype()) != value.type().dtype();
  return changes ? wide_array(value) : value;
}

std::optional<Program> with_wide_floats(const Program& program) {
  Program out = program;
  for (auto& computation : out.computations) {
    auto wide = std::make_shared<Computation>();
    wide->name = computation->name;
    wide->execution_thread = computation->execution_thread;
    Widening widening(program, *computation, out.computations, *wide);  // callees come first
    if (!widening.run()) return std::nullopt;
    computation = std::move(wide);
  }
  return out;
}

}  // namespace tessera
