// SPDX-License-Identifier: Apache-2.0
// The counters of the places that make programs run.
#pragma once

#include <map>
#include <string>

#include "tessera/runtime/metrics/metrics.h"

namespace tessera {

using Counts = std::map<std::string, std::int64_t>;

inline Counts sync_counts() {
  Counts out;
  for (const std::string& name : metrics().counter_names())
    if (name.starts_with("sync::"))
      out[name.substr(std::string_view("sync::").size())] = *metrics().counter_value(name);
  return out;
}

// The counters that `action` increases, and by how much.
template <class F>
Counts increase(F&& action) {
  Counts before = sync_counts();
  action();
  Counts out;
  for (const auto& [name, count] : sync_counts())
    if (count > before[name]) out[name] = count - before[name];
  return out;
}

}  // namespace tessera
