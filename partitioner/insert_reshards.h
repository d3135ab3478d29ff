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

/// Whether an op knows of copies of its operands that others needed: to take one costs nothing, but may bring about more elsewhere.
enum class KnownCopies : std::uint8_t { kAll, kNone };

/// Takes a program in which every value has a sharding (propagate).
Program insert_reshards(const Program& program, const Topology& topology = {}, KnownCopies known = KnownCopies::kAll);

}  // namespace tessera
