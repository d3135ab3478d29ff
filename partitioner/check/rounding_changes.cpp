// SPDX-License-Identifier: Apache-2.0
#include "check/rounding_changes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

constexpr int kZeroedRun = 2;

bool adds_up(const OpView& view) {
  if (view.op.factors == nullptr) return false;
  const FactorMap map = view.op.factors(view);
  return map.reduction_known && map.reduction == Reduction::kSum &&
         std::any_of(map.factors.begin(), map.factors.end(),
                     [](const Factor& factor) { return factor.kind == FactorKind::kReduce; });
}

// Whether results may be rounded. The elements that are rounded are only known at run time: a maximum equals one of its
// operands.
bool may_round(const Program& program, const Computation& computation, const Instruction& instruction) {
  if (!instruction.type.is_array() || !is_float(real_dtype(instruction.type.dtype()))) return false;
  if (instruction.op->role == Role::kParameter) return computation.name == program.entry_computation().name;
  if (instruction.op->role != Role::kPlain || instruction.operands.empty()) return false;
  return instruction.op->elementwise || adds_up(view_of(program, computation, instruction));
}

template <class T>
double unit_of() {
  if constexpr (std::is_same_v<T, double>) return 0x1p-52;
  if constexpr (std::is_same_v<T, float>) return 0x1p-23;
  if constexpr (std::is_same_v<T, Float16>) return 0x1p-10;
  return 0x1p-7;
}

// The numbers of an array; a complex element has two.
template <class T>
auto numbers_of(std::span<T> elements) {
  using Element = std::remove_const_t<T>;
  if constexpr (is_complex(kDTypeOf<Element>)) {
    using Number =
        std::conditional_t<std::is_const_v<T>, const typename Element::value_type, typename Element::value_type>;
    return std::span<Number>(reinterpret_cast<Number*>(elements.data()), 2 * elements.size());
  } else {
    return elements;
  }
}

// Calls f with the numbers of the result and those of each operand of its type.
template <class F>
void visit_numbers(Literal& result, const std::vector<Literal>& operands, F&& f) {
  visit_any_dtype(result.type().dtype(), [&]<class T>() {
    if constexpr (is_float(real_dtype(kDTypeOf<T>))) {
      const auto numbers = numbers_of(result.mutable_data<T>());
      std::vector<decltype(numbers_of(result.data<T>()))> given;
      for (const Literal& operand : operands)
        if (operand.type() == result.type()) given.push_back(numbers_of(operand.data<T>()));
      f(numbers, given);
    }
  });
}

// Integers are counts, indices and truth values, and a number that occurs in an operand was not rounded here.
template <class Given>
bool is_exact(double value, std::size_t i, const Given& given) {
  constexpr double kLargestCount = 0x1p20;
  if (!std::isfinite(value) || (std::fabs(value) < kLargestCount && value == std::nearbyint(value))) return true;
  return std::any_of(given.begin(), given.end(), [&](const auto& operand) {
    return std::fabs(static_cast<double>(operand[i])) == std::fabs(value);
  });
}

// Derived from the leading bits of the value, so that equal numbers stay equal and both runs of a pair draw the same.
double share_of(double value, std::size_t seed) {
  constexpr int kIgnoredBits = 32;
  const std::size_t drawn = hash_mix(seed, std::bit_cast<std::uint64_t>(value) >> kIgnoredBits);
  const double size = 0.5 + static_cast<double>(drawn >> 12) * 0x1p-53;
  return (drawn & 1U) != 0 ? size : -size;
}

bool sign_is_open(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b) || a == b) return false;
  return a == 0 || b == 0 || std::signbit(a) != std::signbit(b);
}

}  // namespace

RoundingChanges::RoundingChanges(const Program& program, double amount) : amount_(amount) {
  std::vector<ComputationId> open{program.entry};
  while (!open.empty()) {
    const Computation& computation = program[open.back()];
    open.pop_back();
    auto& rounding = rounding_[&computation];
    if (!rounding.empty()) continue;
    for (const Instruction& instruction : computation.instructions) {
      rounding.push_back(may_round(program, computation, instruction));
      const Role role = instruction.op->role;
      if (role == Role::kCall || role == Role::kWhile || role == Role::kConditional)
        open.insert(open.end(), instruction.called.begin(), instruction.called.end());
    }
  }
}

bool RoundingChanges::rounds(const EvaluatedStep& step) const {
  const auto found = rounding_.find(&step.computation);
  return found != rounding_.end() && at(found->second, step.id);
}

void RoundingChanges::apply(const EvaluatedStep& step, int run, std::size_t device,
                            std::vector<Literal>& results) const {
  if (!rounds(step)) return;
  const double direction = run % 2 == 0 ? 1 : -1;
  const std::size_t seed = hash_mix(static_cast<std::size_t>(run / 2), static_cast<std::size_t>(step.id));
  const bool is_parameter = step.computation[step.id].op->role == Role::kParameter;
  visit_numbers(results[device], is_parameter ? std::vector<Literal>{} : step.operands[device],
                [&]<class T>(std::span<T> numbers, const auto& given) {
                  const double size = amount_ == 0 ? 2 * unit_of<T>() : amount_;
                  if (size < unit_of<T>()) return;
                  for (std::size_t i = 0; i < numbers.size(); ++i) {
                    const auto value = static_cast<double>(numbers[i]);
                    if (!is_exact(value, i, given))
                      numbers[i] = static_cast<T>(value * (1 + direction * size * share_of(value, seed)));
                  }
                });
}

void RoundingChanges::apply_to_all(const EvaluatedStep& step, std::vector<Literal>& results) const {
  if (!rounds(step)) return;
  for (std::size_t k = 0; k < step.devices.size(); ++k) apply(step, static_cast<int>(step.devices[k]), k, results);
  if (step.devices.size() != kChangedRuns) return;  // in a branch or loop that not all runs execute
  const Literal first = results[0].as_reals();
  const Literal second = results[1].as_reals();
  visit_numbers(results[kZeroedRun], step.operands[kZeroedRun], [&]<class T>(std::span<T> numbers, const auto& given) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto k = static_cast<std::int64_t>(i);
      if (sign_is_open(element_as_double(first, k), element_as_double(second, k)) &&
          !is_exact(static_cast<double>(numbers[i]), i, given))
        numbers[i] = static_cast<T>(0.0);
    }
  });
}

}  // namespace tessera
