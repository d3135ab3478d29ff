// SPDX-License-Identifier: Apache-2.0
#include "memory_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "tessera/base/checked.h"
#include "tessera/base/text.h"
#include "tessera/schedule/schedule.h"

namespace tessera::schedule {
namespace {

std::int64_t aligned(std::int64_t bytes) { return ceil_div(bytes, kBufferAlignment) * kBufferAlignment; }

// The lowest offset of the smallest sufficient gap between the occupied ranges, which are sorted by offset.
std::int64_t tightest_gap(const std::vector<std::pair<std::int64_t, std::int64_t>>& occupied, std::int64_t bytes,
                          std::int64_t alignment) {
  const auto next = [&](std::int64_t offset) { return ceil_div(offset, alignment) * alignment; };
  std::int64_t best = -1;
  std::int64_t best_size = 0;
  std::int64_t end = 0;
  for (const auto& [begin, stop] : occupied) {
    const std::int64_t size = begin - next(end);
    if (size >= bytes && (best < 0 || size < best_size)) {
      best = next(end);
      best_size = size;
    }
    end = std::max(end, stop);
  }
  return best < 0 ? next(end) : best;
}

// Places each buffer, in the given sequence, in the smallest gap between placed buffers that share a step with it.
ArenaOffsets place_in_sequence(const std::vector<BufferLife>& lives, const std::vector<std::size_t>& sequence) {
  ArenaOffsets out{std::vector<std::int64_t>(lives.size(), 0), 0};
  std::vector<std::size_t> placed;  // by offset
  std::vector<std::pair<std::int64_t, std::int64_t>> occupied;
  for (const std::size_t i : sequence) {
    const BufferLife& one = lives[i];
    const std::int64_t bytes = aligned(one.bytes);
    if (bytes == 0) continue;
    occupied.clear();
    for (const std::size_t j : placed)
      if (lives[j].first <= one.last && one.first <= lives[j].last)
        occupied.emplace_back(out.offsets[j], out.offsets[j] + aligned(lives[j].bytes));
    out.offsets[i] = tightest_gap(occupied, bytes, one.alignment);
    out.total = std::max(out.total, out.offsets[i] + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](std::size_t a, std::size_t b) { return out.offsets[a] < out.offsets[b]; }),
                  i);
  }
  return out;
}

// Places buffers as a heap would at run time: a sweep over the steps with a set of live ranges.
ArenaOffsets place_by_time(const std::vector<BufferLife>& lives) {
  std::vector<std::size_t> sequence(lives.size());
  std::iota(sequence.begin(), sequence.end(), std::size_t{0});
  std::stable_sort(sequence.begin(), sequence.end(), [&](std::size_t a, std::size_t b) {
    return lives[a].first != lives[b].first ? lives[a].first < lives[b].first : lives[a].bytes > lives[b].bytes;
  });
  ArenaOffsets out{std::vector<std::int64_t>(lives.size(), 0), 0};
  std::vector<std::size_t> live;  // by offset
  std::vector<std::pair<std::int64_t, std::int64_t>> occupied;
  for (const std::size_t i : sequence) {
    const std::int64_t bytes = aligned(lives[i].bytes);
    if (bytes == 0) continue;
    std::erase_if(live, [&](std::size_t j) { return lives[j].last < lives[i].first; });
    occupied.clear();
    for (const std::size_t j : live) occupied.emplace_back(out.offsets[j], out.offsets[j] + aligned(lives[j].bytes));
    out.offsets[i] = tightest_gap(occupied, bytes, lives[i].alignment);
    out.total = std::max(out.total, out.offsets[i] + bytes);
    live.insert(std::upper_bound(live.begin(), live.end(), i,
                                 [&](std::size_t a, std::size_t b) { return out.offsets[a] < out.offsets[b]; }),
                i);
  }
  return out;
}

}  // namespace

ArenaOffsets place_buffers(const std::vector<BufferLife>& lives) {
  constexpr std::size_t kMany = 6000;  // the first method takes quadratic time
  ArenaOffsets by_time = place_by_time(lives);
  if (lives.size() > kMany) return by_time;
  std::vector<std::size_t> sequence(lives.size());
  std::iota(sequence.begin(), sequence.end(), std::size_t{0});
  std::stable_sort(sequence.begin(), sequence.end(),
                   [&](std::size_t a, std::size_t b) { return lives[a].bytes > lives[b].bytes; });
  ArenaOffsets best = place_in_sequence(lives, sequence);
  // Sort by approximate size, then by time: a difference of a few bytes must not place a short life before a long one.
  const auto coarse = [&](std::size_t i) {
    const auto bytes = static_cast<std::uint64_t>(lives[i].bytes);
    const int shift = std::max(0, static_cast<int>(std::bit_width(bytes)) - 6);
    return bytes >> shift << shift;
  };
  std::stable_sort(sequence.begin(), sequence.end(), [&](std::size_t a, std::size_t b) {
    return coarse(a) != coarse(b) ? coarse(a) > coarse(b) : lives[a].first < lives[b].first;
  });
  ArenaOffsets by_both = place_in_sequence(lives, sequence);
  if (by_time.total < best.total) best = std::move(by_time);
  if (by_both.total < best.total) best = std::move(by_both);
  return best;
}

namespace {

// Gives an offset to every buffer at this place. Returns the bytes that they need together.
std::int64_t place_all(Schedule& plan, Place place) {
  std::vector<BufferLife> lives;
  std::vector<Buffer*> which;
  for (Buffer& buffer : plan.buffers) {
    if (buffer.place != place) continue;
    lives.push_back({buffer.bytes, buffer.first, buffer.last, buffer.alignment});
    which.push_back(&buffer);
  }
  Checked all = 0;
  for (const BufferLife& one : lives) all += Checked(one.bytes) + one.alignment;
  require(all.fits(), "{} values of the program together need more bytes than 64 bits can count", lives.size());
  const ArenaOffsets placement = place_buffers(lives);
  for (std::size_t i = 0; i < which.size(); ++i) which[i]->offset = placement.offsets[i];
  return placement.total;
}

}  // namespace

void place_in_memory(Schedule& plan) {
  for (Buffer& buffer : plan.buffers)
    if (buffer.place == Place::kFile) buffer.alignment = kPageAlignment;
  plan.arena_bytes = place_all(plan, Place::kArena);
  plan.file_bytes = place_all(plan, Place::kFile);
}

}  // namespace tessera::schedule
