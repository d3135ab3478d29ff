// SPDX-License-Identifier: Apache-2.0
// The speed of the network between nodes, and the algorithms that collectives choose for it. All ranks use the same
// numbers, so they choose the same algorithm. All algorithms sum in the same order, so measurements influence the time
// of a collective but not its result.
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

/// True if an all-gather among `members` should use log2(members) steps, in each of which every member receives one
/// message. False if it should use one step, in which every member receives a message from each other member.
bool gathers_by_doubling(const NodeLinks& links, std::size_t members);
/// True if every member of an all-reduce of `bytes` should receive all operands and reduce them. False if every member
/// should reduce one slice and receive the other slices of the result.
bool all_reduces_in_one_round(const NodeLinks& links, std::size_t members, std::size_t bytes);
/// True if a broadcast should be divided into slices that the members pass to each other, instead of using a tree.
bool broadcasts_in_slices(const NodeLinks& links, std::size_t members, std::size_t bytes);
/// Returns the best number of chunks of a collective over several nodes. One chunk is sent between the nodes while the
/// nodes process another. `between` bytes are sent between the nodes, in `steps` steps for each chunk; `inside` bytes
/// are processed within a node.
std::size_t best_chunk_count(const NodeLinks& links, double between, double inside, int steps);

}  // namespace tessera
