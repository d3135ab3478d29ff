// SPDX-License-Identifier: Apache-2.0
// A group of virtual ranks. Members read each other's buffers in place between two meetings.
#pragma once

#include "in_process/cluster.h"

namespace tessera::collectives {

class ThreadGroup final : public GroupBase {
 public:
  /// `crosses_nodes`: bytes count as MPI payload, as they would between machines.
  ThreadGroup(std::shared_ptr<Fabric> fabric, std::shared_ptr<Cluster> cluster, Membership members,
              const std::string& flavour, bool crosses_nodes);

 private:
  void run(const Collective& call) override;
  void move(const Collective& call);
  void gather(const Collective& call) const;
  void reduce_part(const Collective& call, std::size_t begin, std::size_t end, std::byte* out) const;
  void all_reduce(const Collective& call);
  void exchange(const Collective& call) const;
  void permute(const Collective& call) const;

  std::shared_ptr<Cluster> cluster_;
  std::shared_ptr<Meeting> place_;
  bool crosses_nodes_;
};

/// The fabric of one virtual rank.
class ThreadFabric final : public Fabric, public std::enable_shared_from_this<ThreadFabric> {
 public:
  ThreadFabric(std::shared_ptr<Cluster> cluster, int rank) : cluster_(std::move(cluster)) { world_rank = rank; }
  std::shared_ptr<ProcessGroup> make_group(const std::vector<int>& world_ranks, const std::string& name,
                                           std::int64_t id) override;
  [[nodiscard]] std::vector<int> nodes_of(const std::vector<int>& world_ranks) const override;
  /// TESSERA_LINK, or an assumption, because threads have no links to measure.
  [[nodiscard]] NodeLinks links() override;
  void advance(std::uint64_t progress) override { cluster_->advance(world_rank, progress); }
  void works_on(std::string_view text) override { cluster_->works_on(world_rank, text); }
  void await_progress(const std::vector<int>& world_ranks, std::uint64_t progress, const std::string& group) override {
    cluster_->await_progress(world_ranks, world_rank, progress, group);
  }

 private:
  std::shared_ptr<Cluster> cluster_;
  std::optional<NodeLinks> links_;
};

}  // namespace tessera::collectives
