// SPDX-License-Identifier: Apache-2.0
#include "check/rounding_changes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "check/summand_magnitudes.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

constexpr int kFirstZeroedRun = 2;
constexpr int kUnchangedRun = kChangedRuns;

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

bool sums_along(const FactorMap& map, int operand, int factor) {
  return operand < isize(map.operands) &&
         std::any_of(at(map.operands, operand).begin(), at(map.operands, operand).end(),
                     [&](const DimFactors& dim) { return std::find(dim.begin(), dim.end(), factor) != dim.end(); });
}

// The size of the partial sums of an op that adds up, if their signs are random: the square root of their number times
// the largest summand. A summand is an element of the operand, or a product of elements of both operands.
double size_of_partial_sums(const OpView& view, const std::vector<Literal>& operands) {
  const FactorMap map = view.op.factors(view);
  double count = 1;
  bool is_product = false;
  for (int f = 0; f < isize(map.factors); ++f) {
    if (at(map.factors, f).kind != FactorKind::kReduce) continue;
    count *= static_cast<double>(at(map.factors, f).size);
    is_product = is_product || (sums_along(map, 0, f) && sums_along(map, 1, f));
  }
  const double summand = magnitude_of(operands[0].as_reals()) * (is_product ? magnitude_of(operands[1].as_reals()) : 1);
  return std::sqrt(count) * summand;
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

// Whether an operation in double precision gave this number without rounding it, as sums of f32 numbers do: a rounded
// number ends in so many zero bits only by chance.
bool ends_in_zeros(double value) {
  constexpr std::uint64_t kLastBits = 0xFFF;
  return (std::bit_cast<std::uint64_t>(value) & kLastBits) == 0;
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

// A random number that depends only on the leading bits of the value: equal numbers stay equal, and runs whose values
// differ by the relative `amount` draw the same, with few exceptions.
std::size_t drawn_for(double value, std::size_t seed, double amount) {
  constexpr int kMantissaBits = 52;
  constexpr int kLeftOut = 6;  // a change crosses the border of two draws with a chance of 2^-6
  const int kept = std::clamp(-std::ilogb(amount) - kLeftOut, 1, kMantissaBits / 2);
  return hash_mix(seed, std::bit_cast<std::uint64_t>(value) >> (kMantissaBits - kept));
}

// The relative size of the changes of a run. In the first pair, they are not equally large, so that the size of noise
// differs as well as its sign.
double direction_of(int run) {
  constexpr double kSizes[kChangedRuns] = {1, -0.5, 1, -1};
  return kSizes[run];
}

// Between 0.5 and 1, with a random sign.
double share_of(std::size_t drawn) {
  const double size = 0.5 + static_cast<double>(drawn >> 12) * 0x1p-53;
  return (drawn & 1U) != 0 ? size : -size;
}

}  // namespace

RoundingChanges::RoundingChanges(const Program& program, const RoundingModel& model, int round)
    : model_(model), round_(round) {
  std::vector<ComputationId> open{program.entry};
  while (!open.empty()) {
    const Computation& computation = program[open.back()];
    open.pop_back();
    auto& rounding = rounding_[&computation];
    if (!rounding.empty()) continue;
    for (const Instruction& instruction : computation.instructions) {
      rounding.push_back(may_round(program, computation, instruction));
      if (model.rounds_partial_sums && rounding.back() && !instruction.operands.empty() &&
          adds_up(view_of(program, computation, instruction)))
        sums_.emplace(&instruction, view_of(program, computation, instruction));
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

std::size_t RoundingChanges::seed_of(const EvaluatedStep& step, int pair) const {
  const std::size_t run = hash_mix(static_cast<std::size_t>(round_), static_cast<std::size_t>(pair));
  return hash_mix(run, static_cast<std::size_t>(step.id));
}

void RoundingChanges::change(const EvaluatedStep& step, int run, std::size_t device, const Literal& drawn_from,
                             Literal& result) const {
  const double direction = direction_of(run);
  const std::size_t seed = seed_of(step, run / 2);
  const bool is_parameter = step.computation[step.id].op->role == Role::kParameter;
  const Literal from = drawn_from.as_reals();
  const auto sum = sums_.find(&step.computation[step.id]);
  const double partial = sum == sums_.end() ? 0 : size_of_partial_sums(sum->second, step.operands[device]);
  visit_numbers(result, is_parameter ? std::vector<Literal>{} : step.operands[device],
                [&]<class T>(std::span<T> numbers, const auto& given) {
                  const double size = model_.amount == 0 ? 2 * unit_of<T>() : model_.amount;
                  if (size < unit_of<T>()) return;
                  for (std::size_t i = 0; i < numbers.size(); ++i) {
                    const auto value = static_cast<double>(numbers[i]);
                    if (is_exact(value, i, given) || (model_.trusts_zero_bits && ends_in_zeros(value))) continue;
                    const double first = element_as_double(from, static_cast<std::int64_t>(i));
                    const double share = share_of(drawn_for(first, seed, size));
                    const double rounded = std::copysign(std::max(std::fabs(value), partial), value);
                    numbers[i] = static_cast<T>(value + direction * size * share * rounded);
                  }
                });
}

void RoundingChanges::apply(const EvaluatedStep& step, int run, std::size_t device,
                            std::vector<Literal>& results) const {
  if (rounds(step)) change(step, run, device, Literal(results[device]), results[device]);
}

void RoundingChanges::apply_to_all(const EvaluatedStep& step, std::vector<Literal>& results) const {
  if (!rounds(step)) return;
  // Not all runs execute each branch and each round of a loop.
  const bool is_together = step.devices.size() == kChangedRuns + 1;
  for (std::size_t k = 0; k < step.devices.size(); ++k) {
    const auto run = static_cast<int>(step.devices[k]);
    if (run == kUnchangedRun) continue;
    const Literal from = results[is_together ? kUnchangedRun : k];
    change(step, run, k, from, results[k]);
  }
  if (!is_together || !results[0].type().is_array()) return;
  for (int run = kFirstZeroedRun; run < kChangedRuns; ++run) set_noise_to_zero(step, run, results);
}

void RoundingChanges::set_noise_to_zero(const EvaluatedStep& step, int run, std::vector<Literal>& results) const {
  const Literal unchanged = results[kUnchangedRun].as_reals();
  const Literal first = results[0].as_reals();
  const Literal second = results[1].as_reals();
  const auto k = static_cast<std::size_t>(run);
  const std::size_t seed = seed_of(step, run + kChangedRuns);
  const bool all_of_it = round_ == 0 && run == kFirstZeroedRun;
  visit_numbers(results[k], step.operands[k], [&]<class T>(std::span<T> numbers, const auto& given) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const double value = element_as_double(unchanged, at);
      const double error =
          std::max(std::fabs(element_as_double(first, at) - value), std::fabs(element_as_double(second, at) - value));
      const bool is_noise = error > 0 && std::fabs(value) <= model_.noise * error;  // false for NaN
      if (!is_noise || !std::isfinite(error) || is_exact(static_cast<double>(numbers[i]), i, given)) continue;
      if (all_of_it || (hash_mix(seed, std::bit_cast<std::uint64_t>(value)) & 1U) != 0)
        numbers[i] = static_cast<T>(0.0);
    }
  });
}

}  // namespace tessera
