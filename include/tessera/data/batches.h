// SPDX-License-Identifier: Apache-2.0
// Which samples make which batch: the same batches in the same order for every mesh and number of ranks. A loader's whole state is
// one number, the samples taken so far.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/data/text_dataset.h"

namespace tessera::data {

/// A permutation of 0..count-1 fixed by (seed, epoch), the same on every machine.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::int64_t epoch);

struct OrderOptions {
  std::int64_t global_batch_size = 8;
  std::uint64_t seed = 42;
  bool shuffle = true;     // anew in every epoch
  bool drop_last = false;  // leave out the epoch's last batch where it is short
};

/// The order of samples over all epochs.
class SampleOrder {
 public:
  /// Error unless there is at least one batch in an epoch.
  SampleOrder(std::int64_t sample_count, OrderOptions options);

  /// The next batch's samples; fewer than global_batch_size only for an epoch's last batch. No batch crosses an epoch.
  std::vector<std::int64_t> next();

  /// Samples taken so far, over all epochs. seek() makes the next batch start there: resuming needs nothing else, also with
  /// another global batch size.
  [[nodiscard]] std::int64_t position() const { return position_; }
  void seek(std::int64_t position);
  [[nodiscard]] std::int64_t samples_per_epoch() const;
  [[nodiscard]] std::int64_t batches_per_epoch() const;
  /// Epochs done, the current one as a fraction.
  [[nodiscard]] double epochs() const;

 private:
  std::int64_t sample_count_;
  OrderOptions options_;
  std::int64_t position_ = 0;
  std::int64_t epoch_ = -1;  // of order_
  std::vector<std::int64_t> order_;
};

/// Tokens and labels, [rows, columns] row-major. Labels are the tokens themselves (the model shifts them), kIgnoredLabel where a row
/// is there only to fill the batch.
struct TokenBatch {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t real_rows = 0;  // the first ones; the others are filling
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;
};
inline constexpr std::int32_t kIgnoredLabel = -100;

/// The blocks as one batch of exactly `rows` rows; filled up where there are fewer blocks.
TokenBatch make_batch(const BlockDataset& blocks, const std::vector<std::int64_t>& samples, std::int64_t rows);

/// What data shard `shard` of `shard_count` holds: rows [shard*L, (shard+1)*L) with L = ceil(rows / shard_count), filled up where
/// they pass the end, as the canonical tiling of dim 0.
TokenBatch take_rows(const TokenBatch& batch, std::int64_t shard, std::int64_t shard_count);

/// Batches of a text, in the order of SampleOrder, all of the same shape.
class TextLoader {
 public:
  /// `blocks` must outlive the loader.
  TextLoader(const BlockDataset& blocks, OrderOptions options)
      : blocks_(&blocks), options_(options), order_(blocks.size(), options) {}
  TokenBatch next() { return make_batch(*blocks_, order_.next(), options_.global_batch_size); }
  [[nodiscard]] const SampleOrder& order() const { return order_; }
  void seek(std::int64_t position) { order_.seek(position); }

 private:
  const BlockDataset* blocks_;
  OrderOptions options_;
  SampleOrder order_;
};

}  // namespace tessera::data
