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

class Communicator {
 public:
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Finalizes; while an exception unwinds, ends the whole job instead, since peers may wait for this rank.
  ~Communicator();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// Among the ranks of this node.
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  /// Nodes are numbered by their lowest rank. A node is a machine, or what TESSERA_NODE makes of it.
  [[nodiscard]] int node() const;
  [[nodiscard]] int node_count() const;
  /// One per rank.
  [[nodiscard]] const std::vector<int>& nodes() const;
  [[nodiscard]] const std::vector<std::string>& host_names() const;
  /// False without mpirun.
  [[nodiscard]] bool uses_mpi() const;
  /// Whether ranks of a node exchange payload through shared memory.
  [[nodiscard]] bool shares_memory() const;
  /// What was measured between nodes at the start, or given (TESSERA_LINK), the same on all ranks; nothing where no payload goes through MPI.
  [[nodiscard]] std::optional<NodeLinks> links() const;
  /// Whether a thread of this rank sees to what is under way between nodes while the rank computes (TESSERA_PROGRESS).
  [[nodiscard]] bool has_progress_thread() const;
  /// All ranks; its split makes the others.
  [[nodiscard]] ProcessGroup& group() const;
  [[nodiscard]] std::shared_ptr<ProcessGroup> shared_group() const;
  /// Current on the thread that made the world.
  [[nodiscard]] RankContext& context() const;
  /// `8 ranks with 2 threads each share 4 cores of node 0` where cores are too few, else "". For information only.
  [[nodiscard]] std::string crowding_note(int threads_per_rank) const;

  /// Leaves the world; collective. Nothing may use its groups afterwards. The destructor calls it.
  void finalize();
  /// Prints `rank 3 of 8: message` and ends all ranks.
  [[noreturn]] void abort(const std::string& message);

 private:
  friend Communicator make_world(int& argc, char**& argv);
  struct State;
  explicit Communicator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Joins the ranks that mpirun started, or makes a world of one. Once per process. An exception that nobody catches then
/// ends the job with `rank 3 of 8: message`.
Communicator make_world(int& argc, char**& argv);

/// What the MPI library calls itself, such as `Open MPI v4.1.4, package: …`; there need be no world.
std::string mpi_library();

/// Prints a message about what went wrong before ranks were made, such as a wrong flag, and returns `status`, with which the
/// process shall end. All processes of a job find the same: the others give the first one time to say it and end the job.
int fail_before_world(const std::string& message, int status);

/// Runs `fn` and returns 0. If it throws, prints `rank 3 of 8: message` (without the rank in a world of one); a world of one
/// returns 1, a larger one ends all its ranks. Ranks that stop only because another failed say nothing, and what ranks of a node
/// would say alike is said once: `all 8 ranks: message`.
int guard_main(Communicator& world, const std::function<void()>& fn);

}  // namespace tessera
