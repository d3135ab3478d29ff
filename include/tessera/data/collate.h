// SPDX-License-Identifier: Apache-2.0
// Collators make the rows of a batch from samples.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/arrays.h"
#include "tessera/data/batches.h"

namespace tessera::data {

/// The rows of one rank that a collator makes.
struct RowsToMake {
  std::int64_t rows = 0;
  std::int64_t real_rows = 0;         // the first rows have samples; the others only fill the batch
  std::vector<std::int64_t> samples;  // the numbers of the samples of the real rows; equal for every mesh
  std::int64_t longest = 0;           // the longest sample of the complete batch, if needs_longest()
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

/// An object that makes the rows of a batch from samples.
class Collator {
 public:
  virtual ~Collator() = default;
  /// Returns arrays whose dim 0 is `request.rows`. `samples` has the samples of the real rows. If there are no real
  /// rows, it has one sample, of which only the names and types are used. Several threads call this function at the
  /// same time.
  [[nodiscard]] virtual Arrays collate(const std::vector<Arrays>& samples, const RowsToMake& request) const = 0;
  /// True if the shape depends on the longest sample of the complete batch.
  [[nodiscard]] virtual bool needs_longest() const { return false; }
  /// True if row i is sample i, so that a shard of the columns needs only a part of each sample.
  [[nodiscard]] virtual bool keeps_columns() const { return false; }
};

/// Stacks arrays of equal shapes. Rows that only fill the batch are 0, and kIgnoredLabel in `labels`.
class StackCollator final : public Collator {
 public:
  [[nodiscard]] Arrays collate(const std::vector<Arrays>& samples, const RowsToMake& request) const override;
  [[nodiscard]] bool keeps_columns() const override { return true; }
};

}  // namespace tessera::data
