// SPDX-License-Identifier: Apache-2.0
// Collectives in which all members read the operands in place.
#include <algorithm>
#include <cstring>

#include "copy_bytes.h"
#include "kernels/sum_kernels.h"
#include "reduce.h"
#include "shared_memory/shared_group.h"

namespace tessera::collectives {
namespace {

// Below this size, the copy to a staging area costs less than a second meeting.
constexpr std::size_t kLeastDirect = std::size_t{16} << 10;
// For an all-reduce: a slice that a member has just reduced is still in a cache when the others read it.
constexpr std::size_t kAllReduceChunk = std::size_t{4} << 20;

}  // namespace

const std::byte* SharedGroup::operand_of(std::size_t member, std::size_t which) const {
  return node_->heap()->address_of(world_rank(static_cast<int>(member)), slots_[member]->offsets[parity_][which]);
}

// Sizes are equal on all members, but the places of operands may differ, so all members publish theirs before the
// decision.
bool SharedGroup::is_direct(const Collective& call) {
  if (!node_->heap() || std::max(call.in.size(), call.out.size()) < kLeastDirect || call.kind == Kind::kSplit)
    return false;
  auto& offsets = slots_[own()]->offsets[parity_];
  offsets = {node_->heap()->offset_of(call.in.data()), node_->heap()->offset_of(call.out.data())};
  meet(call);
  return std::all_of(slots_.begin(), slots_.end(), [&](const GroupSlot* slot) {
    const auto& [in, out] = slot->offsets[parity_];
    return in >= 0 && (out >= 0 || call.kind != Kind::kAllReduce);
  });
}

void SharedGroup::run_direct(const Collective& call) {
  switch (call.kind) {
    case Kind::kAllGather: gather_direct(call); break;
    case Kind::kReduceScatter: reduce_scatter_direct(call); break;
    case Kind::kAllReduce: all_reduce_direct(call); break;
    case Kind::kAllToAll: exchange_direct(call); break;
    case Kind::kPermute: permute_direct(call); break;
    case Kind::kBroadcast:
      copy_bytes(call.out.data(), in_of(static_cast<std::size_t>(call.root)),
                 rank() == call.root ? 0 : call.out.size());
      break;
    case Kind::kSplit:
    case Kind::kBarrier: break;
  }
  meet(call);  // no member reads this rank's buffers any more
}

// Each member begins with the part of a different member and ends with its own.
void SharedGroup::gather_direct(const Collective& call) {
  const std::size_t part = call.in.size();
  for (std::size_t i = 1; i <= count(); ++i) {
    const std::size_t k = (own() + i) % count();
    copy_bytes(call.out.data() + call.part_begin(k, part), k == own() ? call.in.data() : in_of(k), part);
  }
}

void SharedGroup::reduce_scatter_direct(const Collective& call) {
  std::vector<const std::byte*> sources(count());
  for (std::size_t k = 0; k < count(); ++k) sources[k] = in_of(k) + call.part_begin(own(), call.out.size());
  reduce_ordered(members().summands(sources), call.out.data(), call.out.size(), call.dtype, call.reduction);
}

// Member k reduces slice k of a chunk into its `out`, and the others copy it from there. Only member k reads slice k of
// every `in`, so `in` may be `out`. Chunks do not overlap, so one meeting between the halves of a chunk is enough.
void SharedGroup::all_reduce_direct(const Collective& call) {
  std::vector<const std::byte*> sources(count());
  for (std::size_t begin = 0; begin < call.in.size(); begin += kAllReduceChunk) {
    const std::size_t length = std::min(kAllReduceChunk, call.in.size() - begin);
    const std::size_t slice =
        (length / count() + kCacheLine) / kCacheLine * kCacheLine;  // complete elements of every type
    const auto at = [&](std::size_t k) { return begin + std::min(k * slice, length); };
    const std::size_t own_length = at(own() + 1) - at(own());
    for (std::size_t k = 0; k < count(); ++k) sources[k] = in_of(k) + at(own());
    reduce_ordered(members().summands(sources), call.out.data() + at(own()), own_length, call.dtype, call.reduction);
    meet(call);
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t k = (own() + i) % count();
      copy_bytes(call.out.data() + at(k), out_of(k) + at(k), at(k + 1) - at(k));
    }
  }
}

void SharedGroup::exchange_direct(const Collective& call) {
  const std::size_t part = call.in.size() / count();
  for (std::size_t i = 1; i <= count(); ++i) {
    const std::size_t k = (own() + i) % count();
    copy_bytes(call.out.data() + k * part, in_of(k) + own() * part, part);
  }
}

void SharedGroup::permute_direct(const Collective& call) {
  for (const auto& [from, to] : call.pairs)
    if (to == rank()) return copy_bytes(call.out.data(), in_of(static_cast<std::size_t>(from)), call.out.size());
  std::memset(call.out.data(), 0, call.out.size());
}

}  // namespace tessera::collectives
