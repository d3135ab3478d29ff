// SPDX-License-Identifier: Apache-2.0
// A group that asks before each all-gather: for tests that hold a rank in one, or let it fail there.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tessera/collectives/process_group.h"

namespace tessera::testing {

class GatedGroup final : public ProcessGroup {
 public:
  /// `group` outlives it. What is split from it has no gate.
  GatedGroup(ProcessGroup& group, std::function<void()> gate) : group_(group), gate_(std::move(gate)) {}
  [[nodiscard]] int rank() const override { return group_.rank(); }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] const std::string& name() const override { return group_.name(); }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    gate_();
    group_.all_gather(in, out);
  }
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op) override {
    group_.reduce_scatter(in, out, dtype, op);
  }
  void all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op) override {
    group_.all_reduce(in, out, dtype, op);
  }
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out) override { group_.all_to_all(in, out); }
  void permute(std::span<const std::byte> in, std::span<std::byte> out,
               const std::vector<std::pair<int, int>>& pairs) override {
    group_.permute(in, out, pairs);
  }
  void broadcast(std::span<std::byte> data, int root) override { group_.broadcast(data, root); }
  void barrier() override { group_.barrier(); }
  std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) override {
    return group_.split(groups, name);
  }
  void label(CollectiveLabel label) override { group_.label(std::move(label)); }
  [[nodiscard]] const TrafficCounters& traffic() const override { return group_.traffic(); }
  [[nodiscard]] const TrafficCounters& rank_traffic() const override { return group_.rank_traffic(); }

 private:
  ProcessGroup& group_;
  std::function<void()> gate_;
};

}  // namespace tessera::testing
