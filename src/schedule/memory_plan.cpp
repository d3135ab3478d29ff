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

// A buffer that has an offset.
struct Placed {
  std::int64_t begin = 0;  // bytes [begin, end) in the arena
  std::int64_t end = 0;
  std::int64_t first = 0;  // steps [first, last]
  std::int64_t last = 0;
};

// Finds an offset for a buffer of `bytes`: the smallest sufficient gap between ranges, which are added by offset.
class TightestGap {
 public:
  TightestGap(std::int64_t bytes, std::int64_t alignment) : bytes_(bytes), alignment_(alignment) {}

  void add(const Placed& range) {
    const std::int64_t size = range.begin - next();
    if (size >= bytes_ && (best_ < 0 || size < best_size_)) {
      best_ = next();
      best_size_ = size;
    }
    end_ = std::max(end_, range.end);
  }
  [[nodiscard]] std::int64_t offset() const { return best_ < 0 ? next() : best_; }

 private:
  [[nodiscard]] std::int64_t next() const { return ceil_div(end_, alignment_) * alignment_; }

  std::int64_t bytes_;
  std::int64_t alignment_;
  std::int64_t best_ = -1;
  std::int64_t best_size_ = 0;
  std::int64_t end_ = 0;  // of the ranges so far
};

// Places buffers one after the other, each in the smallest gap between placed buffers that share a step with it.
class Placement {
 public:
  explicit Placement(const std::vector<BufferLife>& lives) : lives_(lives) { out_.offsets.resize(lives.size()); }

  void place(std::size_t i) {
    const BufferLife& one = lives_[i];
    const std::int64_t bytes = aligned(one.bytes);
    if (bytes == 0) return;
    TightestGap gap(bytes, one.alignment);
    for (const Placed& other : placed_)
      if (other.first <= one.last && one.first <= other.last) gap.add(other);
    const std::int64_t offset = gap.offset();
    out_.offsets[i] = offset;
    out_.total = std::max(out_.total, offset + bytes);
    const auto after = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                        [](std::int64_t value, const Placed& other) { return value < other.begin; });
    placed_.insert(after, {offset, offset + bytes, one.first, one.last});
  }
  // Forgets the buffers whose last step is earlier.
  void forget_before(std::int64_t step) {
    std::erase_if(placed_, [&](const Placed& one) { return one.last < step; });
  }
  [[nodiscard]] ArenaOffsets result() && { return std::move(out_); }

 private:
  const std::vector<BufferLife>& lives_;
  ArenaOffsets out_{{}, 0};
  std::vector<Placed> placed_;  // by offset
};

ArenaOffsets place_in_sequence(const std::vector<BufferLife>& lives, const std::vector<std::size_t>& sequence) {
  Placement out(lives);
  for (const std::size_t i : sequence) out.place(i);
  return std::move(out).result();
}

// Places buffers as a heap would at run time: a sweep over the steps with a set of live ranges.
ArenaOffsets place_by_time(const std::vector<BufferLife>& lives) {
  std::vector<std::size_t> sequence(lives.size());
  std::iota(sequence.begin(), sequence.end(), std::size_t{0});
  std::stable_sort(sequence.begin(), sequence.end(), [&](std::size_t a, std::size_t b) {
    return lives[a].first != lives[b].first ? lives[a].first < lives[b].first : lives[a].bytes > lives[b].bytes;
  });
  Placement out(lives);
  for (const std::size_t i : sequence) {
    out.forget_before(lives[i].first);
    out.place(i);
  }
  return std::move(out).result();
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
