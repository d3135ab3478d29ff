// SPDX-License-Identifier: Apache-2.0
// Represents a value as `rest + reduced(pre)` as long as only one op reads it: an all-reduce is reduced(its operand),
// and an addition adds both components. If two addends have the same reduction, the components are summed separately in
// place of the additions, and the sum is reduced once, where another kind of op reads it:
//
//   %s = add(%p, all-reduce(%x)), %t = add(%s, all-reduce(%y))   ->   %t = add(%p, all-reduce(add(%x, %y)))
#include <algorithm>
#include <cmath>
#include <optional>

#include "collective_passes/collective_match.h"
#include "localize/localize.h"
#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// An instruction as a sum.
struct Sum {
  Id collective = -1;  // the first of its reductions, as an example of all
  int reduced = 0;     // number of reduced addends
  bool has_rest = false;
};

class Sums {
 public:
  Sums(const Program& program, const Computation& computation, const CollectivePassOptions& options)
      : program_(program),
        computation_(computation),
        options_(options),
        uses_(computation.use_counts()),
        ordered_(ordered_by_control(computation)),
        sums_(computation.instructions.size()),
        absorbed_(computation.instructions.size(), false),
        active_(computation.instructions.size(), false) {
    for (Id id = 0; id < computation.size(); ++id) sums_[static_cast<std::size_t>(id)] = sum_of(id);
    for (Id id = computation.size() - 1; id >= 0; --id) activate(id);
  }

  [[nodiscard]] bool any() const { return std::find(active_.begin(), active_.end(), true) != active_.end(); }
  /// Whether the instruction is part of a sum that is reduced once instead of several times.
  [[nodiscard]] bool is_active(Id id) const { return at(active_, id); }
  /// Whether an instruction outside of the sum reads it.
  [[nodiscard]] bool is_top(Id id) const { return !at(absorbed_, id); }
  [[nodiscard]] const Sum& operator[](Id id) const { return *at(sums_, id); }

 private:
  [[nodiscard]] bool is_reduction(const Instruction& instruction) const {
    const bool scatters = is_single(instruction, CollectiveKind::kReduceScatter);
    if (!scatters && !is_single(instruction, CollectiveKind::kAllReduce)) return false;
    if (is_pinned(instruction) || !reduction_by(program_, instruction)) return false;
    return !scatters || computation_[instruction.operands[0]].type.byte_size() <= options_.memory_bound;
  }

  [[nodiscard]] const Sum* readable(Id operand) const {
    const auto& sum = at(sums_, operand);
    return sum && at(uses_, operand) == 1 ? &*sum : nullptr;
  }

  // Whether the op combines values as the collective does; subtraction counts as addition.
  [[nodiscard]] bool adds_like(const Instruction& instruction, Id collective) const {
    const auto reduction = *reduction_by(program_, computation_[collective]);
    if (reduction != Reduction::kSum && reduction != Reduction::kMin && reduction != Reduction::kMax) return false;
    if (instruction.op == &rows::kSubtract) return reduction == Reduction::kSum;
    return instruction.op->combines && instruction.op->combines->of_numbers == reduction;
  }

  [[nodiscard]] std::optional<Sum> sum_of(Id id) const {
    const Instruction& instruction = computation_[id];
    if (at(ordered_, id)) return std::nullopt;
    if (is_reduction(instruction)) return Sum{id, 1, false};
    const auto& operands = instruction.operands;
    if (operands.size() == 1) return through(id);
    if (operands.size() != 2 || operands[0] == operands[1]) return std::nullopt;
    const Sum* left = readable(operands[0]);
    const Sum* right = readable(operands[1]);
    if (left == nullptr && right == nullptr) return std::nullopt;
    const Sum& first = left != nullptr ? *left : *right;
    if (!adds_like(instruction, first.collective)) return scaled(id);
    if (left == nullptr || right == nullptr ||
        !same_exchange(program_, computation_[left->collective], computation_[right->collective]))
      return with_rest(instruction, left, right);
    return Sum{left->collective, left->reduced + right->reduced, left->has_rest || right->has_rest};
  }

  // Only one operand is a sum with this reduction. If both are sums with different reductions, the left one counts.
  [[nodiscard]] static std::optional<Sum> with_rest(const Instruction& instruction, const Sum* left, const Sum* right) {
    const Sum& sum = left != nullptr ? *left : *right;
    // p - reduced(x) would require -x.
    if (left == nullptr && instruction.op == &rows::kSubtract) return std::nullopt;
    return Sum{sum.collective, sum.reduced, true};
  }

