// SPDX-License-Identifier: Apache-2.0
#include "mpi/operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "copy_bytes.h"
#include "reduce.h"
#include "shared_memory/backoff.h"
#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

constexpr std::size_t kMessage = std::size_t{1} << 30;  // larger payloads are sent as several messages
// Limits the bytes of a reduction that are in flight from each peer.
constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::int64_t kTagPeriod =
    8191;  // far more than the number of operations in flight; MPI guarantees tags up to 32767

}  // namespace

MpiOperation::MpiOperation(Membership members, std::shared_ptr<MpiCommunicator> communicator,
                           std::shared_ptr<Node> node, std::shared_ptr<Progress> progress, const NodeLinks& links,
                           Collective call)
    : members_(std::move(members)),
      communicator_(std::move(communicator)),
      node_(std::move(node)),
      progress_(std::move(progress)),
      links_(links),
      call_(std::move(call)),
      tag_(static_cast<int>(call_.number % kTagPeriod) * 2) {
  const auto held = progress_->claim();
  plan();
  advance();
  progress_->add(*this);
}

// The buffers of incomplete messages belong to MPI. A failed operation cannot free them, so the job must end.
MpiOperation::~MpiOperation() {
  try {
    wait();
  } catch (...) {
    if (!requests_.empty()) std::terminate();
  }
  const auto held = progress_->claim();
  progress_->remove(*this);
  communicator_.reset();  // may free it, which calls MPI
}

void MpiOperation::wait() {
  if (given_up_) std::rethrow_exception(given_up_);
  const auto held = progress_->claim();
  Backoff backoff(*node_, call_.text);
  std::size_t stages = stages_.size();
  while (!advance()) {
    if (std::exchange(stages, stages_.size()) != stages_.size()) backoff.begin_again();
    progress_->advance(this);
    try {
      backoff.pause([this] { return absent(); });
    } catch (...) {
      given_up_ = std::current_exception();
      throw;
    }
  }
}

bool MpiOperation::test() {
  if (!in_progress_.load(std::memory_order_acquire)) return true;  // although the thread may hold the claim
  const auto held = progress_->try_claim();
  return held.owns_lock() && advance();
}

void MpiOperation::go_on() noexcept {
  if (has_ended()) return;
  try {
    advance();
  } catch (...) {
    error_ = std::current_exception();
  }
}

bool MpiOperation::advance() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  while (in_progress_) {
    if (!messages_done()) return false;
    if (stages_.empty()) {
      in_progress_.store(false, std::memory_order_release);
      break;
    }
    const Stage stage = std::move(stages_.front());
    stages_.pop_front();
    try {
      stage();
    } catch (...) {  // the remaining stages are void
      stages_.clear();
      throw;
    }
  }
  return true;
}

