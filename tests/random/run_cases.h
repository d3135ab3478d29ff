// SPDX-License-Identifier: Apache-2.0
// Runs random programs, and counts which op stood under which kind of annotation.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "random/sharding_kinds.h"

#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::testing {

/// By op and kind: how many programs have such an instruction.
class CaseTable {
 public:
  void count(const Program& program);
  /// "dot, maximal": pairs that can exist and were not met.
  [[nodiscard]] std::vector<std::string> empty_cells() const;
  /// A line per op; `-` where the pair cannot exist, with the reasons below.
  [[nodiscard]] std::string str() const;

 private:
  std::map<std::string_view, std::array<std::int64_t, kKindCount>> cells_;
};

/// How a case is tried. Partition: must succeed, and what it gives is sound. Values: partitioned = unpartitioned by evaluation in
/// lockstep with poisoned padding. Ranks: the same on the runtime, a virtual rank a device.
enum class Trial : std::uint8_t { kPartition, kValues, kRanks };

/// "" when it passes. `has_collective`: set when the partitioned program has one.
std::string failure_of(const Program& program, Trial trial, bool* has_collective = nullptr);

struct RunOptions {
  std::uint64_t seed = 0;  // the first; one more for each case
  std::int64_t cases = 300;
  bool values = true;
  std::int64_t rank_share = 20;  // one case in so many runs on virtual ranks too; 0: none
  std::int64_t text_share = 4;   // one in so many goes through its text, as XLA would have written it
  std::string folder{};          // where minimal failing programs go; "": none is shrunk
  int most_failures = 20;
};

struct RunReport {
  std::int64_t cases = 0;
  std::int64_t with_collective = 0;
  std::int64_t on_ranks = 0;
  std::vector<std::string> failures;  // seed, reason, and the program or its file
  CaseTable table;
};
RunReport run_cases(const RunOptions& options);

}  // namespace tessera::testing
