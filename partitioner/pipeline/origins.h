// SPDX-License-Identifier: Apache-2.0
// Names for `--annotate` that stay valid when calls are inlined and values are duplicated.
//
//   %t.1 = tanh(%x)   ->   %t.1 = tanh(%x), frontend_attributes={tessera.origin="gelu/t"}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/leaves.h"
#include "tessera/ir/program.h"

namespace tessera {

/// Frontend attribute: the value's name for `--annotate`, if it differs from the instruction's name.
inline constexpr std::string_view kOriginAttribute = "tessera.origin";

/// Frontend attribute: the name of a gathered parameter or a stored gradient, for users.
inline constexpr std::string_view kSubjectAttribute = "tessera.subject";

/// The suffix in the name of a copy that changes a sharding.
inline constexpr std::string_view kReshardSuffix = ".reshard";

/// Marks all values outside of the entry.
Program with_origins(const Program& program);
Program without_origins(const Program& program);

/// `h`, or `body/h`.
std::string annotatable_name(const Instruction& instruction);

/// The name in explanations: `h`, or `body/h` if the value is not in the entry. Also for values made by passes
/// (`body/h.reshard`).
std::string shown_name(const Instruction& instruction);

/// The value in explanations: the subject that the front end gives (`gradient of h.0.weight`), or `dot %h`.
std::string shown_value(const Instruction& instruction);

/// A result of a computation in explanations: the name that the front end gives (`the new value of h.0.weight`), or
/// `result 2 of main`.
std::string shown_result(const Computation& computation, int number);

/// Whether propagation chose some dim, or the complete sharding of a value without dims.
bool is_derived(const Sharding& sharding);

/// Maps each value of a rewritten computation to the original value that it represents.
class ValueOrigins {
 public:
  ValueOrigins(const Computation& old, const std::vector<std::vector<Id>>& users) : old_(old), users_(users) {}

  /// Records the leaves of value `old`. Leaves that are known already stay unchanged.
  void set(const LeafValues& leaves, Id old);

  struct Origin {
    Id value = -1;  // -1: created by the rewrite
    int leaf = 0;
  };
  [[nodiscard]] Origin of(Id made) const;
  /// The name with which to annotate an array that is a leaf of a value; "" if no array of the program is that leaf.
  [[nodiscard]] std::string name(const Origin& origin) const;
  /// The reason for a sharding that propagation found; else null.
  [[nodiscard]] const std::string* why(const Origin& origin) const;
  /// Whether the user gave the sharding.
  [[nodiscard]] bool is_given(const Origin& origin) const;
  /// `%h {data,-}` for each operand of an op with a sharding from the user.
  [[nodiscard]] std::vector<std::string> given_operands(Id op) const;

 private:
  const Computation& old_;
  const std::vector<std::vector<Id>>& users_;
  std::vector<Origin> origins_;  // by new value
};

}  // namespace tessera
