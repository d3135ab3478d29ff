// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/batches.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "random_stream.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::data {
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  RandomStream stream(seed, epoch);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  return order;
}

SampleOrder::SampleOrder(std::int64_t sample_count, OrderOptions options)
    : sample_count_(sample_count), options_(options) {
  require(options.global_batch_size >= 1, "the global batch size must be at least 1, got {}",
          options.global_batch_size);
  require(sample_count >= 1, "the data contains no sample: it is shorter than one block");
  require(
      !options.group_by_length || static_cast<std::int64_t>(options.group_by_length->size()) == sample_count,
      "group_by_length has {} lengths for {} samples; give one for each sample",
      [&] { return std::to_string(options.group_by_length->size()); }, sample_count);
  require(samples_per_epoch() >= 1,
          "{} samples do not fill a batch of {}, and drop_last drops batches with too few samples", sample_count,
          options.global_batch_size);
}

std::int64_t SampleOrder::samples_per_epoch() const {
  return options_.drop_last ? sample_count_ - sample_count_ % options_.global_batch_size : sample_count_;
}

std::int64_t SampleOrder::batches_per_epoch() const {
  return ceil_div(samples_per_epoch(), options_.global_batch_size);
}

double SampleOrder::epochs_at(std::int64_t position) const {
  const std::int64_t complete = position / samples_per_epoch() * batches_per_epoch();
  const std::int64_t begun = ceil_div(position % samples_per_epoch(), options_.global_batch_size);
  return static_cast<double>(complete + begun) / static_cast<double>(batches_per_epoch());
}

void SampleOrder::seek(std::int64_t position) {
  require(position >= 0, "a loader's position must not be negative, got {}", position);
  position_ = position;
}

namespace {

void sort_by_length(std::vector<std::int64_t>& order, const std::vector<std::int64_t>& lengths,
                    std::int64_t batch_size) {
  constexpr std::int64_t kBatches = 50;
  const auto size = static_cast<std::int64_t>(order.size());
  const std::int64_t step = batch_size > size / kBatches ? size : batch_size * kBatches;
  const auto is_longer = [&](std::int64_t a, std::int64_t b) { return at(lengths, a) > at(lengths, b); };
  std::int64_t longest = 0;  // its position
  for (std::int64_t start = 0; start < size; start += step) {
    const auto first = order.begin() + start;
    std::stable_sort(first, order.begin() + std::min(start + step, size), is_longer);
    if (is_longer(*first, at(order, longest))) longest = start;
  }
  std::swap(order.front(), at(order, longest));
}

}  // namespace

void SampleOrder::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  order_.clear();
  if (options_.shuffle) order_ = shuffled(sample_count_, options_.seed, epoch);
  if (!options_.group_by_length) return;
  if (!options_.shuffle) {
    order_.resize(static_cast<std::size_t>(sample_count_));
    std::iota(order_.begin(), order_.end(), 0);
  }
  sort_by_length(order_, *options_.group_by_length, options_.global_batch_size);
}

std::vector<std::int64_t> SampleOrder::next() {
  const std::int64_t epoch = position_ / samples_per_epoch();
  const std::int64_t start = position_ % samples_per_epoch();
  if (epoch != epoch_) begin_epoch(epoch);
  const std::int64_t limit = std::min(start + options_.global_batch_size, samples_per_epoch());
  std::vector<std::int64_t> out;
  for (std::int64_t i = start; i < limit; ++i) out.push_back(order_.empty() ? i : at(order_, i));
  position_ += limit - start;
  return out;
}

}  // namespace tessera::data