  // Data movement and negation commute with the reduction bit for bit.
  [[nodiscard]] std::optional<Sum> through(Id id) const {
    const Instruction& instruction = computation_[id];
    const Sum* sum = readable(instruction.operands[0]);
    if (sum == nullptr || sum->reduced != 1 || sum->has_rest || !instruction.called.empty()) return std::nullopt;
    const Instruction& collective = computation_[sum->collective];
    const bool is_sum = reduction_by(program_, collective) == Reduction::kSum;
    const Movement movement = instruction.op->movement;
    const bool moves = collective.op->collective == CollectiveKind::kAllReduce &&
                       (movement == Movement::kReshape || movement == Movement::kTranspose) &&
                       instruction.type.dtype() == collective.type.dtype();
    if (moves || (instruction.op == &rows::kNegate && is_sum)) return std::optional<Sum>(*sum);
    return std::nullopt;
  }
  // Scaling by a power of two is exact.
  [[nodiscard]] std::optional<Sum> scaled(Id id) const {
    const Instruction& instruction = computation_[id];
    if (instruction.op != &rows::kMultiply || !has_room(instruction.type.dtype())) return std::nullopt;
    for (const int side : {0, 1}) {
      const Sum* sum = readable(at(instruction.operands, side));
      const auto factor = splat_of(at(instruction.operands, 1 - side));
      if (sum == nullptr || !factor || sum->reduced != 1 || sum->has_rest) continue;
      int exponent = 0;
      const bool is_power = std::fabs(std::frexp(*factor, &exponent)) == 0.5 && std::abs(exponent) <= kMostExponent;
      if (is_power && reduction_by(program_, computation_[sum->collective]) == Reduction::kSum)
        return std::optional<Sum>(*sum);
    }
    return std::nullopt;
  }
  // Whether the range of the type is so large that scaling does not overflow or underflow in practice; f16's is not.
  static bool has_room(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16; }
  static constexpr int kMostExponent = 20;

 public:
  /// The number that fills a constant, or the broadcast of one.
  [[nodiscard]] std::optional<double> splat_of(Id id) const {
    const Instruction* instruction = &computation_[id];
    if (instruction->op == &rows::kBroadcast) instruction = &computation_[instruction->operands[0]];
    const Literal* value = known_constant(*instruction);
    if (value == nullptr || !value->type().is_array() || value->type().ndim() != 0) return std::nullopt;
    return element_as_double(*value, 0);
  }

 private:
  // Runs from the last instruction to the first. A top with two or more reduced addends makes its operands active.
  void activate(Id id) {
    if (!at(sums_, id)) return;
    if (!at(active_, id) && (at(absorbed_, id) || at(sums_, id)->reduced < 2)) return;
    active_[static_cast<std::size_t>(id)] = true;
    if (computation_[id].op->role == Role::kCollective) return;
    for (const Id operand : computation_[id].operands) {
      const Sum* sum = readable(operand);
      if (sum == nullptr ||
          !same_exchange(program_, computation_[sum->collective], computation_[at(sums_, id)->collective]))
        continue;
      active_[static_cast<std::size_t>(operand)] = absorbed_[static_cast<std::size_t>(operand)] = true;
    }
  }

  const Program& program_;
  const Computation& computation_;
  const CollectivePassOptions& options_;
  std::vector<int> uses_;
  std::vector<bool> ordered_;
  std::vector<std::optional<Sum>> sums_;
  std::vector<bool> absorbed_;
  std::vector<bool> active_;
};

class Reassociator {
 public:
  Reassociator(ComputationRewriter& rewriter, const Sums& sums)
      : r_(rewriter), from_(rewriter.from()), sums_(sums), parts_(from_.instructions.size()) {}

  void run() {
    for (Id id = 0; id < from_.size(); ++id) {
      if (from_[id].op->role == Role::kParameter) continue;
      if (!sums_.is_active(id)) {
        r_.keep(id);
        continue;
      }
      at(parts_, id) = parts_of(id);
      if (sums_.is_top(id)) r_.replace(id, total_of(id));
    }
  }

 private:
  struct Parts {
    Value pre{};   // to be reduced
    Value rest{};  // not reduced; null if there is none
  };

