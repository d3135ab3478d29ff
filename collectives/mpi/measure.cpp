// SPDX-License-Identifier: Apache-2.0
#include "mpi/measure.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <map>

#include "tessera/base/text.h"

namespace tessera::collectives {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 4;
constexpr int kSteps = 8;  // consecutive steps, so that the first message has already arrived when a late rank begins
constexpr int kLargeRounds = 3;
constexpr int kLargeSteps = 2;
constexpr int kMessages = 8;
constexpr std::size_t kSmall = 8;
constexpr std::size_t kMedium = std::size_t{64} << 10;
constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr double kFast = 0.4e-3;  // for kMedium bytes: faster links are measured with kLarge
constexpr int kSpins = 200;

struct Neighbours {
  int next = MPI_PROC_NULL;  // none if the next node has fewer ranks
  int previous = MPI_PROC_NULL;
};

Neighbours neighbours_of(int rank, const std::vector<int>& nodes) {
  std::map<int, std::vector<int>> ranks_of;
  for (int other = 0; other < isize(nodes); ++other) ranks_of[at(nodes, other)].push_back(other);
  const auto& own = ranks_of.at(at(nodes, rank));
  const auto place = static_cast<std::size_t>(std::find(own.begin(), own.end(), rank) - own.begin());
  auto next = ranks_of.upper_bound(at(nodes, rank));
  if (next == ranks_of.end()) next = ranks_of.begin();
  auto previous = ranks_of.find(at(nodes, rank));
  if (previous == ranks_of.begin()) previous = ranks_of.end();
  --previous;
  Neighbours out;
  if (place < next->second.size()) out.next = next->second[place];
  if (place < previous->second.size()) out.previous = previous->second[place];
  return out;
}

class Ring {
 public:
  Ring(MPI_Comm world, Neighbours neighbours)
      : world_(world), neighbours_(neighbours), sent_(kLarge), received_(kLarge) {}

  /// Seconds of a step in which `messages` of `bytes` each are sent to the next rank and received from the previous
  /// one: of the fastest round, and of the slowest rank.
  double step(int messages, std::size_t bytes) {
    const bool is_small = bytes == kSmall;
    double best = std::numeric_limits<double>::max();
    for (int round = 0; round < (is_small ? kRounds : kLargeRounds); ++round) {
      const int steps = is_small ? kSteps : kLargeSteps;
      const auto begin = Clock::now();
      for (int i = 0; i < steps; ++i) exchange(messages, bytes);
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count() / steps);
    }
    double slowest = best;
    check_mpi(MPI_Allreduce(&best, &slowest, 1, MPI_DOUBLE, MPI_MAX, world_), "MPI_Allreduce");
    return slowest;
  }

 private:
  // There may be more ranks than cores, so they must not wait inside MPI.
  void exchange(int messages, std::size_t bytes) {
    std::vector<MPI_Request> requests(static_cast<std::size_t>(2 * messages), MPI_REQUEST_NULL);
    for (int i = 0; i < messages; ++i) {
      const std::size_t place = static_cast<std::size_t>(i) * bytes;
      check_mpi(MPI_Irecv(received_.data() + place, checked_count(bytes), MPI_BYTE, neighbours_.previous, 0, world_,
                          &at(requests, 2 * i)),
                "MPI_Irecv");
      check_mpi(MPI_Isend(sent_.data() + place, checked_count(bytes), MPI_BYTE, neighbours_.next, 0, world_,
                          &at(requests, 2 * i + 1)),
                "MPI_Isend");
    }
    int done = 0;
    for (int round = 0; done == 0; ++round) {
      if (round > kSpins) sched_yield();
      check_mpi(MPI_Testall(checked_count(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
                "MPI_Testall");
    }
  }

  MPI_Comm world_;
  Neighbours neighbours_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
};

}  // namespace

NodeLinks measure_links(MPI_Comm world, int rank, const std::vector<int>& nodes) {
  Ring ring(world, neighbours_of(rank, nodes));
  const double one = ring.step(1, kSmall);
  const double many = ring.step(kMessages, kSmall);
  std::size_t bytes = kMedium;
  double transfer = ring.step(1, bytes);
  if (transfer < kFast) {
    bytes = kLarge;
    transfer = ring.step(1, bytes);
  }
  constexpr double kLeast = 1e-8;  // measurements may show that more messages take less time
  return {.latency_seconds = std::max(one, kLeast),
          .bytes_per_second = static_cast<double>(bytes) / std::max(transfer - one, kLeast),
          .message_seconds = std::max((many - one) / (kMessages - 1), kLeast)};
}

}  // namespace tessera::collectives
