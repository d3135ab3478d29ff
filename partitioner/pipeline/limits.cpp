// SPDX-License-Identifier: Apache-2.0
// Strict mode and the budget: the user's limits on communication.
#include <algorithm>

#include "explain/explain.h"
#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// The number of collectives that have a part among `notes`, which are in program order.
std::int64_t with_a_part_in(const std::vector<CollectiveNote>& notes) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < notes.size(); ++i)
    if (i == 0 || notes[i].part <= notes[i - 1].part || shown_collective(notes[i]) != shown_collective(notes[i - 1]))
      ++count;
  return count;
}

// Two lines for each of the largest collectives.
std::string listing(std::vector<CollectiveNote> notes) {
  std::stable_sort(notes.begin(), notes.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  constexpr std::size_t kMostShown = 10;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMostShown, notes.size()); ++i) {
    const CollectiveNote& note = notes[i];
    const std::string part = note.parts == 1 ? "" : fmt::format(", part {} of {}", note.part + 1, note.parts);
    out += fmt::format("\n  {} {}{} over {}, {} bytes{}: {}", note.opcode, shown_collective(note), part, note.axes,
                       note.bytes, rounds_text(note.rounds, note.rounds_known), note.reason);
    if (!note.source.empty()) out += fmt::format(" ({})", note.source);
    if (const std::string remedy = note.remedy.text(); !remedy.empty()) out += "\n    " + remedy;
  }
  if (notes.size() > kMostShown) out += fmt::format("\n  and {} more", notes.size() - kMostShown);
  return out;
}

std::vector<CollectiveNote> unasked(const std::vector<CollectiveNote>& notes) {
  std::vector<CollectiveNote> out;
  std::copy_if(notes.begin(), notes.end(), std::back_inserter(out), [](const auto& note) { return !note.asked; });
  return out;
}

std::int64_t bytes_of(const std::vector<CollectiveNote>& notes) {
  Checked sum = 0;
  for (const CollectiveNote& note : notes) sum += note.bytes;
  return sum.value_or_most();
}

}  // namespace

bool keeps_limits(const std::vector<CollectiveNote>& notes, const CollectiveLimits& limits) {
  return (!limits.strict || unasked(notes).empty()) && (!limits.bytes || bytes_of(notes) <= *limits.bytes);
}

void fail_beyond_limits(const std::vector<CollectiveNote>& notes, const CollectiveLimits& limits) {
  const auto others = unasked(notes);
  if (limits.strict && !others.empty())
    fail(
        "strict mode: no annotation requires {} of {} collectives; annotate the values that they produce, or use the "
        "remedies:{}",
        with_a_part_in(others), collective_count(notes), listing(others));
  const std::int64_t most = limits.bytes.value_or(0);
  fail("each device receives {} bytes in collectives, {} more than the {} allowed; the largest:{}", bytes_of(notes),
       bytes_of(notes) - most, most, listing(notes));
}

}  // namespace tessera
