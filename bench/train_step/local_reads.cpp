// SPDX-License-Identifier: Apache-2.0
#include "local_reads.h"

#include <algorithm>
#include <cstring>

namespace tessera::bench {
namespace {

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

// Fills `to` by reading `from` repeatedly.
void repeat(In from, Out to) {
  for (std::size_t done = 0; done < to.size() && !from.empty(); done += from.size())
    std::memcpy(to.data() + done, from.data(), std::min(from.size(), to.size() - done));
}

// Reads every part of `in` once, as a reduction does, and writes the bytes of one part.
void fold(In in, Out out) {
  if (out.empty()) return;
  std::memcpy(out.data(), in.data(), out.size());
  std::uint64_t seen = 0;
  for (std::size_t at = out.size(); at + sizeof seen <= in.size(); at += sizeof seen) {
    std::uint64_t word = 0;
    std::memcpy(&word, in.data() + at, sizeof word);
    seen ^= word;
  }
  volatile std::uint64_t kept = seen;
  (void)kept;
}

// Reads and writes the bytes of an all-reduce on one node. There each part is read once for its sum and written by one
// rank, then read by the others, so a rank reads `in` and the sums except its own part, and writes `out` once. Works in
// chunks like the real one, so that they are still in a cache when they are read again.
void reduce_and_fetch(In in, Out out, std::size_t ranks) {
  constexpr std::size_t kChunk = std::size_t{4} << 20;
  for (std::size_t begin = 0; begin < in.size(); begin += kChunk) {
    const In from = in.subspan(begin, std::min(kChunk, in.size() - begin));
    const Out to = out.subspan(begin, from.size());
    const std::size_t part = from.size() / ranks;
    fold(from, to.first(part));
    // A copy to itself would transfer nothing. If the operand is the result, copy from the sum.
    from.data() == to.data() && part > 0 ? repeat(to.first(part), to.subspan(part))
                                         : repeat(from.subspan(part), to.subspan(part));
  }
}

class Group final : public ProcessGroup {
 public:
  Group(std::shared_ptr<ProcessGroup> real, std::shared_ptr<LocalReads> local)
      : real_(std::move(real)), local_(std::move(local)) {}

  [[nodiscard]] int rank() const override { return real_->rank(); }
  [[nodiscard]] int size() const override { return real_->size(); }
  [[nodiscard]] const std::string& name() const override { return real_->name(); }

  void all_gather(In in, Out out, const CollectiveLabel& label) override {
    local_->on ? repeat(in, out) : real_->all_gather(in, out, label);
  }
  void reduce_scatter(In in, Out out, DType dtype, Reduction op, const CollectiveLabel& label) override {
    local_->on ? fold(in, out) : real_->reduce_scatter(in, out, dtype, op, label);
  }
  void all_reduce(In in, Out out, DType dtype, Reduction op, const CollectiveLabel& label) override {
    local_->on ? reduce_and_fetch(in, out, static_cast<std::size_t>(size()))
               : real_->all_reduce(in, out, dtype, op, label);
  }
  void all_to_all(In in, Out out, const CollectiveLabel& label) override {
    local_->on ? repeat(in, out) : real_->all_to_all(in, out, label);
  }
  void permute(In in, Out out, const std::vector<std::pair<int, int>>& pairs, const CollectiveLabel& label) override {
    local_->on ? repeat(in, out) : real_->permute(in, out, pairs, label);
  }
  void broadcast(Out data, int root, const CollectiveLabel& label) override {
    if (!local_->on) real_->broadcast(data, root, label);
  }
  void barrier(const CollectiveLabel& label) override {
    if (!local_->on) real_->barrier(label);
  }

  std::unique_ptr<PendingOperation> start_all_gather(In in, Out out, const CollectiveLabel& label) override {
    return local_->on ? ProcessGroup::start_all_gather(in, out, label) : real_->start_all_gather(in, out, label);
  }
  std::unique_ptr<PendingOperation> start_reduce_scatter(In in, Out out, DType dtype, Reduction op,
                                                         const CollectiveLabel& label) override {
    return local_->on ? ProcessGroup::start_reduce_scatter(in, out, dtype, op, label)
                      : real_->start_reduce_scatter(in, out, dtype, op, label);
  }
  std::unique_ptr<PendingOperation> start_all_reduce(In in, Out out, DType dtype, Reduction op,
                                                     const CollectiveLabel& label) override {
    return local_->on ? ProcessGroup::start_all_reduce(in, out, dtype, op, label)
                      : real_->start_all_reduce(in, out, dtype, op, label);
  }

  std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) override {
    return with_local_reads(real_->split(groups, name), local_);
  }
  [[nodiscard]] std::vector<int> nodes() const override { return real_->nodes(); }
  void advance(std::uint64_t progress) override { real_->advance(progress); }
  void await_progress(std::uint64_t progress) override {
    if (!local_->on) real_->await_progress(progress);
  }
  [[nodiscard]] const TrafficCounters& traffic() const override { return real_->traffic(); }
  [[nodiscard]] const TrafficCounters& rank_traffic() const override { return real_->rank_traffic(); }

 private:
  std::shared_ptr<ProcessGroup> real_;
  std::shared_ptr<LocalReads> local_;
};

}  // namespace

std::shared_ptr<ProcessGroup> with_local_reads(std::shared_ptr<ProcessGroup> group, std::shared_ptr<LocalReads> local) {
  return std::make_shared<Group>(std::move(group), std::move(local));
}

}  // namespace tessera::bench
