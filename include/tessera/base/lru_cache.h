// SPDX-License-Identifier: Apache-2.0
// A map that keeps only the values that were used last.
//
//   LruCache<int, std::string> cache;
//   cache.insert(1, "one", 2);
//   cache.insert(2, "two", 2);
//   cache.find(1);                       now 2 is the least recently used
//   cache.insert(3, "three", 2);         returns {"two"}
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera {

/// A map with a limited number of values. Not thread-safe.
template <class Key, class Value>
class LruCache {
 public:
  LruCache() = default;
  LruCache(const LruCache&) = delete;  // places_ refers to entries_
  LruCache& operator=(const LruCache&) = delete;

  /// Returns the value, which is now the last used one; null if the cache does not have it. Valid until the next
  /// insert().
  [[nodiscard]] const Value* find(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->second;
  }

  /// Adds or replaces a value, which is now the last used one. Returns the values beyond the `most` last used ones,
  /// which the cache no longer has. `most` >= 1.
  std::vector<Value> insert(const Key& key, Value value, std::size_t most) {
    entries_.emplace_front(key, std::move(value));
    const auto [place, is_new] = places_.try_emplace(key, entries_.begin());
    if (!is_new) entries_.erase(std::exchange(place->second, entries_.begin()));
    std::vector<Value> evicted;
    for (; entries_.size() > most; entries_.pop_back()) {
      places_.erase(entries_.back().first);
      evicted.push_back(std::move(entries_.back().second));
    }
    return evicted;
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  using Entries = std::list<std::pair<Key, Value>>;
  Entries entries_;  // the last used first
  std::unordered_map<Key, typename Entries::iterator> places_;
};

}  // namespace tessera
