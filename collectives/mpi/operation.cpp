// SPDX-License-Identifier: Apache-2.0
#include "mpi/operation.h"

#include <algorithm>
#include <cstring>

#include "copy_bytes.h"
#include "reduce.h"
#include "shared_memory/patience.h"
#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

constexpr std::size_t kMessage = std::size_t{1} << 30;  // longer payloads go as several messages
constexpr std::size_t kBlock = std::size_t{1} << 20;  // of a reduction: bounds what is received at once from each peer
constexpr std::int64_t kTagPeriod =
    8191;  // operations in flight at once never come near it; MPI guarantees tags to 32767

}  // namespace

MpiOperation::MpiOperation(Membership members, std::shared_ptr<MpiCommunicator> communicator,
                           std::shared_ptr<Node> node, Collective call)
    : members_(std::move(members)),
      communicator_(std::move(communicator)),
      node_(std::move(node)),
      call_(std::move(call)),
      tag_(static_cast<int>(call_.number % kTagPeriod) * 2) {
  plan();
  test();
}

// Buffers of unfinished messages belong to MPI: an operation that goes wrong cannot give them back, so the job must end.
MpiOperation::~MpiOperation() {
  try {
    wait();
  } catch (...) {
    if (!requests_.empty()) std::terminate();
  }
}

void MpiOperation::wait() {
  Patience patience(*node_, call_.text);
  while (!test()) patience.pause([this] { return absent(); });
}

