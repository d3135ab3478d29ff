// SPDX-License-Identifier: Apache-2.0
// How `--annotate` finds the values of a program once calls are inlined and values are made twice.
//
//   %t.1 = tanh(%x)   ->   %t.1 = tanh(%x), frontend_attributes={tessera.origin="gelu/t"}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/leaves.h"
#include "tessera/ir/program.h"

namespace tessera {

/// Frontend attribute: the value's name as `--annotate` takes it, where that is not its own.
inline constexpr std::string_view kOriginAttribute = "tessera.origin";

/// What the name of a copy ends in that changes a sharding.
inline constexpr std::string_view kReshardSuffix = ".reshard";

/// Marks all values behind the entry.
Program with_origins(const Program& program);
Program without_origins(const Program& program);

/// `h`, or `body/h`.
std::string annotatable_name(const Instruction& instruction);

/// `h`, or `body/h` where it does not stand in the entry: what an explanation calls it, also what was made on the way (`body/h.reshard`).
std::string shown_name(const Instruction& instruction);

/// Some dim is left to propagation, or all that has no dims.
bool is_derived(const Sharding& sharding);

/// Which value of a computation each value of the one made from it stands for.
class ValueOrigins {
 public:
  ValueOrigins(const Computation& old, const std::vector<std::vector<Id>>& users) : old_(old), users_(users) {}

  /// The leaves of value `old`; what is known of a leaf already stays.
  void set(const LeafValues& leaves, Id old);

  struct Origin {
    Id value = -1;  // -1: made here
    int leaf = 0;
  };
  [[nodiscard]] Origin of(Id made) const;
  /// How an array is annotated that is a leaf of a value; "" when no array of the program is that leaf.
  [[nodiscard]] std::string name(const Origin& origin) const;
  /// Why it lies as it does, where propagation found that; else null.
  [[nodiscard]] const std::string* why(const Origin& origin) const;
  /// The user said how it lies.
  [[nodiscard]] bool is_given(const Origin& origin) const;
  /// `%h {data,-}` for each operand of an op that the user said something of.
  [[nodiscard]] std::vector<std::string> given_operands(Id op) const;

 private:
  const Computation& old_;
  const std::vector<std::vector<Id>>& users_;
  std::vector<Origin> origins_;  // by what was made
};

}  // namespace tessera
