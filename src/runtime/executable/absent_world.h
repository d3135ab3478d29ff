// SPDX-License-Identifier: Apache-2.0
// The ranks of a job that does not exist. Programs are compiled for its rank 0 to find out what they need, and never
// run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/collectives/process_group.h"

namespace tessera {

/// Has sizes, nodes and subgroups. Every collective throws an InternalError.
class AbsentWorld final : public ProcessGroup {
 public:
  AbsentWorld(int ranks, std::vector<int> nodes) : AbsentWorld(0, ranks, std::move(nodes), "world") {}
  AbsentWorld(int rank, int size, std::vector<int> nodes, std::string name)
      : rank_(rank), size_(size), nodes_(std::move(nodes)), name_(std::move(name)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::vector<int> nodes() const override { return nodes_; }
  std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) override;

  void all_gather(std::span<const std::byte> in, std::span<std::byte> out, const CollectiveLabel& label) override;
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                      const CollectiveLabel& label) override;
  void all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                  const CollectiveLabel& label) override;
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out, const CollectiveLabel& label) override;
  void permute(std::span<const std::byte> in, std::span<std::byte> out, const std::vector<std::pair<int, int>>& pairs,
               const CollectiveLabel& label) override;
  void broadcast(std::span<std::byte> data, int root, const CollectiveLabel& label) override;
  void barrier(const CollectiveLabel& label) override;
  [[nodiscard]] const TrafficCounters& traffic() const override { return traffic_; }
  [[nodiscard]] const TrafficCounters& rank_traffic() const override { return traffic_; }

 private:
  int rank_;
  int size_;
  std::vector<int> nodes_;
  std::string name_;
  TrafficCounters traffic_;
};

}  // namespace tessera
