// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/tensor_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::data {

TensorDataset::TensorDataset(Arrays arrays) : arrays_(std::move(arrays)) {
  require(!arrays_.entries().empty(), "TensorDataset: there are no arrays; give at least one, such as input_ids");
  const auto& [first, values] = arrays_.entries().front();
  for (const auto& [name, value] : arrays_.entries()) {
    require(value.type().is_array() && value.type().ndim() >= 1,
            "TensorDataset: {} is {}, but dim 0 of every array counts the samples", name, value.type());
    require(value.type().dim(0) == values.type().dim(0),
            "TensorDataset: dim 0 of every array counts the samples, but {} has {} and {} has {}", first,
            values.type().dim(0), name, value.type().dim(0));
  }
  size_ = values.type().dim(0);
}

Arrays TensorDataset::get(std::int64_t i) const {
  require(i >= 0 && i < size_, "TensorDataset: there is no sample {}; there are {} samples", i, size_);
  Arrays out;
  for (const auto& [name, value] : arrays_.entries()) {
    Dims dims = value.type().dims();
    Dims origin(dims.size());
    origin.at(0) = i;
    dims.at(0) = 1;
    const Literal row = take_box({value, Dims(dims.size())}, origin, dims);
    out.set(name, row.reshaped(Dims(dims.begin() + 1, dims.end())));
  }
  return out;
}

std::int64_t TensorDataset::length(std::int64_t i) const {
  const Type& type = arrays_.entries().front().second.type();
  return type.ndim() >= 2 ? type.dim(1) : Source::length(i);
}

std::optional<std::int64_t> TensorDataset::fixed_length() const {
  const auto length_of = [](const Arrays::Entry& entry) {
    return entry.second.type().ndim() >= 2 ? std::optional(entry.second.type().dim(1)) : std::nullopt;
  };
  const std::optional<std::int64_t> length = length_of(arrays_.entries().front());
  const bool is_same = std::all_of(arrays_.entries().begin(), arrays_.entries().end(),
                                   [&](const Arrays::Entry& entry) { return length_of(entry) == length; });
  return is_same ? length : std::nullopt;
}

}  // namespace tessera::data
