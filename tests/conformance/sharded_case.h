// SPDX-License-Identifier: Apache-2.0
// Runs the op of a sample on shards, device by device, as the partitioner does for a single instruction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conformance/op_samples.h"
#include "tessera/ir/localize_context.h"

namespace tessera::conformance {

/// The axes of each factor.
using FactorSharding = std::vector<std::vector<AxisRef>>;

struct OpShardings {
  std::vector<Sharding> operands;  // one for each operand
  std::vector<Sharding> results;   // one for each leaf of the result
};
std::string text_of(const std::vector<Sharding>& shardings);

/// Returns the shardings for the given axes of factors. Returns nothing if a dim with several factors cannot be sharded
/// like this (over a minor factor before the major one is used up, or unevenly).
std::optional<OpShardings> shard_by_factors(const OpView& view, const FactorMap& map, const FactorSharding& split,
                                            const Mesh& mesh);
/// Nothing is sharded. The operands `partial` and the result are partial over `axes`.
OpShardings partial_shardings(const OpView& view, const std::vector<int>& partial, Reduction reduction,
                              const std::vector<AxisRef>& axes, const Mesh& mesh);

/// shards[device][operand].
using Shards = std::vector<std::vector<Literal>>;

/// A sample's op with fixed operand values and the result that one device computes.
struct SubjectCase {
  SubjectCase(const Sample& sample, unsigned seed);

  Program program;
  const Instruction* subject = nullptr;
  OpView view;
  std::vector<Literal> operands;
  Literal expected;

  /// Returns shards with poisoned padding (NaN, extreme integers). The padding of reduced factors holds the identity,
  /// as after the partitioner's masks.
  [[nodiscard]] Shards shards_of(const OpShardings& shardings, const FactorMap& map) const;
  /// Returns complete operands. Partial operands are random partial values that reduce to the operand.
  [[nodiscard]] Shards partial_shards(const OpShardings& shardings) const;
  /// Returns "" if the localized op gives the shards of the expected result on every device (after reducing partial
  /// results).
  [[nodiscard]] std::string compare_sharded(const OpShardings& shardings, const Shards& shards) const;

 private:
  SubjectCase(SampleProgram made, const std::vector<Literal>& arguments);
  [[nodiscard]] Literal run_device(const OpShardings& shardings, std::int64_t device,
                                   const std::vector<Literal>& local) const;
};

}  // namespace tessera::conformance
