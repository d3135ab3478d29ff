// SPDX-License-Identifier: Apache-2.0
// PyTorch/XLA's loader: gives tensors, and ends the step of each batch.
//
//   MpDeviceLoader loader(batches, {.input_sharding = PartitionSpec{"data"}});
//   for (const DeviceBatch& batch : loader) {
//     model(batch.at("input_ids"), batch.at("labels")).backward();
//     optimizer.step();
//     optimizer.zero_grad();
//   }                                                   // each round ends with mark_step()
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>

#include "tessera/data/loader.h"
#include "tessera/frontend/tensor/tensor.h"

namespace tessera::data {

/// A batch as tensors.
struct DeviceBatch {
  std::map<std::string, Tensor, std::less<>> tensors;  // with the names of the arrays
  std::int64_t real_rows = 0;                          // the first rows; the others only fill the batch
  /// Error, with the nearest name, if there is no such tensor.
  [[nodiscard]] const Tensor& at(std::string_view name) const;
};

struct DeviceLoaderOptions {
  std::int64_t batches_per_execution = 1;         // batches between two calls of mark_step()
  std::optional<InputSharding> input_sharding{};  // nullopt: that of the loader
};

/// A range over the batches of a loader, whose iterator ends steps.
class MpDeviceLoader {
 public:
  /// `loader` must outlive this. Errors: batches_per_execution < 1.
  explicit MpDeviceLoader(Loader& loader, DeviceLoaderOptions options = {},
                          std::source_location where = std::source_location::current());
  /// The batches of an epoch. Error for an iterable.
  [[nodiscard]] std::int64_t len() const { return loader_->len(); }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = DeviceBatch;
    using difference_type = std::ptrdiff_t;
    using pointer = const DeviceBatch*;
    using reference = const DeviceBatch&;
    explicit Iterator(MpDeviceLoader& loader) : loader_(&loader), batch_(loader.next_batch()) {}
    reference operator*() const { return *batch_; }
    pointer operator->() const { return &*batch_; }
    /// Ends the step if it is due, and takes the next batch. The last batch of an epoch always ends its step.
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t /*end*/) { return !a.batch_.has_value(); }

   private:
    MpDeviceLoader* loader_;
    std::optional<DeviceBatch> batch_;
    std::int64_t unmarked_ = 1;  // batches since the last mark_step()
  };
  /// Iterates over the batches up to the end of the epoch.
  Iterator begin() { return Iterator(*this); }
  static std::default_sentinel_t end() { return {}; }

 private:
  std::optional<DeviceBatch> next_batch();

  Loader* loader_;
  DeviceLoaderOptions options_;
  std::source_location where_;
};

}  // namespace tessera::data
