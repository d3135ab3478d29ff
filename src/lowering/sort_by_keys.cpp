// SPDX-License-Identifier: Apache-2.0
// Sorts by computed keys, because a kernel sorts only by comparisons of an operand; other comparators are called for
// every pair of elements. JAX sorts floats in this way:
//
//   %s = sort(%x, %i), to_apply=%less               less(a, b, ..) = select(a == 0, 0, a) < select(b == 0, 0, b)
//   ->  %key = select(%x == 0, 0, %x)
//       %all = sort(%x, %i, %key), to_apply=%less_key
//       %s = tuple(%all[0], %all[1])
//
// A comparator may compare several keys (the second one if the first ones are equal, and so on). As sorts are stable,
// the elements are then sorted by the last key first.
#include <algorithm>
#include <optional>

#include "apply_to_arrays.h"
#include "tessera/base/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// The comparator computes `left` from the elements on its left side, and compares it with the same function of those
/// on its right side.
struct SortKey {
  Id left = -1;
  CompareDirection direction = CompareDirection::kLt;
};

class Comparator {
 public:
  explicit Comparator(const Computation& computation) : computation_(computation) {}

  /// The keys that it compares, the most significant one first; nullopt if it has another form.
  [[nodiscard]] std::optional<std::vector<SortKey>> keys() const {
    std::vector<SortKey> out;
    Id id = computation_.root;
    while (const auto next = first_of(id)) {
      out.push_back(next->key);
      id = next->rest;
    }
    const auto last = ordered_key(id);
    if (!last) return std::nullopt;
    out.push_back(*last);
    return out;
  }

 private:
  struct First {
    SortKey key;
    Id rest;  // the comparison of the other keys
  };

