// SPDX-License-Identifier: Apache-2.0
// Makes the groups of a process: over shared memory inside a node, over MPI between nodes, hierarchical if both are
// needed.
#pragma once

#include "mpi/progress.h"
#include "mpi/session.h"
#include "shared_memory/node.h"

namespace tessera::collectives {

/// The host and node of every rank.
struct Locations {
  std::vector<std::string> hosts;
  std::vector<int> nodes;  // numbered by their lowest rank
  bool shares_memory = false;
};

class MpiFabric final : public Fabric, public std::enable_shared_from_this<MpiFabric> {
 public:
  /// Collective over MPI_COMM_WORLD. A node is a part of MPI's shared-memory split, divided further by TESSERA_NODE.
  MpiFabric(int rank, int size);
  std::shared_ptr<ProcessGroup> make_group(const std::vector<int>& world_ranks, const std::string& name,
                                           std::int64_t id) override;
  [[nodiscard]] std::vector<int> nodes_of(const std::vector<int>& world_ranks) const override;
  [[nodiscard]] NodeLinks links() override { return links_; }
  [[nodiscard]] std::shared_ptr<NodeMemory> memory_for_peers() const override { return node_->heap(); }
  void advance(std::uint64_t progress) override;
  void works_on(std::string_view text) override;
  void await_progress(const std::vector<int>& world_ranks, std::uint64_t progress, const std::string& group) override;
  /// Waits until all ranks are finished. MPI_Finalize must not begin earlier: if a rank fails while another one is in
  /// it, Open MPI's mpirun (4.1.4) hangs or crashes.
  void meet_at_end();
  [[nodiscard]] const Locations& locations() const { return locations_; }
  [[nodiscard]] Node& node() const { return *node_; }
  [[nodiscard]] Progress& progress() const { return *progress_; }
  /// The number of cores of this machine on which at least one of its ranks may run.
  [[nodiscard]] int core_count() const { return core_count_; }
  /// Whether any payload is sent through MPI.
  [[nodiscard]] bool has_links() const;

 private:
  struct Introduction;
  void introduce();
  void count_cores(const std::vector<Introduction>& all, int leader);
  void agree_on_instructions(const std::vector<Introduction>& all) const;
  void open_node(const std::vector<Introduction>& all);
  void open_heaps(const std::vector<int>& ranks, const std::vector<SegmentAddress>& heaps);
  std::string first_reason(const std::string& own);
  [[nodiscard]] std::vector<int> apart() const;
  void find_links();

  int size_;
  MpiCommunicator world_;
  std::shared_ptr<Node> node_;
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  Locations locations_;
  int ranks_of_machine_ = 1;  // even if TESSERA_NODE divides the machine into several nodes
  int core_count_ = 1;
  NodeLinks links_;
};

}  // namespace tessera::collectives
