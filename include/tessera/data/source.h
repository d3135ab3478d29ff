// SPDX-License-Identifier: Apache-2.0
// Sources of samples. A map-style source has numbered samples. An iterable returns samples in its own order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/data/arrays.h"
#include "tessera/data/text_dataset.h"

namespace tessera::data {

/// A map-style source. Several threads call its functions at the same time.
class Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Returns sample `i`, 0 <= i < size(). All samples have the same names.
  [[nodiscard]] virtual Arrays get(std::int64_t i) const = 0;
  /// The length of sample `i`, for padding and grouping. Override it if the length is known without the sample.
  /// Default: dim 0 of the first array of get(i).
  [[nodiscard]] virtual std::int64_t length(std::int64_t i) const;
  /// The size of dim 0 of all arrays of all samples, if it is the same for all. A loader then calls get_part().
  [[nodiscard]] virtual std::optional<std::int64_t> fixed_length() const { return std::nullopt; }
  /// Returns the elements `part` of dim 0 of all arrays of get(i). A rank needs only these if a mesh axis shards this
  /// dim.
  [[nodiscard]] virtual Arrays get_part(std::int64_t i, Interval part) const;
};

/// Returns the next sample; nullopt at the end. One thread calls it at a time.
using Generator = std::function<std::optional<Arrays>()>;
/// Begins epoch `epoch` at its sample `first`. If the data set can seek to `first`, a resumed run need not read the
/// samples before it.
using Iterable = std::function<Generator(std::int64_t epoch, std::int64_t first)>;
/// Makes an iterable from a function that can only begin at the first sample of an epoch. The first `first` samples are
/// read and dropped.
Iterable from_the_start(std::function<Generator(std::int64_t epoch)> begin);
/// Makes an iterable with one epoch from a generator.
Iterable only_once(Generator generator);

/// Blocks of tokens, as `input_ids` and `labels` s32[block_size]. The model shifts the labels.
class BlockSource final : public Source {
 public:
  /// `blocks` must outlive the source.
  explicit BlockSource(const BlockDataset& blocks) : BlockSource(blocks, blocks.size()) {}
  /// The first `count` blocks.
  BlockSource(const BlockDataset& blocks, std::int64_t count) : blocks_(&blocks), count_(count) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] Arrays get(std::int64_t i) const override { return get_part(i, {0, blocks_->block_size()}); }
  [[nodiscard]] std::int64_t length(std::int64_t /*i*/) const override { return blocks_->block_size(); }
  [[nodiscard]] std::optional<std::int64_t> fixed_length() const override { return blocks_->block_size(); }
  [[nodiscard]] Arrays get_part(std::int64_t i, Interval part) const override;

 private:
  const BlockDataset* blocks_;
  std::int64_t count_;
};

}  // namespace tessera::data
