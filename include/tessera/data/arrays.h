// SPDX-License-Identifier: Apache-2.0
// Named arrays: a sample, or the rows of a batch.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/sharding/placement.h"
#include "tessera/tensor/literal.h"

namespace tessera::data {

/// A list of arrays with different names.
class Arrays {
 public:
  using Entry = std::pair<std::string, Literal>;
  Arrays() = default;
  Arrays(std::initializer_list<Entry> entries) : entries_(entries) {}

  /// In the order in which they were set.
  [[nodiscard]] const std::vector<Entry>& entries() const& { return entries_; }
  [[nodiscard]] const std::vector<Entry>& entries() const&& = delete;  // they would be destroyed with the temporary
  /// Null if there is no such array.
  [[nodiscard]] const Literal* find(std::string_view name) const;
  /// Error, with the nearest name, if there is no such array.
  [[nodiscard]] const Literal& at(std::string_view name) const;
  /// Replaces or appends an array.
  void set(std::string_view name, Literal value);
  [[nodiscard]] std::vector<std::string> names() const;
  /// A hash of names, types and elements, which is equal in every process.
  [[nodiscard]] std::size_t hash() const;

 private:
  std::vector<Entry> entries_;
};

/// A part of an array: the elements that begin at `origin` of the complete array.
struct ArrayPart {
  Literal data;
  Dims origin;
};
/// Returns the array of these dims that begins at `origin`, with the elements of `part`. Elements that the part does
/// not have are 0.
Literal take_box(const ArrayPart& part, const Dims& origin, Dims dims);

}  // namespace tessera::data
