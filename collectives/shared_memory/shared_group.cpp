// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/shared_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "copy_bytes.h"
#include "reduce.h"
#include "shared_memory/backoff.h"

namespace tessera::collectives {
namespace {

// Calls f(begin, length) for chunks of at most `chunk` bytes; once with length 0 if `bytes` is 0.
template <class F>
void for_chunks(std::size_t bytes, std::size_t chunk, F&& f) {
  std::size_t begin = 0;
  do {
    const std::size_t length = std::min(chunk, bytes - begin);
    f(begin, length);
    begin += length;
  } while (begin < bytes);
}

// The share of each member in a half of the staging area, in full cache lines.
std::size_t share(std::size_t members) { return kStagingHalf / members / kCacheLine * kCacheLine; }

}  // namespace

SharedGroup::SharedGroup(std::shared_ptr<Fabric> fabric, std::shared_ptr<Node> node, Membership membership)
    : GroupBase(std::move(fabric), std::move(membership)), node_(std::move(node)) {
  const auto slot = static_cast<std::size_t>(members().id);
  require(slot < kGroupSlots, "at most {} process groups can be created; {} would exceed this", kGroupSlots, name());
  for (const int rank : members().world_ranks) {
    pages_.push_back(&node_->page_of(rank));
    slots_.push_back(&pages_.back()->slots[slot]);
  }
}

void SharedGroup::run(const Collective& call) {
  auto& slot = *slots_[own()];
  parity_ = static_cast<std::size_t>(call.number) % 2;
  slot.post[parity_] = call.post();
  slot.signature[parity_].store(slot.post[parity_].signature, std::memory_order_relaxed);  // arrive() publishes it
  first_step_ = step_ + 1;
  is_direct(call) ? run_direct(call) : run_staged(call);
  slot.done.store(step_, std::memory_order_release);
}

void SharedGroup::run_staged(const Collective& call) {
  switch (call.kind) {
    case Kind::kAllGather:
    case Kind::kSplit: gather(call); break;
    case Kind::kReduceScatter: reduce_scatter(call); break;
    case Kind::kAllReduce: call.in.size() <= kSmallAllReduce ? all_reduce_small(call) : all_reduce(call); break;
    case Kind::kAllToAll: exchange(call); break;
    case Kind::kPermute: permute(call); break;
    case Kind::kBroadcast: broadcast(call); break;
    case Kind::kBarrier:
      arrive();
      await_all(call);
      break;
  }
}

void SharedGroup::gather(const Collective& call) {
  for_chunks(call.in.size(), kStagingHalf, [&](std::size_t begin, std::size_t length) {
    copy_bytes(claim_half(call), call.in.data() + begin, length);
    arrive();
    copy_bytes(call.out.data() + call.part_begin(own(), call.in.size()) + begin, call.in.data() + begin, length);
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t k = (own() + i) % count();
      await(k, call);
      copy_bytes(call.out.data() + call.part_begin(k, call.in.size()) + begin, half_of(k), length);
    }
  });
}

void SharedGroup::reduce_scatter(const Collective& call) {
  const std::size_t part = call.out.size();
  std::vector<const std::byte*> sources(count());
  for_chunks(part, share(count()), [&](std::size_t begin, std::size_t length) {
    std::byte* half = claim_half(call);
    for (std::size_t k = 0; k < count(); ++k)
      if (k != own()) copy_bytes(half + k * share(count()), call.in.data() + call.part_begin(k, part) + begin, length);
    arrive();
    await_all(call);
    for (std::size_t k = 0; k < count(); ++k)
      sources[k] =
          k == own() ? call.in.data() + call.part_begin(own(), part) + begin : half_of(k) + own() * share(count());
    reduce_ordered(members().summands(sources), call.out.data() + begin, length, call.dtype, call.reduction);
  });
}

void SharedGroup::all_reduce_small(const Collective& call) {
  copy_bytes(claim_half(call), call.in.data(), call.in.size());
  arrive();
  await_all(call);
  std::vector<const std::byte*> sources(count());
  for (std::size_t k = 0; k < count(); ++k) sources[k] = half_of(k);
  reduce_ordered(members().summands(sources), call.out.data(), call.in.size(), call.dtype, call.reduction);
}

// Member k reduces slice k of a chunk and writes the result to a place that no member reads as an operand; the others
// copy it from there.
void SharedGroup::all_reduce(const Collective& call) {
  std::vector<const std::byte*> sources(count());
  for_chunks(call.in.size(), kStagingHalf, [&](std::size_t begin, std::size_t length) {
    const std::size_t slice =
        (length / count() + kCacheLine) / kCacheLine * kCacheLine;  // complete elements of every type
    const auto at = [&](std::size_t k) { return std::min(k * slice, length); };
    const std::byte* in = call.in.data() + begin;
    std::byte* out = call.out.data() + begin;
    std::byte* half = claim_half(call);
    copy_bytes(half, in, at(own()));
    copy_bytes(half + at(own() + 1), in + at(own() + 1), length - at(own() + 1));
    arrive();
    await_all(call);
    for (std::size_t k = 0; k < count(); ++k) sources[k] = (k == own() ? in : half_of(k)) + at(own());
    const std::size_t own_length = at(own() + 1) - at(own());
    reduce_ordered(members().summands(sources), half + at(own()), own_length, call.dtype, call.reduction);
    arrive();
    copy_bytes(out + at(own()), half + at(own()), own_length);
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t k = (own() + i) % count();
      await(k, call);
      copy_bytes(out + at(k), half_of(k) + at(k), at(k + 1) - at(k));
    }
  });
}