bool MpiOperation::test() {
  while (in_progress_) {
    if (!messages_done()) return false;
    if (stages_.empty()) {
      in_progress_ = false;
      break;
    }
    const Stage stage = std::move(stages_.front());
    stages_.pop_front();
    try {
      stage();
    } catch (...) {  // nothing of what was to follow makes sense any more
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
  sources_.clear();
  return true;
}

std::vector<int> MpiOperation::absent() {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    int done = 0;
    MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
    if (done == 0 && sources_[i] != own()) ranks.push_back(members_.world_ranks[sources_[i]]);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void MpiOperation::send(const std::byte* from, std::size_t bytes, std::size_t member) {
  for (std::size_t begin = 0; begin < bytes; begin += kMessage) {
    sources_.push_back(own());
    check_mpi(MPI_Isend(from + begin, checked_count(std::min(kMessage, bytes - begin)), MPI_BYTE,
                        static_cast<int>(member), tag_, communicator_->handle(), &requests_.emplace_back()),
              "MPI_Isend");
  }
}

void MpiOperation::receive(std::byte* to, std::size_t bytes, std::size_t member) {
  for (std::size_t begin = 0; begin < bytes; begin += kMessage) {
    sources_.push_back(member);
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
    case Kind::kReduceScatter: {
      const std::size_t part = call_.out.size();
      return plan_reduce_scatter(
          own() * part, (own() + 1) * part, [part](std::size_t k) { return k * part; }, call_.out.data());
    }
    case Kind::kAllReduce: return call_.in.size() <= kSmallAllReduce ? plan_all_reduce_small() : plan_all_reduce();
    case Kind::kAllToAll: return plan_exchange();
    case Kind::kPermute: return plan_permute();
    case Kind::kBroadcast: return plan_broadcast();
    case Kind::kBarrier: return;  // the comparison is one
  }
}

// Everybody tells everybody what comes; only then data moves.
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
  then([this, part] {
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t from = (own() + count() - i) % count();
      receive(call_.out.data() + from * part, part, from);
      send(call_.in.data(), part, (own() + i) % count());
    }
    copy_bytes(call_.out.data() + own() * part, call_.in.data(), part);
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

// A binomial tree: from the root's view, member r gets from r without its lowest bit and serves r plus each lower bit.
void MpiOperation::plan_broadcast() {
  const auto root = static_cast<std::size_t>(call_.root);
  const std::size_t self = (own() + count() - root) % count();
  const auto member = [this, root](std::size_t relative) { return (relative + root) % count(); };
  const std::size_t lowest = self & (~self + 1);
  if (self != 0) {
    payload_ = static_cast<std::int64_t>(call_.out.size());
    then([=, this] { receive(call_.out.data(), call_.out.size(), member(self - lowest)); });
  }
  then([=, this] {
    for (std::size_t bit = 1; bit < count() && (self == 0 || bit < lowest); bit *= 2)
      if (self + bit < count()) send(call_.out.data(), call_.out.size(), member(self + bit));
  });
}

// Slice k of every `in` begins at begin_of(k) and goes to member k, block by block; this rank reduces its own in rank order.
void MpiOperation::plan_reduce_scatter(std::size_t begin_of_own, std::size_t end_of_own,
                                       const std::function<std::size_t(std::size_t)>& begin_of, std::byte* out) {
  std::size_t longest = 0;
  for (std::size_t k = 0; k < count(); ++k) longest = std::max(longest, begin_of(k + 1) - begin_of(k));
  const std::size_t length = end_of_own - begin_of_own;
  payload_ += static_cast<std::int64_t>(length * (count() - 1));
  scratch_.resize(std::min(kBlock, longest) * count());
  for (std::size_t begin = 0; begin < longest; begin += kBlock) {
    const auto block_of = [begin](std::size_t bytes) { return bytes > begin ? std::min(kBlock, bytes - begin) : 0; };
    const std::size_t mine = block_of(length);
    const std::size_t stride = scratch_.size() / count();
    then([=, this] {
      for (std::size_t i = 1; i < count(); ++i) {
        const std::size_t from = (own() + count() - i) % count();
        const std::size_t to = (own() + i) % count();
        receive(scratch_.data() + from * stride, mine, from);
        send(call_.in.data() + begin_of(to) + begin, block_of(begin_of(to + 1) - begin_of(to)), to);
      }
    });
    then([=, this] {
      std::vector<const std::byte*> sources(count());
      for (std::size_t k = 0; k < count(); ++k)
        sources[k] = k == own() ? call_.in.data() + begin_of_own + begin : scratch_.data() + k * stride;
      reduce_ordered(sources, out + begin, mine, call_.dtype, call_.reduction);
    });
  }
}

void MpiOperation::plan_all_reduce_small() {
  const std::size_t bytes = call_.in.size();
  payload_ = static_cast<std::int64_t>(bytes * (count() - 1));
  scratch_.resize(bytes * count());
  then([this, bytes] {
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t k = (own() + i) % count();
      receive(scratch_.data() + k * bytes, bytes, k);
      send(call_.in.data(), bytes, k);
    }
  });
  then([this, bytes] {
    std::vector<const std::byte*> sources(count());
    for (std::size_t k = 0; k < count(); ++k) sources[k] = k == own() ? call_.in.data() : scratch_.data() + k * bytes;
    reduce_ordered(sources, call_.out.data(), bytes, call_.dtype, call_.reduction);
  });
}

// Reduce-scatter of slices, then everybody sends its slice to everybody.
void MpiOperation::plan_all_reduce() {
  const auto element = static_cast<std::size_t>(dtype_size(call_.dtype));
  const std::size_t elements = call_.in.size() / element;
  const auto begin_of = [=, n = count()](std::size_t k) { return elements * k / n * element; };
  const std::size_t begin = begin_of(own());
  const std::size_t end = begin_of(own() + 1);
  plan_reduce_scatter(begin, end, begin_of, call_.out.data() + begin);
  payload_ += static_cast<std::int64_t>(call_.in.size() - (end - begin));
  then([=, this] {
    for (std::size_t i = 1; i < count(); ++i) {
      const std::size_t from = (own() + count() - i) % count();
      receive(call_.out.data() + begin_of(from), begin_of(from + 1) - begin_of(from), from);
      send(call_.out.data() + begin, end - begin, (own() + i) % count());
    }
  });
}

}  // namespace tessera::collectives