bool MpiOperation::messages_done() {
  if (requests_.empty()) return true;
  int done = 0;
  check_mpi(MPI_Testall(checked_count(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (done == 0) return false;
  requests_.clear();
  peers_.clear();
  return true;
}

std::vector<int> MpiOperation::absent() {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    int done = 0;
    MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
    if (done == 0) ranks.push_back(members_.world_ranks[peers_[i]]);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void MpiOperation::send(const std::byte* from, std::size_t bytes, std::size_t member) {
  for (std::size_t begin = 0; begin < bytes; begin += kMessage) {
    peers_.push_back(member);
    check_mpi(MPI_Isend(from + begin, checked_count(std::min(kMessage, bytes - begin)), MPI_BYTE,
                        static_cast<int>(member), tag_, communicator_->handle(), &requests_.emplace_back()),
              "MPI_Isend");
  }
}

void MpiOperation::receive(std::byte* to, std::size_t bytes, std::size_t member) {
  for (std::size_t begin = 0; begin < bytes; begin += kMessage) {
    peers_.push_back(member);
    check_mpi(MPI_Irecv(to + begin, checked_count(std::min(kMessage, bytes - begin)), MPI_BYTE,
                        static_cast<int>(member), tag_, communicator_->handle(), &requests_.emplace_back()),
              "MPI_Irecv");
  }
}

void MpiOperation::plan() {
  plan_compare();
  switch (call_.kind) {
    case Kind::kAllGather:
    case Kind::kSplit: return plan_gather();
    case Kind::kReduceScatter:
      return plan_reduce_scatter([part = call_.out.size()](std::size_t k) { return k * part; }, call_.out.data());
    case Kind::kAllReduce:
      return all_reduces_in_one_round(links_, count(), call_.in.size()) ? plan_all_reduce_in_one_round()
                                                                        : plan_all_reduce();
    case Kind::kAllToAll: return plan_exchange();
    case Kind::kPermute: return plan_permute();
    case Kind::kBroadcast: return plan_broadcast();
    case Kind::kBarrier: return;  // the comparison is a barrier already
  }
}

// All members exchange their posts before any data is sent.
void MpiOperation::plan_compare() {
  posts_.resize(count());
  posts_[own()] = call_.post();
  then([this] {
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t k = (own() + i) % count();
      receive(reinterpret_cast<std::byte*>(&posts_[k]), sizeof(Post), k);
      send(reinterpret_cast<const std::byte*>(&posts_[own()]), sizeof(Post), k);
    }
  });
  then([this] {
    compare();
    ++tag_;
  });
}

void MpiOperation::compare() {
  std::vector<Position> positions;
  bool differ = false;
  for (std::size_t k = 0; k < count(); ++k) {
    differ = differ || posts_[k].signature != posts_[0].signature;
    positions.push_back({members_.world_ranks[k], posts_[k]});
  }
  if (differ) throw Error(divergence_message(positions));
}

void MpiOperation::plan_gather() {
  const std::size_t part = call_.in.size();
  payload_ = static_cast<std::int64_t>(part * (count() - 1));
  plan_collect(call_.in.data(), call_.out.data(), [part](std::size_t k) { return k * part; });
}

// `mine` is this member's slice of `gathered`, in which slice k begins at begin_of(k); all members receive all slices.
void MpiOperation::plan_collect(const std::byte* mine, std::byte* gathered, const Begin& begin_of) {
  if (gathers_by_doubling(links_, count())) {
    then([=, this] { copy_bytes(gathered + begin_of(own()), mine, begin_of(own() + 1) - begin_of(own())); });
    return plan_collect_by_doubling(gathered, begin_of);
  }
  then([=, this] {
    const std::size_t begin = begin_of(own());
    const std::size_t end = begin_of(own() + 1);
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t from = (own() + count() - i) % count();
      receive(gathered + begin_of(from), begin_of(from + 1) - begin_of(from), from);
      send(mine, end - begin, (own() + i) % count());
    }
    copy_bytes(gathered + begin, mine, end - begin);
  });
}

// In each step, this member sends its `held` slices to the member that many positions before it, and receives as many
// from the one that many positions after it. Slices that wrap around to the first one are a separate message.
void MpiOperation::plan_collect_by_doubling(std::byte* gathered, const Begin& begin_of) {
  const auto for_pieces = [=, n = count()](std::size_t first, std::size_t slices, auto&& move) {
    const std::size_t end = std::min(first + slices, n);
    move(gathered + begin_of(first), begin_of(end) - begin_of(first));
    if (first + slices > n) move(gathered, begin_of(first + slices - n));
  };
  for (std::size_t held = 1; held < count(); held *= 2)
    then([=, this] {
      const std::size_t slices = std::min(held, count() - held);
      const std::size_t from = (own() + held) % count();
      const std::size_t to = (own() + count() - held) % count();
      for_pieces(from, slices, [&](std::byte* piece, std::size_t bytes) { receive(piece, bytes, from); });
      for_pieces(own(), slices, [&](std::byte* piece, std::size_t bytes) { send(piece, bytes, to); });
    });
}

void MpiOperation::plan_exchange() {
  const std::size_t part = call_.in.size() / count();
  payload_ = static_cast<std::int64_t>(part * (count() - 1));
  then([this, part] {
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t from = (own() + count() - i) % count();
      const std::size_t to = (own() + i) % count();
      receive(call_.out.data() + from * part, part, from);
      send(call_.in.data() + to * part, part, to);
    }
    copy_bytes(call_.out.data() + own() * part, call_.in.data() + own() * part, part);
  });
}

void MpiOperation::plan_permute() {
  then([this] {
    bool is_target = false;
    for (const auto& [source, target] : call_.pairs) {
      is_target = is_target || target == members_.rank;
      if (source == target && source == members_.rank) {
        copy_bytes(call_.out.data(), call_.in.data(), call_.in.size());
      } else if (source == members_.rank) {
        send(call_.in.data(), call_.in.size(), static_cast<std::size_t>(target));
      } else if (target == members_.rank) {
        receive(call_.out.data(), call_.out.size(), static_cast<std::size_t>(source));
      }
    }
    if (!is_target && !call_.out.empty()) std::memset(call_.out.data(), 0, call_.out.size());
  });
  for (const auto& [source, target] : call_.pairs)
    if (target == members_.rank && source != target) payload_ = static_cast<std::int64_t>(call_.in.size());
}

void MpiOperation::plan_broadcast() {
  if (members_.rank != call_.root) payload_ = static_cast<std::int64_t>(call_.out.size());
  broadcasts_in_slices(links_, count(), call_.out.size()) ? plan_broadcast_slices() : plan_broadcast_tree();
}

// A binomial tree. In ranks relative to the root, member r receives from r without its lowest bit, and sends to r plus
// each lower bit.
void MpiOperation::plan_broadcast_tree() {
  const auto root = static_cast<std::size_t>(call_.root);
  const std::size_t self = (own() + count() - root) % count();
  const auto member = [this, root](std::size_t relative) { return (relative + root) % count(); };
  const std::size_t lowest = self & (~self + 1);
  if (self != 0) then([=, this] { receive(call_.out.data(), call_.out.size(), member(self - lowest)); });
  then([=, this] {
    for (std::size_t bit = 1; bit < count() && (self == 0 || bit < lowest); bit *= 2)
      if (self + bit < count()) send(call_.out.data(), call_.out.size(), member(self + bit));
  });
}

// The root sends a slice to each of the others, and they exchange slices. In ranks relative to the root, member r has
// slice r - 1.
void MpiOperation::plan_broadcast_slices() {
  const auto root = static_cast<std::size_t>(call_.root);
  const std::size_t others = count() - 1;
  const std::size_t self = (own() + count() - root) % count();
  const auto slice = [=, this](std::size_t r) {
    const auto begin = [&](std::size_t k) {
      return call_.out.size() / others * k + call_.out.size() % others * k / others;
    };
    return call_.out.subspan(begin(r - 1), begin(r) - begin(r - 1));
  };
  then([=, this] {
    if (self != 0) return receive(slice(self).data(), slice(self).size(), root);
    for (std::size_t r = 1; r <= others; ++r) send(slice(r).data(), slice(r).size(), (root + r) % count());
  });
  if (self == 0) return;
  then([=, this] {
    for (std::size_t i = 1; i < others; ++i) {
      const std::size_t from = (self - 1 + others - i) % others + 1;
      const std::size_t to = (self - 1 + i) % others + 1;
      receive(slice(from).data(), slice(from).size(), (root + from) % count());
      send(slice(self).data(), slice(self).size(), (root + to) % count());
    }
  });
}

// Slice k of every `in` begins at begin_of(k) and is sent to member k in blocks; this rank reduces its own slice in
// rank order. (Overlapping with the transfer of the next block gained nothing, over shared memory and over TCP.)
void MpiOperation::plan_reduce_scatter(const Begin& begin_of, std::byte* out) {
  std::size_t longest = 0;
  for (std::size_t k = 0; k < count(); ++k) longest = std::max(longest, begin_of(k + 1) - begin_of(k));
  const std::size_t begin_of_own = begin_of(own());
  const std::size_t length = begin_of(own() + 1) - begin_of_own;
  payload_ += static_cast<std::int64_t>(length * (count() - 1));
  const std::size_t stride = std::min(kBlock, longest);
  scratch_.resize(stride * count());
  for (std::size_t begin = 0; begin < longest; begin += kBlock) {
    const auto block_of = [begin](std::size_t bytes) { return bytes > begin ? std::min(kBlock, bytes - begin) : 0; };
    then([=, this] {
      for (std::size_t i = 1; i < count(); ++i) {
        const std::size_t from = (own() + count() - i) % count();
        const std::size_t to = (own() + i) % count();
        receive(scratch_.data() + from * stride, block_of(length), from);
        send(call_.in.data() + begin_of(to) + begin, block_of(begin_of(to + 1) - begin_of(to)), to);
      }
    });
    then([=, this] {
      std::vector<const std::byte*> sources(count());
      for (std::size_t k = 0; k < count(); ++k)
        sources[k] = k == own() ? call_.in.data() + begin_of_own + begin : scratch_.data() + k * stride;
      reduce_ordered(members_.summands(sources), out + begin, block_of(length), call_.dtype, call_.reduction);
    });
  }
}

void MpiOperation::plan_all_reduce_in_one_round() {
  const std::size_t bytes = call_.in.size();
  payload_ = static_cast<std::int64_t>(bytes * (count() - 1));
  scratch_.resize(bytes * count());
  plan_collect(call_.in.data(), scratch_.data(), [bytes](std::size_t k) { return k * bytes; });
  then([this, bytes] {
    std::vector<const std::byte*> sources(count());
    for (std::size_t k = 0; k < count(); ++k) sources[k] = scratch_.data() + k * bytes;
    reduce_ordered(members_.summands(sources), call_.out.data(), bytes, call_.dtype, call_.reduction);
  });
}

// A reduce-scatter of slices, followed by a gather of the slices.
void MpiOperation::plan_all_reduce() {
  const auto element = static_cast<std::size_t>(dtype_size(call_.dtype));
  const Begin begin_of = [=, elements = call_.in.size() / element, n = count()](std::size_t k) {
    return elements * k / n * element;
  };
  const std::size_t own_begin = begin_of(own());
  plan_reduce_scatter(begin_of, call_.out.data() + own_begin);
  payload_ += static_cast<std::int64_t>(call_.in.size() - (begin_of(own() + 1) - own_begin));
  plan_collect(call_.out.data() + own_begin, call_.out.data(), begin_of);
}

}  // namespace tessera::collectives