void SharedGroup::exchange(const Collective& call) {
  const std::size_t part = call.in.size() / count();
  for_chunks(part, share(count()), [&](std::size_t begin, std::size_t length) {
    std::byte* half = claim_half(call);
    for (std::size_t k = 0; k < count(); ++k)
      if (k != own()) copy_bytes(half + k * share(count()), call.in.data() + k * part + begin, length);
    arrive();
    copy_bytes(call.out.data() + own() * part + begin, call.in.data() + own() * part + begin, length);
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t k = (own() + i) % count();
      await(k, call);
      copy_bytes(call.out.data() + k * part + begin, half_of(k) + own() * share(count()), length);
    }
  });
}

void SharedGroup::permute(const Collective& call) {
  std::ptrdiff_t source = -1;
  bool sends = false;
  for (const auto& [from, to] : call.pairs) {
    sends = sends || (from == rank() && to != rank());
    if (to == rank()) source = from;
  }
  for_chunks(call.in.size(), kStagingHalf, [&](std::size_t begin, std::size_t length) {
    std::byte* half = claim_half(call);
    if (sends) copy_bytes(half, call.in.data() + begin, length);
    arrive();
    await_all(call);
    std::byte* out = call.out.data() + begin;
    if (source == rank())
      copy_bytes(out, call.in.data() + begin, length);
    else if (source >= 0)
      copy_bytes(out, half_of(static_cast<std::size_t>(source)), length);
    else if (length > 0)
      std::memset(out, 0, length);
  });
}

void SharedGroup::broadcast(const Collective& call) {
  for_chunks(call.out.size(), kStagingHalf, [&](std::size_t begin, std::size_t length) {
    std::byte* half = claim_half(call);
    if (rank() == call.root) copy_bytes(half, call.in.data() + begin, length);
    arrive();
    await_all(call);
    if (rank() != call.root) copy_bytes(call.out.data() + begin, half_of(static_cast<std::size_t>(call.root)), length);
  });
}

std::byte* SharedGroup::claim_half(const Collective& call) {
  auto& last = node_->last_use;
  if (last.group != this) {
    for (std::size_t k = 0; k < last.readers.size(); ++k) {
      Backoff backoff(*node_, call.text);
      while (last.readers[k]->done.load(std::memory_order_acquire) < last.step)
        backoff.pause([&] { return std::vector<int>{last.world_ranks[k]}; });
    }
    last.group = this;
    last.readers.assign(slots_.begin(), slots_.end());
    last.readers.erase(last.readers.begin() + rank());
    last.world_ranks = members().world_ranks;
    last.world_ranks.erase(last.world_ranks.begin() + rank());
  }
  half_ ^= 1;
  return pages_[own()]->staging[half_].data();
}

const std::byte* SharedGroup::half_of(std::size_t member) const { return pages_[member]->staging[half_].data(); }

void SharedGroup::arrive() {
  slots_[own()]->arrived.store(++step_, std::memory_order_release);
  if (node_->last_use.group == this) node_->last_use.step = step_;
}

void SharedGroup::await(std::size_t member, const Collective& call) {
  const auto& slot = *slots_[member];
  if (slot.arrived.load(std::memory_order_acquire) < step_) {
    Backoff backoff(*node_, call.text);
    while (slot.arrived.load(std::memory_order_acquire) < step_) backoff.pause([&] { return absent(); });
  }
  if (step_ == first_step_) compare(member);
}

void SharedGroup::await_all(const Collective& call) {
  for (std::size_t i = 1; i < count(); ++i) await((own() + i) % count(), call);
}

void SharedGroup::compare(std::size_t member) const {
  const auto signature = [&](std::size_t k) { return slots_[k]->signature[parity_].load(std::memory_order_relaxed); };
  if (signature(member) == signature(own())) return;
  // Wait until all members have arrived, so that all report the same ranks, but not indefinitely.
  const auto arrived = [&](const GroupSlot* slot) {
    return slot->arrived.load(std::memory_order_acquire) >= first_step_;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (!std::all_of(slots_.begin(), slots_.end(), arrived) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  std::vector<Position> positions;
  for (std::size_t k = 0; k < count(); ++k)
    if (arrived(slots_[k])) positions.push_back({world_rank(static_cast<int>(k)), slots_[k]->post[parity_]});
  throw Error(divergence_message(positions));
}

std::vector<int> SharedGroup::absent() const {
  std::vector<int> ranks;
  for (std::size_t k = 0; k < count(); ++k)
    if (slots_[k]->arrived.load(std::memory_order_acquire) < step_) ranks.push_back(world_rank(static_cast<int>(k)));
  return ranks;
}

}  // namespace tessera::collectives
