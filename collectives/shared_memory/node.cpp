// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/node.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "process_status.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

int open_pidfd(std::int32_t process) { return static_cast<int>(syscall(SYS_pidfd_open, process, 0)); }

bool is_dead(const Peer& peer, int pidfd) {
  if (pidfd < 0) return kill(peer.process, 0) != 0 && errno == ESRCH;
  pollfd entry{pidfd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

// The rank's page and staging area. It is in a file if the system has no memfd, and private to this rank if a file is
// impossible too.
Segment make_own(int world_rank, std::string& file_reason, std::string& refusal) {
  const std::string name = fmt::format("tessera rank {}", world_rank);
  const std::string& asked = options().text("TESSERA_SHARED_MEMORY");
  if (asked == "0") refusal = "TESSERA_SHARED_MEMORY=0";
  if (!refusal.empty()) return Segment::create_private(sizeof(RankPage));
  const bool tries_memory = asked != "files";
  if (!tries_memory) file_reason = "TESSERA_SHARED_MEMORY=files";
  Segment own = tries_memory ? Segment::try_create(sizeof(RankPage), name, file_reason) : Segment();
  if (own.is_open()) return own;
  std::string reason;
  own = Segment::try_create_file(sizeof(RankPage), reason);
  if (own.is_open()) return own;
  refusal = fmt::format("{}; {}", file_reason, reason);
  return Segment::create_private(sizeof(RankPage));
}

}  // namespace

Node::Node(int world_rank, int world_size)
    : world_rank_(world_rank),
      world_size_(world_size),
      own_(make_own(world_rank, file_reason_, refusal_)),
      page_(reinterpret_cast<RankPage*>(own_.data())) {
  if (refusal_.empty() && file_reason_.empty() && options().text("TESSERA_SHARED_MEMORY") == "1")
    heap_ = Heap::create(world_rank, machine_memory_bytes(), std::make_shared<SegmentTable>());
}

Node::~Node() {
  for (const int pidfd : pidfds_)
    if (pidfd >= 0) close(pidfd);
}

bool Node::open_peers(const std::vector<int>& world_ranks, const std::vector<SegmentAddress>& addresses,
                      std::string& reason) {
  for (std::size_t i = 0; i < world_ranks.size(); ++i) {
    if (world_ranks[i] == world_rank_) continue;
    auto segment = Segment::open(addresses[i], reason);
    if (!segment.is_open()) return false;
    peers_.push_back({world_ranks[i], addresses[i].process, reinterpret_cast<RankPage*>(segment.data())});
    segment.close_descriptor();
    segments_.push_back(std::move(segment));
    pidfds_.push_back(open_pidfd(addresses[i].process));
  }
  return true;
}

bool Node::open_heaps(const std::vector<int>& world_ranks, const std::vector<SegmentAddress>& addresses,
                      std::string& reason) {
  for (std::size_t i = 0; i < world_ranks.size(); ++i) {
    if (world_ranks[i] == world_rank_) continue;
    if (addresses[i].bytes == 0) reason = "no segment";
    auto segment = addresses[i].bytes == 0 ? Segment() : Segment::open(addresses[i], reason);
    if (!segment.is_open()) return false;
    heap_->table().add(world_ranks[i], std::move(segment));
  }
  return true;
}

RankPage& Node::page_of(int world_rank) const {
  if (world_rank == world_rank_) return *page_;
  for (const auto& peer : peers_)
    if (peer.world_rank == world_rank) return *peer.page;
  throw InternalError(fmt::format("rank {} is not on the node of rank {}", world_rank, world_rank_));
}

RankActivity Node::activity(int world_rank) const {
  using enum RankActivity::State;
  const auto peer =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) { return p.world_rank == world_rank; });
  if (peer == peers_.end() && world_rank != world_rank_)
    return {kElsewhere, hosts_.empty() ? "?" : at(hosts_, world_rank)};
  const RankPage& page = page_of(world_rank);
  if (page.state.load(std::memory_order_acquire) == RankState::kFinished) return {kFinished, ""};
  if (peer != peers_.end() && process_status(peer->process).is_stopped())
    return {kStopped, std::to_string(peer->process)};
  const auto text = [](const auto& field) { return std::string(field.data(), strnlen(field.data(), field.size())); };
  if (page.waiting.load(std::memory_order_acquire) == 0) return {kWorks, text(page.work)};
  const auto end = std::find(page.awaited.begin(), page.awaited.end(), -1);
  return {kWaits, text(page.activity), {page.awaited.begin(), end}};
}

namespace {

template <class Field>
void put_text(Field& field, std::string_view text) {
  const std::size_t length = text.copy(field.data(), field.size() - 1);
  field[length] = '\0';
}

}  // namespace

void Node::begin_waiting(const std::string& text) {
  put_text(page_->activity, text);
  page_->waiting.store(1, std::memory_order_release);
}

void Node::wait_for(const std::vector<int>& world_ranks) {
  const std::size_t count = std::min(world_ranks.size(), page_->awaited.size() - 1);
  std::copy_n(world_ranks.begin(), count, page_->awaited.begin());
  page_->awaited[count] = -1;
}

void Node::works_on(std::string_view text) {
  put_text(page_->work, text);
  if (!text.empty()) stop_waiting();  // after a timeout that the program has caught
}

bool Node::sleep(long microseconds) const {
  std::vector<pollfd> entries;
  for (const int pidfd : pidfds_) entries.push_back({pidfd, POLLIN, 0});  // negative ones are ignored
  const timespec time{0, microseconds * 1000};
  return ppoll(entries.data(), entries.size(), &time, nullptr) > 0;
}

void Node::check_failed() const {
  for (const auto& peer : peers_)
    if (peer.page->state.load(std::memory_order_acquire) == RankState::kFailed)
      throw PeerFailed(fmt::format("stopped because rank {} failed", peer.world_rank));
}

void Node::check_dead(const std::string& text) const {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const auto& peer = peers_[i];
    if (peer.page->state.load(std::memory_order_acquire) != RankState::kRunning || !is_dead(peer, pidfds_[i])) continue;
    throw Error(fmt::format("rank {} of {} died (process {}) while rank {} waited in {}", peer.world_rank, world_size_,
                            peer.process, world_rank_, text));
  }
}

}  // namespace tessera::collectives
