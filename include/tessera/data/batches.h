// SPDX-License-Identifier: Apache-2.0
// The samples of each batch. Batches and their order are the same for every mesh and number of ranks. The complete
// state is one number: the number of samples taken so far.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tessera::data {

/// A permutation of 0..count-1 that depends only on (seed, epoch); equal on every machine.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::int64_t epoch);

struct OrderOptions {
  std::int64_t global_batch_size = 8;
  std::uint64_t seed = 42;
  bool shuffle = true;     // with a new order in every epoch
  bool drop_last = false;  // drop the last batch of an epoch if it is short
  /// The length of each sample, or null. If it is given, the samples of each 50 batches are sorted by length, the
  /// longest first, so that a batch has samples of similar length. The longest sample of the epoch comes first, so that
  /// a lack of memory is noticed at once.
  std::shared_ptr<const std::vector<std::int64_t>> group_by_length{};
};

/// The order of samples over all epochs.
class SampleOrder {
 public:
  /// Error unless an epoch has at least one batch.
  SampleOrder(std::int64_t sample_count, OrderOptions options);

  /// Returns the samples of the next batch. Only the last batch of an epoch may have fewer than global_batch_size. No
  /// batch contains samples of two epochs.
  std::vector<std::int64_t> next();

  /// The number of samples taken so far, over all epochs. seek() sets where the next batch starts. This number is
  /// sufficient to resume, also with another global batch size.
  [[nodiscard]] std::int64_t position() const { return position_; }
  void seek(std::int64_t position);
  [[nodiscard]] std::int64_t samples_per_epoch() const;
  [[nodiscard]] std::int64_t batches_per_epoch() const;
  /// The number of completed epochs, with the current one as the fraction of its batches, as in Hugging Face's Trainer.
  [[nodiscard]] double epochs() const { return epochs_at(position_); }
  /// The same for a position.
  [[nodiscard]] double epochs_at(std::int64_t position) const;

 private:
  void begin_epoch(std::int64_t epoch);

  std::int64_t sample_count_;
  OrderOptions options_;
  std::int64_t position_ = 0;
  std::int64_t epoch_ = -1;          // of order_
  std::vector<std::int64_t> order_;  // empty: 0, 1, 2, …
};

/// The label of positions that are not predicted: padding, and rows that only fill a batch.
inline constexpr std::int32_t kIgnoredLabel = -100;

}  // namespace tessera::data
