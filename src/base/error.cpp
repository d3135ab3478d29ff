// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/stacktrace.hpp>
#include <new>
#include <numeric>

#include "tessera/base/memory.h"

namespace tessera {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

}  // namespace

InternalError::InternalError(const std::string& reason)
    : Error(reason), stack_(boost::stacktrace::to_string(boost::stacktrace::stacktrace(1, 32))) {}

std::string message_for_user(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory: " + memory_state();
  const auto* ours = dynamic_cast<const InternalError*>(&error);
  if (ours == nullptr) return error.what();
  return fmt::format("internal error, please report it: {}\n{}", ours->what(), ours->stack());
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 200;  // computing distances takes time, and no known name is longer
  if (name.size() > kLongest) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const auto& candidate : known) {
    const std::size_t longer = std::max(name.size(), candidate.size());
    const std::size_t shorter = std::min(name.size(), candidate.size());
    if (longer - shorter >= best_distance) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string suggest_name(std::string_view name, const std::vector<std::string>& known) {
  if (const auto near = nearest_name(name, known); !near.empty()) return fmt::format("; did you mean \"{}\"?", near);
  constexpr std::size_t kMostListed = 20;
  if (known.empty()) return "; none is known";
  if (known.size() > kMostListed) return fmt::format("; none of the {} known names is similar", known.size());
  return fmt::format("; known: {}", fmt::join(known, ", "));
}

}  // namespace tessera
