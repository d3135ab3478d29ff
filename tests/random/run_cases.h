// SPDX-License-Identifier: Apache-2.0
// Runs random programs, and counts which ops occurred with which kinds of annotation.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "random/sharding_kinds.h"

#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::testing {

/// The number of programs with such an instruction, by op and kind.
class CaseTable {
 public:
  void count(const Program& program);
  /// Returns the possible pairs that did not occur: "dot, maximal".
  [[nodiscard]] std::vector<std::string> empty_cells() const;
  /// Returns one line for each op, with `-` for an impossible pair, and the reasons below.
  [[nodiscard]] std::string str() const;

 private:
  std::map<std::string_view, std::array<std::int64_t, kKindCount>> cells_;
};

/// How a case is checked. kPartition: partitioning must succeed and give a valid program. kValues: the partitioned
/// program must equal the unpartitioned one, evaluated in lockstep with poisoned padding. kRanks: the same on the
/// runtime, with a virtual rank for each device.
enum class Trial : std::uint8_t { kPartition, kValues, kRanks };

/// Returns "" if the case passes. Sets `has_collective` if the partitioned program has a collective.
std::string failure_of(const Program& program, Trial trial, bool* has_collective = nullptr);

struct RunOptions {
  std::uint64_t seed = 0;  // of the first case; each case adds one
  std::int64_t cases = 300;
  bool values = true;
  std::int64_t rank_share = 20;  // one of this many cases also runs on virtual ranks; 0: none
  std::int64_t text_share = 4;   // one of this many cases is read back from its text for XLA
  std::string folder{};          // for minimal failing programs; "": programs are not shrunk
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
