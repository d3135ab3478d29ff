// SPDX-License-Identifier: Apache-2.0
// The tuples that loops and branches take and return: which elements are read, and tuples with only some of the
// elements.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/ir/program.h"

namespace tessera {

/// A subset of the elements of a tuple.
class Elements {
 public:
  Elements() = default;
  Elements(std::size_t count, bool all) : has_(count, all ? 1 : 0) {}
  [[nodiscard]] bool has(std::int64_t element) const { return has_[static_cast<std::size_t>(element)] != 0; }
  void add(std::int64_t element) { has_[static_cast<std::size_t>(element)] = 1; }
  void remove(std::int64_t element) { has_[static_cast<std::size_t>(element)] = 0; }
  void add(const Elements& other);
  [[nodiscard]] std::size_t size() const { return has_.size(); }
  [[nodiscard]] bool none() const;
  [[nodiscard]] bool all() const;
  /// Returns the index of an element within the subset.
  [[nodiscard]] std::int64_t place(std::int64_t element) const;
  /// Restrict a tuple type, its shardings, or a list with one entry for each element to the subset.
  [[nodiscard]] Type of(const Type& tuple) const;
  [[nodiscard]] ShardingRef of(const Type& tuple, const ShardingRef& shardings) const;
  template <class T>
  [[nodiscard]] std::vector<T> of(const std::vector<T>& all) const {
    std::vector<T> out;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (has_[i] != 0) out.push_back(all[i]);
    return out;
  }
  friend bool operator==(const Elements&, const Elements&) = default;

 private:
  std::vector<char> has_;
};

bool is_parameter(const Instruction& instruction);
/// Returns the value itself, with the sharding unless it is null.
Value with_sharding(Value value, ShardingRef sharding);

/// Returns the index of a get-tuple-element.
std::int64_t element_index(const Instruction& instruction);
/// Returns, for each tuple value that `wanted` selects, the elements that get-tuple-element reads of it. If another op
/// reads the tuple, these are all elements.
std::unordered_map<Id, Elements> elements_read(const Computation& computation,
                                               const std::function<bool(const Instruction&)>& wanted);
/// Returns the shardings of one element; null if it is not annotated.
ShardingRef element_sharding(const Type& tuple, const ShardingRef& shardings, std::int64_t element);

}  // namespace tessera
