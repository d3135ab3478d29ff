// SPDX-License-Identifier: Apache-2.0
// A group that copies its operands to node memory for each call. Operations in place stay in place.
#pragma once

#include <cstring>
#include <map>
#include <memory>

#include "tessera/collectives/node_memory.h"
#include "tessera/collectives/process_group.h"

namespace tessera::testing {

class OnNodeMemory final : public ProcessGroup {
 public:
  using Bytes = std::span<const std::byte>;
  using MutableBytes = std::span<std::byte>;

  explicit OnNodeMemory(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}
  [[nodiscard]] int rank() const override { return group_->rank(); }
  [[nodiscard]] int size() const override { return group_->size(); }
  [[nodiscard]] const std::string& name() const override { return group_->name(); }
  void all_gather(Bytes in, MutableBytes out, const CollectiveLabel& label) override {
    moved(in, out, [&](Bytes i, MutableBytes o) { group_->all_gather(i, o, label); });
  }
  void reduce_scatter(Bytes in, MutableBytes out, DType dtype, Reduction op, const CollectiveLabel& label) override {
    moved(in, out, [&](Bytes i, MutableBytes o) { group_->reduce_scatter(i, o, dtype, op, label); });
  }
  void all_reduce(Bytes in, MutableBytes out, DType dtype, Reduction op, const CollectiveLabel& label) override {
    moved(in, out, [&](Bytes i, MutableBytes o) { group_->all_reduce(i, o, dtype, op, label); });
  }
  void all_to_all(Bytes in, MutableBytes out, const CollectiveLabel& label) override {
    moved(in, out, [&](Bytes i, MutableBytes o) { group_->all_to_all(i, o, label); });
  }
  void permute(Bytes in, MutableBytes out, const std::vector<std::pair<int, int>>& pairs,
               const CollectiveLabel& label) override {
    moved(in, out, [&](Bytes i, MutableBytes o) { group_->permute(i, o, pairs, label); });
  }
  void broadcast(MutableBytes data, int root, const CollectiveLabel& label) override {
    moved(data, data, [&](Bytes, MutableBytes o) { group_->broadcast(o, root, label); });
  }
  void barrier(const CollectiveLabel& label) override { group_->barrier(label); }
  std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) override {
    auto& known = subgroups_[name];
    if (!known) known = std::make_shared<OnNodeMemory>(group_->split(groups, name));
    return known;
  }
  [[nodiscard]] const TrafficCounters& traffic() const override { return group_->traffic(); }
  [[nodiscard]] const TrafficCounters& rank_traffic() const override { return group_->rank_traffic(); }

 private:
  class Block {
   public:
    explicit Block(std::size_t bytes) : bytes_(bytes + 1), memory_(node_memory()), data_(memory_->take(bytes_)) {}
    ~Block() { memory_->give_back(data_, bytes_); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }

   private:
    std::size_t bytes_;
    std::shared_ptr<NodeMemory> memory_;
    std::byte* data_;
  };

  template <class F>
  static void moved(Bytes in, MutableBytes out, F&& f) {
    const bool inside = in.data() >= out.data() && in.data() + in.size() <= out.data() + out.size();
    const Block target(out.size());
    const Block source(in.size());
    if (!out.empty()) std::memcpy(target.data(), out.data(), out.size());
    if (!in.empty()) std::memcpy(source.data(), in.data(), in.size());
    f({inside ? target.data() + (in.data() - out.data()) : source.data(), in.size()}, {target.data(), out.size()});
    if (!out.empty()) std::memcpy(out.data(), target.data(), out.size());
  }

  std::shared_ptr<ProcessGroup> group_;
  std::map<std::string, std::shared_ptr<ProcessGroup>> subgroups_;
};

}  // namespace tessera::testing
