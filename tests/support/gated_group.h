// SPDX-License-Identifier: Apache-2.0
// A group that calls a function before each all-gather, for tests that delay a rank or make it fail there.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tessera/collectives/process_group.h"

namespace tessera::testing {

class GatedGroup final : public ProcessGroup {
 public:
  /// `group` must outlive it. Groups split from it have no gate.
  GatedGroup(ProcessGroup& group, std::function<void()> gate) : group_(group), gate_(std::move(gate)) {}
  [[nodiscard]] int rank() const override { return group_.rank(); }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] const std::string& name() const override { return group_.name(); }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out, const CollectiveLabel& label) override {
    gate_();
    group_.all_gather(in, out, label);
  }
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                      const CollectiveLabel& label) override {
    group_.reduce_scatter(in, out, dtype, op, label);
  }
  void all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                  const CollectiveLabel& label) override {
    group_.all_reduce(in, out, dtype, op, label);
  }
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out, const CollectiveLabel& label) override {
    group_.all_to_all(in, out, label);
  }
  void permute(std::span<const std::byte> in, std::span<std::byte> out, const std::vector<std::pair<int, int>>& pairs,
               const CollectiveLabel& label) override {
    group_.permute(in, out, pairs, label);
  }
  void broadcast(std::span<std::byte> data, int root, const CollectiveLabel& label) override {
    group_.broadcast(data, root, label);
  }
  void barrier(const CollectiveLabel& label) override { group_.barrier(label); }
  std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) override {
    return group_.split(groups, name);
  }
  [[nodiscard]] const TrafficCounters& traffic() const override { return group_.traffic(); }
  [[nodiscard]] const TrafficCounters& rank_traffic() const override { return group_.rank_traffic(); }

 private:
  ProcessGroup& group_;
  std::function<void()> gate_;
};

}  // namespace tessera::testing
