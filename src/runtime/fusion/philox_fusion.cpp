// SPDX-License-Identifier: Apache-2.0
// One round: wide = u64(low) * M, low' = u32(wide >> 32) ^ high ^ key, high' = u32(wide).
#include "fusion/philox_fusion.h"

#include <algorithm>

#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

class Matcher {
 public:
  explicit Matcher(const Computation& computation) : computation_(computation) {}

  std::optional<PhiloxRounds> run(Id last) {
    std::optional<Round> round = match(last);
    if (!round) return std::nullopt;
    PhiloxRounds out;
    out.multiplier = round->multiplier;
    while (true) {
      out.keys.push_back(round->key);
      out.members.insert(out.members.end(), round->members.begin(), round->members.end());
      out.low = round->low;
      out.high = round->high;
      const auto before = match(out.low);
      const auto wide = low_word(out.high);
      if (!before || !wide || *wide != before->wide || before->multiplier != out.multiplier) break;
      out.members.push_back(out.low);
      out.members.push_back(out.high);
      round = before;
    }
    constexpr std::size_t kFewest = 2;
    if (out.keys.size() < kFewest) return std::nullopt;
    std::reverse(out.keys.begin(), out.keys.end());
    return out;
  }

 private:
  struct Round {
    Id low, high, key, wide;
    std::uint32_t multiplier;
    std::vector<Id> members;  // without the result
  };

  [[nodiscard]] const Instruction& at_id(Id id) const { return computation_[id]; }
  [[nodiscard]] bool is(Id id, const OpDef& op, DType dtype) const {
    return at_id(id).op == &op && at_id(id).type.dtype() == dtype;
  }
  // Returns true for a scalar that fills its array.
  [[nodiscard]] bool is_splat(Id id) const {
    return at_id(id).op->movement == Movement::kBroadcast && at_id(at_id(id).operands[0]).type.ndim() == 0;
  }
  [[nodiscard]] std::optional<std::uint64_t> splat_number(Id id) const {
    if (!is_splat(id)) return std::nullopt;
    const Literal* scalar = known_constant(at_id(at_id(id).operands[0]));
    if (scalar == nullptr || scalar->type().dtype() != DType::kU64) return std::nullopt;
    return scalar->data<std::uint64_t>()[0];
  }
  // Calls f(operand, other operand) for both orders until one returns a value.
  template <class F>
  auto either(Id id, F&& f) const -> decltype(f(id, id)) {
    const auto& operands = at_id(id).operands;
    if (auto found = f(operands[0], operands[1])) return found;
    return f(operands[1], operands[0]);
  }
  // Matches id = u32(wide), and returns the multiplication.
  [[nodiscard]] std::optional<Id> low_word(Id id) const {
    if (!is(id, rows::kConvert, DType::kU32) || !is(at_id(id).operands[0], rows::kMultiply, DType::kU64))
      return std::nullopt;
    return at_id(id).operands[0];
  }
  // Matches id = u32(wide >> 32).
  [[nodiscard]] std::optional<Id> high_word(Id id) const {
    if (!is(id, rows::kConvert, DType::kU32) || !is(at_id(id).operands[0], rows::kShiftRightLogical, DType::kU64))
      return std::nullopt;
    const Instruction& shift = at_id(at_id(id).operands[0]);
    if (splat_number(shift.operands[1]) != 32U || !is(shift.operands[0], rows::kMultiply, DType::kU64))
      return std::nullopt;
    return shift.operands[0];
  }

  [[nodiscard]] std::optional<Round> match(Id id) const {
    if (!is(id, rows::kXor, DType::kU32)) return std::nullopt;
    return either(id, [&](Id upper, Id mixed) -> std::optional<Round> {
      const auto wide = high_word(upper);
      if (!wide || !is(mixed, rows::kXor, DType::kU32)) return std::nullopt;
      return either(mixed, [&](Id high, Id key) -> std::optional<Round> {
        if (!is_splat(key)) return std::nullopt;
        return either(*wide, [&](Id low, Id factor) -> std::optional<Round> {
          const auto number = splat_number(factor);
          if (!number || *number >> 32 != 0 || !is(low, rows::kConvert, DType::kU64)) return std::nullopt;
          const Id narrow = at_id(low).operands[0];
          if (at_id(narrow).type.dtype() != DType::kU32) return std::nullopt;
          return Round{narrow,
                       high,
                       key,
                       *wide,
                       static_cast<std::uint32_t>(*number),
                       {upper, at_id(upper).operands[0], mixed, *wide, low}};
        });
      });
    });
  }

  const Computation& computation_;
};

}  // namespace

std::optional<PhiloxRounds> match_philox_rounds(const Computation& computation, Id last) {
  return Matcher(computation).run(last);
}

}  // namespace tessera
