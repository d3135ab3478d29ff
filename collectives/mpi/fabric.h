// SPDX-License-Identifier: Apache-2.0
// Makes the groups of a process: shared memory inside a node, MPI between nodes, hierarchical where both.
#pragma once

#include "mpi/progress.h"
#include "mpi/session.h"
#include "shared_memory/node.h"

namespace tessera::collectives {

/// Where every rank lives.
struct Locations {
  std::vector<std::string> hosts;
  std::vector<int> nodes;  // numbered by their lowest rank
  bool shares_memory = false;
};

class MpiFabric final : public Fabric, public std::enable_shared_from_this<MpiFabric> {
 public:
  /// Collective over MPI_COMM_WORLD. A node is MPI's shared-memory split, cut further by TESSERA_NODE.
  MpiFabric(int rank, int size);
  std::shared_ptr<ProcessGroup> make_group(const std::vector<int>& world_ranks, const std::string& name,
                                           std::int64_t id) override;
  [[nodiscard]] std::vector<int> nodes_of(const std::vector<int>& world_ranks) const override;
  [[nodiscard]] NodeLinks links() override { return links_; }
  [[nodiscard]] std::shared_ptr<NodeMemory> memory_for_peers() const override { return node_->heap(); }
  void advance(std::uint64_t progress) override;
  void works_on(std::string_view text) override;
  void await_progress(const std::vector<int>& world_ranks, std::uint64_t progress, const std::string& text) override;
  /// Waits until all ranks have come to their end. MPI_Finalize must not begin before: if a rank fails while another is in it,
  /// Open MPI's mpirun (4.1.4) hangs or crashes.
  void meet_at_end();
  [[nodiscard]] const Locations& locations() const { return locations_; }
  [[nodiscard]] Node& node() const { return *node_; }
  [[nodiscard]] Progress& progress() const { return *progress_; }
  /// Of this machine, those that at least one of its ranks may run on.
  [[nodiscard]] int core_count() const { return core_count_; }
  /// Whether payload goes through MPI at all.
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
  int ranks_of_machine_ = 1;  // also where TESSERA_NODE makes several nodes of it
  int core_count_ = 1;
  NodeLinks links_;
};

}  // namespace tessera::collectives