  // The first key of `first < or (first == and rest)`, in any order of the operands, or of a select in its place.
  [[nodiscard]] std::optional<First> first_of(Id id) const {
    const Instruction& root = computation_[id];
    if (root.op == &rows::kSelect) return compared_first(root.operands[2], root.operands[0], root.operands[1]);
    if (root.op != &rows::kOr) return std::nullopt;
    for (const int i : {0, 1}) {
      const Instruction& both = computation_[at(root.operands, 1 - i)];
      if (both.op != &rows::kAnd) continue;
      for (const int j : {0, 1})
        if (const auto out = compared_first(at(root.operands, i), at(both.operands, j), at(both.operands, 1 - j)))
          return out;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<First> compared_first(Id less, Id equal, Id rest) const {
    const auto key = ordered_key(less);
    const auto same = compared_key(equal);
    if (!key || !same || same->direction != CompareDirection::kEq || !is_equal(key->left, same->left))
      return std::nullopt;
    return First{*key, rest};
  }

  [[nodiscard]] std::optional<SortKey> ordered_key(Id id) const {
    const auto key = compared_key(id);
    const bool is_ordered = key && (key->direction == CompareDirection::kLt || key->direction == CompareDirection::kGt);
    return is_ordered ? key : std::nullopt;
  }

  // A comparison of integers, or of floats in the total order.
  [[nodiscard]] std::optional<SortKey> compared_key(Id id) const {
    const Instruction& compare = computation_[id];
    if (compare.op != &rows::kCompare) return std::nullopt;
    const auto& how = attributes_as<CompareAttributes>(compare.attributes);
    const DType dtype = computation_[compare.operands[0]].type.dtype();
    if (is_complex(dtype) || how.type != (is_float(dtype) ? CompareType::kTotalOrder : CompareType::kDefault))
      return std::nullopt;
    if (corresponds(compare.operands[0], compare.operands[1], 1)) return SortKey{compare.operands[0], how.direction};
    if (!corresponds(compare.operands[1], compare.operands[0], 1)) return std::nullopt;
    const bool is_less = how.direction == CompareDirection::kLt;
    const bool is_greater = how.direction == CompareDirection::kGt;
    return SortKey{compare.operands[1], is_less      ? CompareDirection::kGt
                                        : is_greater ? CompareDirection::kLt
                                                     : how.direction};
  }

  [[nodiscard]] bool is_equal(Id a, Id b) const { return a == b || corresponds(a, b, 0); }

  // Whether `b` is the same function of the parameters 2k + side as `a` is of the parameters 2k. A comparator has few
  // instructions. The limit prevents that one with repeated operands takes exponential time.
  [[nodiscard]] bool corresponds(Id a, Id b, std::int64_t side) const {
    int steps = 0;
    return corresponds(a, b, side, steps);
  }
  bool corresponds(Id a, Id b, std::int64_t side, int& steps) const {
    constexpr int kMostSteps = 1000;
    const Instruction& x = computation_[a];
    const Instruction& y = computation_[b];
    if (++steps > kMostSteps || x.op != y.op || x.type != y.type) return false;
    if (x.op->role == Role::kParameter) {
      const auto number = [](const Instruction& i) { return attributes_as<ParameterAttributes>(i.attributes).number; };
      return number(x) % 2 == 0 && number(y) == number(x) + side;
    }
    if (!equal(x.attributes, y.attributes)) return false;
    if (x.op->role == Role::kConstant) return true;
    const bool is_plain = x.op->role == Role::kPlain && x.op->elementwise && x.called.empty() && !has_side_effect(x);
    if (!is_plain || !x.type.is_array() || x.operands.size() != y.operands.size()) return false;
    for (std::size_t i = 0; i < x.operands.size(); ++i)
      if (!corresponds(x.operands[i], y.operands[i], side, steps)) return false;
    return true;
  }

  const Computation& computation_;
};

/// The keys of a sort that no kernel sorts, but would after this pass.
std::optional<std::vector<SortKey>> computed_keys(const Program& program, const Instruction& instruction) {
  if (instruction.op != &rows::kSort) return std::nullopt;
  const Computation& comparator = program[instruction.called.front()];
  auto keys = Comparator(comparator).keys();
  const bool has_kernel = keys && keys->size() == 1 && comparator[keys->front().left].op->role == Role::kParameter;
  return has_kernel ? std::nullopt : keys;
}

class KeySorter {
 public:
  KeySorter(ComputationRewriter& r, const Computation& comparator, const Instruction& sort)
      : builder_(r.builder()), comparator_(comparator), sort_(sort), arrays_(r.mapped(sort.operands)) {}

  Value sorted(const std::vector<SortKey>& keys) {
    const std::size_t count = arrays_.size();
    const std::vector<int> positions = positions_of(keys);
    for (int k = isize(keys) - 1; k >= 0; --k) sort_by(at(positions, k), at(keys, k).direction);
    arrays_.resize(count);
    return sort_.type.is_tuple() ? ops::tuple(builder_, arrays_) : arrays_.front();
  }

 private:
  // The positions of the keys among the arrays. Appends the keys that are not operands.
  std::vector<int> positions_of(const std::vector<SortKey>& keys) {
    std::vector<Value> arguments;  // null for elements on the right side
    for (const Value& array : arrays_) arguments.insert(arguments.end(), {array, Value{}});
    std::vector<Id> computed;
    std::vector<int> out;
    for (const SortKey& key : keys) {
      const Instruction& made = comparator_[key.left];
      const bool is_operand = made.op->role == Role::kParameter;
      out.push_back(is_operand ? static_cast<int>(attributes_as<ParameterAttributes>(made.attributes).number / 2)
                               : isize(arrays_) + isize(computed));
      if (!is_operand) computed.push_back(key.left);
    }
    const Dims dims = arrays_.front().type().dims();
    for (const Value& key :
         apply_to_arrays(builder_, comparator_, computed, arguments, dims, for_another_op(sort_.notes)))
      arrays_.push_back(key);
    return out;
  }

  void sort_by(int position, CompareDirection direction) {
    const Value all = ops::sort(arrays_, sort_dim(), true, comparator_of(position, direction));
    builder_.set_notes(all, sort_.notes);
    if (arrays_.size() == 1) {
      arrays_.front() = all;
      return;
    }
    for (int i = 0; i < isize(arrays_); ++i) at(arrays_, i) = ops::get_tuple_element(all, i);
  }

  [[nodiscard]] int sort_dim() const {
    return static_cast<int>(attributes_as<SortAttributes>(sort_.attributes).dimensions.front());
  }

  ComputationId comparator_of(int position, CompareDirection direction) {
    Builder made = builder_.program().computation(comparator_.name + ".key");
    std::vector<Value> parameters;
    for (const Value& array : arrays_)
      for (int side = 0; side < 2; ++side)
        parameters.push_back(ops::parameter(made, isize(parameters), Type::scalar(array.type().dtype())));
    const Value left = at(parameters, 2 * position);
    const CompareType type = is_float(left.type().dtype()) ? CompareType::kTotalOrder : CompareType::kDefault;
    const Value root = ops::compare(left, at(parameters, 2 * position + 1), direction, type);
    return builder_.program().add(std::move(made), root);
  }

  Builder& builder_;
  const Computation& comparator_;
  const Instruction& sort_;
  std::vector<Value> arrays_;  // the operands, then the keys
};

}  // namespace

Program sort_by_keys(const Program& program) {
  return rewrite(
      program,
      [&](ComputationRewriter& r, Id id) {
        const Instruction& instruction = r.from()[id];
        const auto keys = computed_keys(program, instruction);
        return keys ? KeySorter(r, program[instruction.called.front()], instruction).sorted(*keys) : Value{};
      },
      [&](const Computation& computation) {
        return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                           [&](const Instruction& i) { return computed_keys(program, i).has_value(); });
      });
}

}  // namespace tessera
