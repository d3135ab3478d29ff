// SPDX-License-Identifier: Apache-2.0
// The world of this process: the ranks that mpirun started, or one rank alone.
//
//   int main(int argc, char** argv) {
//     Communicator world = make_world(argc, argv);
//     return guard_main(world, [&] { train(world.group()); });
//   }
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/rank_context.h"
#include "tessera/collectives/node_links.h"
#include "tessera/collectives/process_group.h"

namespace tessera {

/// The connection of one rank to its world.
class Communicator {
 public:
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Calls finalize(). During stack unwinding it ends the complete job instead, because peers may wait for this rank.
  ~Communicator();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// The rank's number among the ranks of its node.
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  /// Nodes are numbered by their lowest rank. A node is a machine, or a part of it according to TESSERA_NODE.
  [[nodiscard]] int node() const;
  [[nodiscard]] int node_count() const;
  /// One per rank.
  [[nodiscard]] const std::vector<int>& nodes() const;
  [[nodiscard]] const std::vector<std::string>& host_names() const;
  /// False without mpirun.
  [[nodiscard]] bool uses_mpi() const;
  /// True if ranks of a node exchange data through shared memory.
  [[nodiscard]] bool shares_memory() const;
  /// The links between nodes, measured at the start or given by TESSERA_LINK. Equal on all ranks. nullopt if no data
  /// goes through MPI.
  [[nodiscard]] std::optional<NodeLinks> links() const;
  /// True if a thread of this rank progresses collectives between nodes while the rank computes (TESSERA_PROGRESS).
  [[nodiscard]] bool has_progress_thread() const;
  /// The group of all ranks. Its split() makes the other groups.
  [[nodiscard]] ProcessGroup& group() const;
  [[nodiscard]] std::shared_ptr<ProcessGroup> shared_group() const;
  /// The context of this rank. It is current on the thread that made the world.
  [[nodiscard]] RankContext& context() const;
  /// A warning such as `8 ranks with 2 threads each share 4 cores of node 0` if there are too few cores, else "".
  [[nodiscard]] std::string oversubscription_note(int threads_per_rank) const;

  /// Leaves the world. Collective. Its groups must not be used afterwards. The destructor calls it.
  void finalize();
  /// Prints `rank 3 of 8: message` and ends all ranks.
  [[noreturn]] void abort(const std::string& message);

 private:
  friend Communicator make_world(int& argc, char**& argv);
  struct State;
  explicit Communicator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Connects to the other ranks that mpirun started, or makes a world of one rank. Call it once per process. Afterwards,
/// an uncaught exception ends the job with `rank 3 of 8: message`.
Communicator make_world(int& argc, char**& argv);

/// The name of the MPI library, such as `Open MPI v4.1.4, package: …`. Needs no world.
std::string mpi_library();

/// Prints an error that occurred before make_world(), such as a wrong flag. Returns `status`, the exit status for the
/// program. All processes of a job have the same error. The others first wait some seconds, so that rank 0 can print it
/// and mpirun can end the job.
int fail_before_world(const std::string& message, int status);

/// Runs `fn` and returns 0. If `fn` throws in a world of one rank, prints the message and returns exit_code_of() the
/// error. In a larger world, prints `rank 3 of 8: message` and ends all ranks with this code. Ranks that stop only
/// because another rank failed print nothing. If ranks of a node have the same message, it is printed once: `all 8
/// ranks: message`.
int guard_main(Communicator& world, const std::function<void()>& fn);

}  // namespace tessera
