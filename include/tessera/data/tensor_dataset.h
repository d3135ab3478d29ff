// SPDX-License-Identifier: Apache-2.0
// A data set in memory.
//
//   auto train = std::make_shared<TensorDataset>(Arrays{{"input_ids", ids}, {"labels", labels}}); // s32[23,6], s32[23]
//   Trainer({.model = model, .args = arguments, .train_dataset = train}).train();
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/data/source.h"

namespace tessera::data {

/// Samples that are stored in arrays of the host: sample i consists of the elements i of dim 0 of every array. Every
/// rank that reads it has the complete arrays, and batches contain only the rows of the rank.
class TensorDataset final : public Source {
 public:
  /// Copies of `arrays` share their memory. Errors: no arrays; an array without dims; arrays with different sizes of
  /// dim 0 (with the sizes).
  explicit TensorDataset(Arrays arrays);

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Arrays get(std::int64_t i) const override;
  [[nodiscard]] std::int64_t length(std::int64_t i) const override;
  [[nodiscard]] std::optional<std::int64_t> fixed_length() const override;

 private:
  Arrays arrays_;
  std::int64_t size_ = 0;
};

}  // namespace tessera::data
