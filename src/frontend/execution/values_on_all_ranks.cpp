// SPDX-License-Identifier: Apache-2.0
// Checks values that must be equal on all ranks: ranks that are started with different flags would trace different
// programs.
#include <fmt/format.h>

#include <map>

#include "execution/execute.h"
#include "execution/gather_from_ranks.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/values_by_rank.h"

namespace tessera {
namespace {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

// Separates the values of a rank in one text; flags do not contain this byte.
constexpr char kEnd = '\0';
std::string packed(const NamedValues& values) {
  std::string out;
  for (const auto& [name, value] : values) (out += value) += kEnd;
  return out;
}

}  // namespace

std::string values_by_rank(const std::vector<std::string>& values) {
  std::map<std::string, std::vector<std::int64_t>> ranks;
  std::vector<std::string> order;
  for (std::int64_t rank = 0; rank < isize(values); ++rank) {
    auto& same = ranks[at(values, rank)];
    if (same.empty()) order.push_back(at(values, rank));
    same.push_back(rank);
  }
  constexpr std::size_t kMostShown = 4;
  std::vector<std::string> parts;
  for (const auto& value : order) {
    if (parts.size() == kMostShown) {
      parts.push_back(fmt::format("and {} more values", order.size() - kMostShown));
      break;
    }
    const auto& same = ranks[value];
    parts.push_back(fmt::format("{} on rank{} {}", value.empty() ? "nothing" : value, same.size() == 1 ? "" : "s",
                                fmt::join(same, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

void check_same_on_all_ranks(const NamedValues& values, std::string_view problem) {
  ProcessGroup& world = *session().world;
  if (world.size() == 1) return;
  const std::string own = packed(values);
  const auto hashes = gather_from_ranks(world, hash_text(own), {0, "the check that every rank has the same arguments"});
  if (std::all_of(hashes.begin(), hashes.end(), [&](auto hash) { return hash == hashes.front(); })) return;
  std::vector<std::vector<std::string>> of_ranks;
  for (const auto& text : gather_texts_from_ranks(world, own)) of_ranks.push_back(split(text, kEnd));
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<std::string> column;
    for (const auto& one : of_ranks) column.push_back(i < one.size() ? one[i] : "");
    const bool is_same = std::all_of(column.begin(), column.end(), [&](const auto& v) { return v == column.front(); });
    if (!is_same)
      lines.push_back(fmt::format("{}{} is {}", values[i].first.starts_with("TESSERA_") ? "" : "--", values[i].first,
                                  values_by_rank(column)));
  }
  fail("{}:\n  {}", problem, fmt::join(lines, "\n  "));
}

}  // namespace tessera
