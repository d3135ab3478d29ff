// SPDX-License-Identifier: Apache-2.0
#include "tessera/collectives/slow_group.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <thread>

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

// Completes when the operation completes, but not before the deadline.
class SlowOperation final : public PendingOperation {
 public:
  SlowOperation(std::unique_ptr<PendingOperation> operation, Clock::time_point deadline)
      : operation_(std::move(operation)), deadline_(deadline) {}
  void wait() override {
    operation_->wait();
    std::this_thread::sleep_until(deadline_);
  }
  bool test() override { return operation_->test() && Clock::now() >= deadline_; }

 private:
  std::unique_ptr<PendingOperation> operation_;
  Clock::time_point deadline_;
};

class SlowGroup final : public ProcessGroup {
 public:
  SlowGroup(std::shared_ptr<ProcessGroup> group, const SlowLinks& links)
      : group_(std::move(group)), links_(links), random_(links.seed * 1000 + static_cast<unsigned>(group_->rank())) {}

  [[nodiscard]] int rank() const override { return group_->rank(); }
  [[nodiscard]] int size() const override { return group_->size(); }
  [[nodiscard]] const std::string& name() const override { return group_->name(); }
  [[nodiscard]] std::vector<int> nodes() const override { return group_->nodes(); }
  [[nodiscard]] const TrafficCounters& traffic() const override { return group_->traffic(); }
  [[nodiscard]] const TrafficCounters& rank_traffic() const override { return group_->rank_traffic(); }
  void works_on(std::string_view text) override { group_->works_on(text); }
  void advance(std::uint64_t progress) override {
    come_late();
    group_->advance(progress);
  }
  void await_progress(std::uint64_t progress) override { group_->await_progress(progress); }

  void all_gather(Bytes in, MutableBytes out, const CollectiveLabel& label) override {
    slowly([&] { group_->all_gather(in, out, label); });
  }
  void reduce_scatter(Bytes in, MutableBytes out, DType dtype, Reduction op, const CollectiveLabel& label) override {
    slowly([&] { group_->reduce_scatter(in, out, dtype, op, label); });
  }
  void all_reduce(Bytes in, MutableBytes out, DType dtype, Reduction op, const CollectiveLabel& label) override {
    slowly([&] { group_->all_reduce(in, out, dtype, op, label); });
  }
  void all_to_all(Bytes in, MutableBytes out, const CollectiveLabel& label) override {
    slowly([&] { group_->all_to_all(in, out, label); });
  }
  void permute(Bytes in, MutableBytes out, const std::vector<std::pair<int, int>>& pairs,
               const CollectiveLabel& label) override {
    slowly([&] { group_->permute(in, out, pairs, label); });
  }
  void broadcast(MutableBytes data, int root, const CollectiveLabel& label) override {
    slowly([&] { group_->broadcast(data, root, label); });
  }
  void barrier(const CollectiveLabel& label) override {
    slowly([&] { group_->barrier(label); });
  }
  std::unique_ptr<PendingOperation> start_all_gather(Bytes in, MutableBytes out,
                                                     const CollectiveLabel& label) override {
    return started([&] { return group_->start_all_gather(in, out, label); });
  }
  std::unique_ptr<PendingOperation> start_reduce_scatter(Bytes in, MutableBytes out, DType dtype, Reduction op,
                                                         const CollectiveLabel& label) override {
    return started([&] { return group_->start_reduce_scatter(in, out, dtype, op, label); });
  }
  std::unique_ptr<PendingOperation> start_all_reduce(Bytes in, MutableBytes out, DType dtype, Reduction op,
                                                     const CollectiveLabel& label) override {
    return started([&] { return group_->start_all_reduce(in, out, dtype, op, label); });
  }
  std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) override {
    auto& known = subgroups_[name];
    if (!known) known = slow_down(group_->split(groups, name), links_);
    return known;
  }

 private:
  void come_late() {
    if (links_.jitter > 0)
      std::this_thread::sleep_for(seconds(std::uniform_real_distribution<double>(0, links_.jitter)(random_)));
  }
  // The time of arrival of bytes sent at `begin`. They follow the bytes of earlier collectives, which may still be in
  // flight.
  [[nodiscard]] Clock::time_point arrival(Clock::time_point begin, std::int64_t bytes) {
    const double transfer = links_.bytes_per_second > 0 ? static_cast<double>(bytes) / links_.bytes_per_second : 0;
    free_ = std::max(begin, free_) + seconds(transfer);
    return free_ + seconds(links_.latency);
  }
  template <class Start>
  std::unique_ptr<PendingOperation> started(Start&& start) {
    come_late();
    const auto begin = Clock::now();
    const std::int64_t before = group_->traffic().total();
    auto operation = start();
    return std::make_unique<SlowOperation>(std::move(operation), arrival(begin, group_->traffic().total() - before));
  }
  template <class Run>
  void slowly(Run&& run) {
    come_late();
    const auto begin = Clock::now();
    const std::int64_t before = group_->traffic().total();
    run();
    std::this_thread::sleep_until(arrival(begin, group_->traffic().total() - before));
  }

  std::shared_ptr<ProcessGroup> group_;
  SlowLinks links_;
  std::mt19937 random_;
  Clock::time_point free_{};  // when the link has transferred all bytes so far
  std::map<std::string, std::shared_ptr<ProcessGroup>> subgroups_;
};

}  // namespace

std::shared_ptr<ProcessGroup> slow_down(std::shared_ptr<ProcessGroup> group, const SlowLinks& links) {
  return std::make_shared<SlowGroup>(std::move(group), links);
}

}  // namespace tessera
