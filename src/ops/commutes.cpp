// SPDX-License-Identifier: Apache-2.0
// Proves that functions commute by symbolic evaluation: f(init, x) and f(x, init) are written as terms and compared.
// For a known order of an element and its init value, comparisons are true or false, and `select` is one of its
// operands. Operands of commutative ops are sorted.
#include "tessera/ops/commutes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace {

// How an element of init compares with that of x.
enum class Order : std::uint8_t { kLess, kEqual, kGreater };
constexpr std::size_t kOrders = 3;

using Term = std::string;
using Terms = std::vector<Term>;
const Term kTrue = "true";
const Term kFalse = "false";

Term truth(bool value) { return value ? kTrue : kFalse; }
bool is_known(const Term& term) { return term == kTrue || term == kFalse; }

bool holds_for(CompareDirection direction, Order order) {
  switch (direction) {
    case CompareDirection::kEq: return order == Order::kEqual;
    case CompareDirection::kNe: return order != Order::kEqual;
    case CompareDirection::kLt: return order == Order::kLess;
    case CompareDirection::kLe: return order != Order::kGreater;
    case CompareDirection::kGt: return order == Order::kGreater;
    case CompareDirection::kGe: return order != Order::kLess;
  }
  return false;
}

class Evaluation {
 public:
  Evaluation(const Computation& function, const std::vector<Order>& orders) : function_(function), orders_(orders) {}

  /// The results of f(init, x) or f(x, init); nullopt if f has instructions of other kinds.
  std::optional<Terms> results(bool init_is_first) {
    init_is_first_ = init_is_first;
    terms_.assign(function_.instructions.size(), "");
    for (Id id = 0; id < function_.size(); ++id)
      if (id != function_.root || !function_[id].type.is_tuple()) {
        const auto term = term_of(id);
        if (!term) return std::nullopt;
        at(terms_, id) = *term;
      }
    const Instruction& root = function_[function_.root];
    if (!root.type.is_tuple()) return Terms{at(terms_, function_.root)};
    if (root.op != &rows::kTuple) return std::nullopt;
    return operands_of(root);
  }

 private:
  [[nodiscard]] Terms operands_of(const Instruction& instruction) const {
    Terms out;
    for (const Id operand : instruction.operands) out.push_back(at(terms_, operand));
    return out;
  }
  [[nodiscard]] static Term symbol(char side, std::size_t array) { return fmt::format("{}{}", side, array); }
  // Equal elements have the same name.
  [[nodiscard]] Term parameter(Id id) const {
    const auto& all = function_.parameters;
    const auto place = static_cast<std::size_t>(std::find(all.begin(), all.end(), id) - all.begin());
    const std::size_t array = place % orders_.size();
    if (orders_[array] == Order::kEqual) return symbol('e', array);
    return symbol((place < orders_.size()) == init_is_first_ ? 'i' : 'x', array);
  }

  [[nodiscard]] std::optional<Term> term_of(Id id) const {
    const Instruction& instruction = function_[id];
    if (!instruction.type.is_array() || !instruction.called.empty()) return std::nullopt;
    if (instruction.op->role == Role::kParameter) return parameter(id);
    if (instruction.op->role == Role::kCopy) return at(terms_, instruction.operands.front());
    if (instruction.op->role != Role::kConstant && !instruction.op->elementwise) return std::nullopt;
    const Terms operands = operands_of(instruction);
    if (instruction.op == &rows::kCompare)
      if (const auto known = comparison(instruction, operands)) return truth(*known);
    if (instruction.op == &rows::kSelect) {
      if (is_known(operands[0])) return operands[0] == kTrue ? operands[1] : operands[2];
      if (operands[1] == operands[2]) return operands[1];
    }
    if (instruction.type.dtype() == DType::kPred)
      if (auto known = connective(instruction, operands)) return known;
    return plain(instruction, operands);
  }

  // The result of comparing an element with its init value, or a value with itself.
  [[nodiscard]] std::optional<bool> comparison(const Instruction& compare, const Terms& operands) const {
    const auto& attributes = attributes_as<CompareAttributes>(compare.attributes);
    if (attributes.type == CompareType::kTotalOrder) return std::nullopt;  // -0 is less than 0
    if (operands[0] == operands[1]) return holds_for(attributes.direction, Order::kEqual);
    for (std::size_t array = 0; array < orders_.size(); ++array) {
      const Order order = orders_[array];
      const Term init = symbol('i', array);
      const Term x = symbol('x', array);
      if (operands[0] == init && operands[1] == x) return holds_for(attributes.direction, order);
      if (operands[0] == x && operands[1] == init)
        return holds_for(attributes.direction, order == Order::kLess ? Order::kGreater : Order::kLess);
    }
    return std::nullopt;
  }

  [[nodiscard]] static std::optional<Term> connective(const Instruction& instruction, const Terms& operands) {
    const bool is_and = instruction.op == &rows::kAnd;
    if (instruction.op == &rows::kNot && is_known(operands[0])) return truth(operands[0] == kFalse);
    if (!is_and && instruction.op != &rows::kOr) return std::nullopt;
    const Term& decides = is_and ? kFalse : kTrue;
    if (operands[0] == decides || operands[1] == decides) return decides;
    if (is_known(operands[0])) return operands[1];
    if (is_known(operands[1])) return operands[0];
    return std::nullopt;
  }

  [[nodiscard]] static Term plain(const Instruction& instruction, Terms operands) {
    if (instruction.op->commutative) std::sort(operands.begin(), operands.end());
    const std::size_t attributes = instruction.attributes ? instruction.attributes->hash() : 0;
    return fmt::format("{}:{}:{:x}({})", instruction.op->name, instruction.type.str(), attributes,
                       fmt::join(operands, ","));
  }

  const Computation& function_;
  const std::vector<Order>& orders_;
  bool init_is_first_ = true;
  Terms terms_;
};

bool can_be_ordered(const Literal& init) {
  const DType dtype = init.type().dtype();
  return !is_complex(dtype) && !(is_float(dtype) && std::isnan(element_as_double(init, 0)));
}

}  // namespace

bool commutes_with_init(const Computation& function, const std::vector<Literal>& inits) {
  constexpr std::size_t kMostArrays = 4;
  if (inits.empty() || inits.size() > kMostArrays || function.parameters.size() != 2 * inits.size()) return false;
  if (!std::all_of(inits.begin(), inits.end(), can_be_ordered)) return false;
  std::size_t count = 1;
  for (std::size_t i = 0; i < inits.size(); ++i) count *= kOrders;
  for (std::size_t number = 0; number < count; ++number) {
    std::vector<Order> orders;
    for (std::size_t rest = number; orders.size() < inits.size(); rest /= kOrders)
      orders.push_back(static_cast<Order>(rest % kOrders));
    Evaluation evaluation(function, orders);
    const auto one = evaluation.results(true);
    if (!one || one != evaluation.results(false)) return false;
  }
  return true;
}

}  // namespace tessera
