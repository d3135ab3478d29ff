// SPDX-License-Identifier: Apache-2.0
// Makes every op conflict-free: after this pass an instruction's operands and results agree on the axes of each of its factors,
// and only `copy` changes a sharding. Still global shapes.
//
//   %h = dot(%x {data,-}, %w {data,-})   ->   %w.1 = copy(%w) {-,-}; %h = dot(%x, %w.1) {data,-}
//
// Sharding marks become copies. Tuples are taken apart where they are used and made again where an op needs one.
#pragma once

#include "tessera/ir/program.h"
#include "tessera/sharding/topology.h"

namespace tessera {

/// Frontend attributes of an inserted copy: why it is there, who chose both sides, what would remove it.
inline constexpr std::string_view kReasonAttribute = "tessera.reason";
inline constexpr std::string_view kFromAttribute = "tessera.from";
inline constexpr std::string_view kToAttribute = "tessera.to";
inline constexpr std::string_view kAskedAttribute = "tessera.asked";
inline constexpr std::string_view kRemedyAttribute = "tessera.remedy";

/// Who chose the sharding of a value, in words.
std::string provenance(const Instruction& instruction);

/// How ops choose, where it is not clear beforehand which way is better.
struct OpChoices {
  /// Ops know of copies of their operands that others needed: to take one costs nothing, but may bring about more elsewhere.
  bool known_copies = true;
  /// No device works more than it must, whatever that moves; else no more than its share by propagation.
  bool least_work = false;
  /// Cumulative ops along dims that are cut accumulate their parts first.
  bool scans_by_parts = true;
};

/// Takes a program in which every value has a sharding (propagate).
Program insert_reshards(const Program& program, const Topology& topology = {}, const OpChoices& choices = {});

}  // namespace tessera
