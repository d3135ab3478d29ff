// SPDX-License-Identifier: Apache-2.0
// Resolves all conflicts: after this pass, the operands and results of an instruction agree on the axes of each of its
// factors, and only `copy` changes a sharding. Shapes are still global.
//
//   %h = dot(%x {data,-}, %w {data,-})   ->   %w.1 = copy(%w) {-,-}; %h = dot(%x, %w.1) {data,-}
//
// Sharding annotations become copies. Tuples are split into leaves and rebuilt only where an op needs one.
#pragma once

#include "tessera/ir/program.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// Frontend attributes of an inserted copy: its reason, the consumer that requires it, the origin of both shardings,
/// the second best strategy of the op (DecisionMemo::explain_choices), and the remedy.
inline constexpr std::string_view kReasonAttribute = "tessera.reason";
inline constexpr std::string_view kConsumerAttribute = "tessera.consumer";
inline constexpr std::string_view kFromAttribute = "tessera.from";
inline constexpr std::string_view kToAttribute = "tessera.to";
inline constexpr std::string_view kNextAttribute = "tessera.next";
inline constexpr std::string_view kAskedAttribute = "tessera.asked";
inline constexpr std::string_view kRemedyAttribute = "tessera.remedy";

/// A text that names the origin of a value's sharding.
std::string provenance(const Instruction& instruction);

/// Choices between strategies of which neither is always better.
struct OpChoices {
  /// Take into account the copies of an operand that other consumers require. The use of such a copy costs nothing, but
  /// may cause more reshards elsewhere.
  bool known_copies = true;
  /// Also take into account the copies that later consumers require. A first run without this choice finds them.
  bool later_copies = false;
  /// Minimize the work of each device, regardless of reshards; else only limit it to the share from propagation.
  bool least_work = false;
  /// Cumulative ops along sharded dims accumulate their parts first.
  bool scans_by_parts = true;
  friend bool operator==(const OpChoices&, const OpChoices&) = default;
};

class DecisionMemo;

/// Takes a program in which every value has a sharding (propagate). Programs that differ little share a `memo` of the
/// same machine.
Program insert_reshards(const Program& program, const MachineModel& machine = {}, const OpChoices& choices = {});
Program insert_reshards(const Program& program, const MachineModel& machine, const OpChoices& choices,
                        DecisionMemo& memo);

}  // namespace tessera
