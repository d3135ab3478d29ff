// SPDX-License-Identifier: Apache-2.0
// One op of a sample, run on shards: what the partitioner does for a single instruction, device by device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conformance/op_samples.h"
#include "tessera/ir/localize_context.h"

namespace tessera::conformance {

/// Axes per factor.
using FactorSharding = std::vector<std::vector<AxisRef>>;

struct OpShardings {
  std::vector<Sharding> operands;  // one per operand
  std::vector<Sharding> results;   // one per leaf of the result
};
std::string text_of(const std::vector<Sharding>& shardings);

/// The shardings that a split of factors stands for; null when a dim of several factors cannot be cut so (a minor factor before
/// the major one is used up, or unevenly).
std::optional<OpShardings> shard_by_factors(const OpView& view, const FactorMap& map, const FactorSharding& split,
                                            const Mesh& mesh);
/// Nothing sharded; the operands `partial` and the result wait for a reduction over `axes`.
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

  /// Padding poisoned (NaN, extreme integers), but for reduced factors: those hold the identity, as the partitioner masks them.
  [[nodiscard]] Shards shards_of(const OpShardings& shardings, const FactorMap& map) const;
  /// Whole operands; partial ones split at random into what reduces to them.
  [[nodiscard]] Shards partial_shards(const OpShardings& shardings) const;
  /// "" when the localized op gives the shards of the expected result on every device (after reducing partial ones).
  [[nodiscard]] std::string compare_sharded(const OpShardings& shardings, const Shards& shards) const;

 private:
  SubjectCase(SampleProgram made, const std::vector<Literal>& arguments);
  [[nodiscard]] Literal run_device(const OpShardings& shardings, std::int64_t device,
                                   const std::vector<Literal>& local) const;
};

}  // namespace tessera::conformance
