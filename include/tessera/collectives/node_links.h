// SPDX-License-Identifier: Apache-2.0
// What the network between nodes is like, and which way collectives take over it. All ranks have the same numbers and so choose alike. No
// choice changes the order of a sum: what is measured decides how long a collective takes, never a bit of its result.
//
//   TESSERA_LINK=50,1.2 mpirun …    50 us, 1.2 GB/s
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace tessera {

/// A step in which a rank gets k messages of n bytes in all takes latency + (k - 1) * message + n / bytes_per_second.
struct NodeLinks {
  double latency_seconds = 10e-6;
  double bytes_per_second = 2e9;  // that one rank gets while all ranks of its node do
  double message_seconds = 0.5e-6;

  [[nodiscard]] double step(double messages, double bytes) const {
    return latency_seconds + (messages - 1) * message_seconds + bytes / bytes_per_second;
  }
  /// `10.0 us, 2.00 GB/s a rank, 0.50 us for each further message`.
  [[nodiscard]] std::string str() const;
  friend bool operator==(const NodeLinks&, const NodeLinks&) = default;
};

/// TESSERA_LINK; nothing where it is not set. Error unless it is `latency in us,GB/s` or `latency in us,GB/s,us for each further message`.
std::optional<NodeLinks> given_node_links();

/// Whether the parts of `members` come together in log2(members) steps in which a member gets one message, rather than in one step in
/// which it gets one from every other.
bool gathers_by_doubling(const NodeLinks& links, std::size_t members);
/// Whether every member of an all-reduce of `bytes` gets all operands and reduces them, rather than reducing a slice of its own and getting
/// the others' results.
bool all_reduces_in_one_round(const NodeLinks& links, std::size_t members, std::size_t bytes);
/// Whether a broadcast is cut into slices that the members pass to each other, rather than going down a tree whole.
bool broadcasts_in_slices(const NodeLinks& links, std::size_t members, std::size_t bytes);
/// Into how many chunks a collective over several nodes is best cut: `between` bytes pass between the nodes in `steps` steps a chunk, while
/// others of the `inside` bytes are worked on inside the nodes.
std::size_t best_chunk_count(const NodeLinks& links, double between, double inside, int steps);

}  // namespace tessera
