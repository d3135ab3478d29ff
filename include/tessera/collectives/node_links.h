// SPDX-License-Identifier: Apache-2.0
// The speed of the network between nodes, and the algorithms that collectives choose for it. All ranks have the same
// numbers and so make the same choice. No choice changes the order of a sum: measurements influence the time of a
// collective, never its result.
//
//   TESSERA_LINK=50,1.2 mpirun …    50 us, 1.2 GB/s
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace tessera {

/// A step in which a rank receives k messages with n bytes in total takes latency + (k - 1) * message + n /
/// bytes_per_second (seconds).
struct NodeLinks {
  double latency_seconds = 10e-6;
  double bytes_per_second = 2e9;  // received by one rank while all ranks of its node receive
  double message_seconds = 0.5e-6;

  [[nodiscard]] double step(double messages, double bytes) const {
    return latency_seconds + (messages - 1) * message_seconds + bytes / bytes_per_second;
  }
  /// `10.0 us, 2.00 GB/s a rank, 0.50 us for each further message`.
  [[nodiscard]] std::string str() const;
  friend bool operator==(const NodeLinks&, const NodeLinks&) = default;
};

/// The value of TESSERA_LINK; nullopt if it is not set. Error unless it is `latency in us,GB/s` or `latency in
/// us,GB/s,us for each further message`.
std::optional<NodeLinks> given_node_links();

/// True if an all-gather among `members` should use log2(members) steps with one message for each member, instead of
/// one step with a message from every other member.
bool gathers_by_doubling(const NodeLinks& links, std::size_t members);
/// True if every member of an all-reduce of `bytes` should receive all operands and reduce them, instead of reducing
/// one slice and receiving the results of the others.
bool all_reduces_in_one_round(const NodeLinks& links, std::size_t members, std::size_t bytes);
/// True if a broadcast should be divided into slices that the members pass to each other, instead of using a tree.
bool broadcasts_in_slices(const NodeLinks& links, std::size_t members, std::size_t bytes);
/// The best number of chunks of a collective over several nodes. `between` bytes pass between the nodes, in `steps`
/// steps for each chunk, while the nodes work on other chunks of the `inside` bytes.
std::size_t best_chunk_count(const NodeLinks& links, double between, double inside, int steps);

}  // namespace tessera
