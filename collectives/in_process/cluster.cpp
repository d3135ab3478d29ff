// SPDX-License-Identifier: Apache-2.0
#include "in_process/cluster.h"

#include <algorithm>
#include <chrono>

#include "tessera/base/cpus.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "tessera/collectives/time_limit.h"

namespace tessera::collectives {
namespace {

// Spinning helps only if every member has its own core. It never yields: beside other processes, a thread that yields
// may wait for several milliseconds, but one that sleeps continues as soon as it is woken.
bool spins_until(std::size_t members, const auto& is_done) {
  static const auto kCores = static_cast<unsigned>(usable_cpu_count());
  const int spins = members <= kCores ? 2000 : 1;
  for (int i = 0; i < spins; ++i)
    if (is_done()) return true;
  return false;
}

class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

Cluster::Cluster(int size, std::function<int(int)> node_of, Wrap between_nodes)
    : node_of_(std::move(node_of)),
      between_nodes_(std::move(between_nodes)),
      ranks_(static_cast<std::size_t>(size)),
      running_(size),
      watchdog_interval_(watchdog_interval()),
      timeout_(collective_timeout()) {}

std::shared_ptr<Meeting> Cluster::meeting(std::int64_t id, const std::string& flavour,
                                          const std::vector<int>& world_ranks) {
  const Lock lock(mutex_);
  auto& meeting = meetings_[{id, flavour, world_ranks}];
  if (!meeting) {
    meeting = std::make_shared<Meeting>();
    meeting->world_ranks = world_ranks;
    meeting->posts.resize(world_ranks.size());
  }
  return meeting;
}

void Cluster::throw_if_stopped(const Meeting& meeting, int rank) {
  if (!meeting.broken.empty()) throw Error(meeting.broken);
  if (failed_rank_ < 0) return;
  at(ranks_, rank).stopped = true;
  throw PeerFailed(fmt::format("stopped because rank {} failed", failed_rank_));
}

void Cluster::meet(Meeting& meeting, int member, const Collective& call) {
  const int rank = at(meeting.world_ranks, member);
  Lock lock(mutex_);
  throw_if_stopped(meeting, rank);
  at(meeting.posts, member) = {call.in.data(), call.out.data(), call.post(), true};
  at(ranks_, rank).text = call.text;
  const std::uint64_t generation = meeting.generation.load(std::memory_order_relaxed);
  if (meeting.arrived + 1 == isize(meeting.world_ranks)) compare(meeting);
  if (!arrive(lock, meeting, rank)) wait(lock, meeting, rank, generation, true);
  if (meeting.generation.load(std::memory_order_relaxed) == generation) throw_if_stopped(meeting, rank);
  if (!meeting.broken.empty()) throw Error(meeting.broken);
}

void Cluster::meet_again(Meeting& meeting, int member) {
  const int rank = at(meeting.world_ranks, member);
  Lock lock(mutex_);
  at(meeting.posts, member).present = true;
  const std::uint64_t generation = meeting.generation.load(std::memory_order_relaxed);
  if (!arrive(lock, meeting, rank)) wait(lock, meeting, rank, generation, false);
}

// Returns true if this was the last member to arrive; it wakes the others.
bool Cluster::arrive(Lock& lock, Meeting& meeting, int rank) {
  if (++meeting.arrived == isize(meeting.world_ranks)) {
    complete(meeting);
    lock.unlock();
    meeting.changed.notify_all();
    lock.lock();
    return true;
  }
  at(ranks_, rank).state = State::kWaiting;
  at(ranks_, rank).meeting = &meeting;
  --running_;
  check_progress();
  return false;
}

void Cluster::wait(Lock& lock, Meeting& meeting, int rank, std::uint64_t generation, bool may_stop) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const std::optional<WaitingTime> own_limit = TimeLimit::current();
  lock.unlock();
  const bool done = spins_until(meeting.world_ranks.size(),
                                [&] { return meeting.generation.load(std::memory_order_acquire) != generation; });
  lock.lock();
  if (done) return;
  const auto released = [&] {
    return meeting.generation.load(std::memory_order_acquire) != generation || (may_stop && failed_rank_ >= 0);
  };
  WaitingTime next_report = watchdog_interval_;
  while (true) {
    const WaitingTime limit = may_stop ? own_limit.value_or(timeout_) : WaitingTime(1e9);
    if (meeting.changed.wait_until(
            lock, begin + std::chrono::duration_cast<Clock::duration>(std::min(next_report, limit)), released))
      return;
    const WaitingTime waited = Clock::now() - begin;
    const auto seconds = static_cast<int>(waited.count());
    const std::string& text = at(ranks_, rank).text;
    const auto missing = absent(meeting);
    if (waited >= limit) return break_meeting(meeting, timeout_message(seconds, text, missing) + cause(rank, missing));
    if (waited < next_report) continue;
    log_line(LogLevel::kWarning, waiting_message(rank, seconds, text, missing) + cause(rank, missing));
    next_report += watchdog_interval_;
  }
}

// Wakes all members. Called by the last member to arrive, or by the rank that breaks the meeting.
void Cluster::complete(Meeting& meeting) {
  meeting.arrived = 0;
  for (auto& post : meeting.posts) post.present = false;
  for (const int rank : meeting.world_ranks) {
    auto& state = at(ranks_, rank);
    if (state.state != State::kWaiting || state.meeting != &meeting) continue;
    state.state = State::kRunning;
    state.meeting = nullptr;
    ++running_;
  }
  meeting.generation.fetch_add(1, std::memory_order_release);
}

void Cluster::compare(Meeting& meeting) const {
  std::vector<Position> positions;
  bool differ = false;
  for (std::size_t member = 0; member < meeting.posts.size(); ++member) {
    const auto& post = meeting.posts[member].post;
    differ = differ || post.signature != meeting.posts[0].post.signature;
    positions.push_back({meeting.world_ranks[member], post});
  }
  if (differ) meeting.broken = divergence_message(positions);
}

std::vector<int> Cluster::absent(const Meeting& meeting) const {
  std::vector<int> ranks;
  for (std::size_t member = 0; member < meeting.posts.size(); ++member)
    if (!meeting.posts[member].present) ranks.push_back(meeting.world_ranks[member]);
  return ranks;
}

std::string Cluster::cause(int rank, const std::vector<int>& awaited) const {
  return cause_text(rank, awaited, [this](int other) { return activity(other); });
}

RankActivity Cluster::activity(int rank) const {
  using enum RankActivity::State;
  const Rank& known = at(ranks_, rank);
  if (known.state == State::kFinished) return {kFinished, ""};
  if (known.state == State::kWaiting) return {kWaits, known.text, absent(*known.meeting)};
  const std::scoped_lock lock(known.work_mutex);
  return {kWorks, known.work};
}

void Cluster::works_on(int rank, std::string_view text) {
  Rank& known = at(ranks_, rank);
  const std::scoped_lock lock(known.work_mutex);
  known.work = text;
}

// Text such as `rank 0 waits in all_reduce %3 over {data}; rank 1 has not arrived: it waits in barrier over {model}`.
std::string Cluster::absence(const Meeting& meeting) const {
  std::vector<int> finished;
  std::string elsewhere;
  for (const int rank : absent(meeting)) {
    if (at(ranks_, rank).state == State::kFinished)
      finished.push_back(rank);
    else if (at(ranks_, rank).state == State::kWaiting)
      elsewhere += fmt::format("; rank {} has not arrived: it waits in {}", rank, at(ranks_, rank).text);
  }
  const auto first = std::find_if(meeting.posts.begin(), meeting.posts.end(), [](const auto& m) { return m.present; });
  const int rank = at(meeting.world_ranks, first - meeting.posts.begin());
  const std::string text = at(ranks_, rank).text;
  if (!finished.empty()) return finished_message(rank, text, finished) + elsewhere;
  return fmt::format("rank {} waits in {}{}", rank, text, elsewhere);
}

void Cluster::break_meeting(Meeting& meeting, const std::string& reason) {
  meeting.broken = reason;
  complete(meeting);
  meeting.changed.notify_all();
}

// Breaks meetings that can never complete, because a member has finished or all ranks wait.
void Cluster::check_progress() {
  std::vector<std::pair<Meeting*, std::string>> impossible;
  for (const auto& [key, meeting] : meetings_) {
    if (meeting->arrived == 0) continue;
    bool lost = running_ == 0;
    for (const int rank : absent(*meeting)) lost = lost || at(ranks_, rank).state == State::kFinished;
    if (lost) impossible.emplace_back(meeting.get(), absence(*meeting));
  }
  for (const auto& [meeting, reason] : impossible) break_meeting(*meeting, reason);
}

void Cluster::advance(int rank, std::uint64_t progress) {
  Rank& own = at(ranks_, rank);
  own.progress.store(progress, std::memory_order_seq_cst);
  if (own.progress_waiters.load(std::memory_order_seq_cst) == 0) return;
  { const std::scoped_lock lock(own.progress_mutex); }  // a waiter that has read the progress before now waits
  own.progressed.notify_all();
}

void Cluster::await_progress(const std::vector<int>& world_ranks, int rank, std::uint64_t progress,
                             const std::string& group) {
  for (const int other : world_ranks) {
    const auto has_advanced = [&] { return at(ranks_, other).progress.load(std::memory_order_seq_cst) >= progress; };
    if (other == rank || spins_until(world_ranks.size(), has_advanced)) continue;
    sleep_until_progress(other, rank, progress, group);
  }
}

void Cluster::sleep_until_progress(int other, int rank, std::uint64_t progress, const std::string& group) {
  constexpr auto kBetweenChecks = std::chrono::milliseconds(20);
  const auto begin = std::chrono::steady_clock::now();
  Rank& awaited = at(ranks_, other);
  std::unique_lock lock(awaited.progress_mutex);
  const Counted waiter(awaited.progress_waiters);
  const auto has_advanced = [&] { return awaited.progress.load(std::memory_order_seq_cst) >= progress; };
  while (!awaited.progressed.wait_for(lock, kBetweenChecks, has_advanced)) {
    lock.unlock();
    check_progress_of(other, rank, progress, group, std::chrono::steady_clock::now() - begin);
    lock.lock();
  }
}

// Throws an Error if `rank` waits for progress that cannot happen.
void Cluster::check_progress_of(int other, int rank, std::uint64_t progress, const std::string& group,
                                WaitingTime waited) {
  const Lock lock(mutex_);
  if (failed_rank_ >= 0) {
    at(ranks_, rank).stopped = true;
    throw PeerFailed(fmt::format("stopped because rank {} failed", failed_rank_));
  }
  if (at(ranks_, other).progress.load(std::memory_order_acquire) >= progress) return;
  if (at(ranks_, other).state == State::kFinished)
    throw Error(finished_message(rank, text_of_progress(group), {other}));
  if (waited >= timeout_)
    throw CollectiveTimeout(timeout_message(static_cast<int>(waited.count()), text_of_progress(group), {other}) +
                            cause(rank, {other}));
}

void Cluster::finish(int rank) {
  const Lock lock(mutex_);
  at(ranks_, rank).state = State::kFinished;
  --running_;
  if (failed_rank_ < 0) check_progress();
}

void Cluster::poison(int rank) {
  const Lock lock(mutex_);
  at(ranks_, rank).state = State::kFinished;
  --running_;
  if (failed_rank_ < 0) failed_rank_ = rank;
  for (const auto& [key, meeting] : meetings_) meeting->changed.notify_all();
}

bool Cluster::was_stopped(int rank) const {
  const Lock lock(mutex_);
  return at(ranks_, rank).stopped;
}

}  // namespace tessera::collectives
