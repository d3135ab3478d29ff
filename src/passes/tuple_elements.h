// SPDX-License-Identifier: Apache-2.0
// The tuples that loops and branches take and return: which elements are read, and the same with fewer of them.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "tessera/ir/builder.h"
#include "tessera/ir/program.h"

namespace tessera {

/// Some elements of a tuple.
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
  /// An element's place among these.
  [[nodiscard]] std::int64_t place(std::int64_t element) const;
  /// A tuple's type and its shardings, and whatever there is one of per element, with these alone.
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
/// The value itself, with a sharding unless that is null.
Value with_sharding(Value value, ShardingRef sharding);

/// The index of a get-tuple-element.
std::int64_t element_index(const Instruction& instruction);
/// Of each tuple value that `wanted` picks: what is read of it. All where it is used in another way than by get-tuple-element.
std::unordered_map<Id, Elements> elements_read(const Computation& computation,
                                               const std::function<bool(const Instruction&)>& wanted);
/// The shardings of one element; null = not annotated.
ShardingRef element_sharding(const Type& tuple, const ShardingRef& shardings, std::int64_t element);

}  // namespace tessera