  [[nodiscard]] bool is_part(Id operand) const { return sums_.is_active(operand) && !sums_.is_top(operand); }

  Parts parts_of(Id id) {
    const Instruction& instruction = from_[id];
    if (instruction.op->role == Role::kCollective) return {r_.mapped(instruction.operands[0]), {}};
    if (instruction.operands.size() == 1) return {on(id, {at(parts_, instruction.operands[0]).pre}), {}};
    const Id a = instruction.operands[0];
    const Id b = instruction.operands[1];
    if (instruction.op == &rows::kMultiply) return scaled(id, is_part(a) ? a : b, is_part(a) ? b : a);
    Parts left = is_part(a) ? at(parts_, a) : Parts{{}, r_.mapped(a)};
    const Parts right = is_part(b) ? at(parts_, b) : Parts{{}, r_.mapped(b)};
    left.pre = joined(id, left.pre, right.pre);
    left.rest = joined(id, left.rest, right.rest);
    return left;
  }

  // Either operand may be missing; a missing left operand of a subtraction gives a negation.
  Value joined(Id id, Value left, Value right) {
    if (right.is_null()) return left;
    if (left.is_null()) return from_[id].op == &rows::kSubtract ? ops::negate(right) : right;
    return on(id, {left, right});
  }

  Parts scaled(Id id, Id sum, Id factor) {
    const Value pre = at(parts_, sum).pre;
    const Value scalar = ops::constant(r_.builder(), scalar_of(from_[id].type.dtype(), *sums_.splat_of(factor)));
    return {ops::multiply(pre, ops::splat(scalar, pre.type().dims())), {}};
  }

  // The op of `id` on other operands. The result has their shape.
  Value on(Id id, const std::vector<Value>& operands) {
    const Instruction& old = from_[id];
    const Type type = old.op->elementwise ? operands[0].type() : old.type;
    return r_.builder().emit(*old.op, operands, old.attributes,
                             {.type = type, .notes = with_frontend_attribute(old.notes, kGlobalDimsAttribute, {})});
  }

  Value total_of(Id id) {
    const Instruction& old = from_[id];
    const Parts& parts = at(parts_, id);
    Instruction collective = r_.translated(sums_[id].collective);
    collective.operands = {parts.pre.id};
    collective.type = old.type;
    collective.sharding = old.sharding;
    const auto* dims = old.frontend_attribute(kGlobalDimsAttribute);
    const auto global = dims != nullptr ? std::optional<std::string>(*dims) : std::nullopt;
    collective.notes = with_frontend_attribute(collective.notes, kGlobalDimsAttribute, global);
    const Value reduced = r_.builder().append(std::move(collective));
    if (parts.rest.is_null()) return reduced;
    const OpDef& op = old.op == &rows::kSubtract ? rows::kAdd : *old.op;
    return r_.builder().emit(op, {parts.rest, reduced}, nullptr,
                             {.sharding = old.sharding, .notes = old.notes, .name = old.name});
  }

  ComputationRewriter& r_;
  const Computation& from_;
  const Sums& sums_;
  std::vector<Parts> parts_;
};

bool has_two_reductions(const Computation& computation) {
  return std::count_if(computation.instructions.begin(), computation.instructions.end(), [](const auto& i) {
           return is_single(i, CollectiveKind::kAllReduce) || is_single(i, CollectiveKind::kReduceScatter);
         }) > 1;
}

}  // namespace

Program reassociate_reductions(const Program& program, const CollectivePassOptions& options) {
  std::vector<std::pair<const Computation*, Sums>> found;
  for (const ComputationRef& computation : program.computations) {
    if (!has_two_reductions(*computation)) continue;
    Sums sums(program, *computation, options);
    if (sums.any()) found.emplace_back(computation.get(), std::move(sums));
  }
  if (found.empty()) return program;
  const auto sums_of = [&](const Computation& computation) {
    return std::find_if(found.begin(), found.end(), [&](const auto& pair) { return pair.first == &computation; });
  };
  return remove_dead_code(rewrite_computations(
      program,
      [&](ComputationRewriter& rewriter) {
        const auto sums = sums_of(rewriter.from());
        if (sums != found.end()) return Reassociator(rewriter, sums->second).run();
        for (Id id = 0; id < rewriter.from().size(); ++id) rewriter.keep(id);
      },
      [&](const Computation& computation) { return sums_of(computation) != found.end(); }));
}

}  // namespace tessera
