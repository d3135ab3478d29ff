// SPDX-License-Identifier: Apache-2.0
// Ranks that communicate. A group is made once per set of mesh axes; members are ordered. Buffers are raw bytes: collectives
// move memory, they know nothing of programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/sharding/sharding.h"
#include "tessera/tensor/dtype.h"

namespace tessera {

/// A running collective; keeps what it needs, but not the buffers. wait() throws what went wrong.
class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  virtual void wait() = 0;
  /// Lets it go on; true when wait() would not block. All-gather and all-reduce over several ranks of several nodes end in wait() only.
  virtual bool test() = 0;
};

/// Waits for an operation whose result nobody will see. An error cannot be thrown from where this is called, and the peers
/// depend on this rank: it ends the job with its message (std::terminate, of which make_world() makes that) unless another
/// exception, which will end the job, is already under way.
void wait_unseen(std::unique_ptr<PendingOperation> operation) noexcept;

/// A running collective with its result. `T` owns the buffers, in memory that stays where it is when a T is moved; they live
/// until the collective has let go of them.
template <class T>
class Pending {
 public:
  Pending(std::unique_ptr<PendingOperation> operation, T result)
      : result_(std::move(result)), operation_(std::move(operation)) {}
  /// Blocks until done. Throws what went wrong, once; afterwards there is nothing to wait for.
  T wait() {
    if (const auto operation = std::exchange(operation_, nullptr)) operation->wait();
    return std::move(result_);
  }
  /// True when wait() would not block.
  [[nodiscard]] bool test() { return !operation_ || operation_->test(); }
  /// Waits as wait_unseen() does.
  ~Pending() { wait_unseen(std::move(operation_)); }
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept {
    if (this == &other) return *this;
    wait_unseen(std::move(operation_));
    result_ = std::move(other.result_);
    operation_ = std::move(other.operation_);
    return *this;
  }

 private:
  T result_;  // outlives the operation, which may still write to it
  std::unique_ptr<PendingOperation> operation_;
};

/// Bytes this rank received and collectives it ran, by kind; what `tessera stats` predicts.
struct TrafficCounters {
  std::int64_t all_gather = 0;
  std::int64_t reduce_scatter = 0;
  std::int64_t all_reduce = 0;
  std::int64_t all_to_all = 0;
  std::int64_t permute = 0;
  std::int64_t broadcast = 0;
  std::int64_t mpi_payload = 0;  // of these, bytes that went through MPI rather than shared memory
  std::int64_t calls = 0;
  [[nodiscard]] std::int64_t total() const;
  TrafficCounters& operator+=(const TrafficCounters& other);
};

/// What a collective is called in messages, the last argument of each: (sequence, "all_reduce %17 over {data}"). Members must give the same.
/// Without a text it is called by its kind and group.
struct CollectiveLabel {
  std::int64_t sequence = 0;
  std::string text;
};

class ProcessGroup {
 public:
  ProcessGroup() = default;
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  [[nodiscard]] virtual int rank() const = 0;  // within the group
  [[nodiscard]] virtual int size() const = 0;
  /// "data of mesh<data=2, model=2>".
  [[nodiscard]] virtual const std::string& name() const = 0;

  /// Every member's `in` (equal sizes), joined in rank order into `out` (size * in bytes).
  virtual void all_gather(std::span<const std::byte> in, std::span<std::byte> out,
                          const CollectiveLabel& label = {}) = 0;
  /// `in` holds size() equal parts; out = reduction over members of part rank(). Reduces in rank order: same bits everywhere.
  virtual void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                              const CollectiveLabel& label = {}) = 0;
  virtual void all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                          const CollectiveLabel& label = {}) = 0;
  /// Part k of `in` goes to member k; part k of `out` came from member k.
  virtual void all_to_all(std::span<const std::byte> in, std::span<std::byte> out,
                          const CollectiveLabel& label = {}) = 0;
  /// (source, target) member pairs, each member at most once on a side; who is no target gets zeros.
  virtual void permute(std::span<const std::byte> in, std::span<std::byte> out,
                       const std::vector<std::pair<int, int>>& pairs, const CollectiveLabel& label = {}) = 0;
  virtual void broadcast(std::span<std::byte> data, int root, const CollectiveLabel& label = {}) = 0;
  virtual void barrier(const CollectiveLabel& label = {}) = 0;

  // Non-blocking forms; the buffers must live until the operation is done: Pending<T> sees to that. The default runs at once
  // (cheap communication beats overlap on one node).
  [[nodiscard]] virtual std::unique_ptr<PendingOperation> start_all_gather(std::span<const std::byte> in,
                                                                           std::span<std::byte> out,
                                                                           const CollectiveLabel& label = {});
  [[nodiscard]] virtual std::unique_ptr<PendingOperation> start_reduce_scatter(std::span<const std::byte> in,
                                                                               std::span<std::byte> out, DType dtype,
                                                                               Reduction op,
                                                                               const CollectiveLabel& label = {});
  [[nodiscard]] virtual std::unique_ptr<PendingOperation> start_all_reduce(std::span<const std::byte> in,
                                                                           std::span<std::byte> out, DType dtype,
                                                                           Reduction op,
                                                                           const CollectiveLabel& label = {});

  /// The sub-group that holds this rank, one of a partition of the group's members; collective over this group. Cached by `name`.
  virtual std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) = 0;

  /// The node of each member: members of one node read each other's node memory in place. Empty where no rank can.
  [[nodiscard]] virtual std::vector<int> nodes() const { return {}; }
  /// Says how far this rank has come: publishes what it wrote before, releases what it read before. Counts only grow; there is one for
  /// all groups that come from the same world.
  virtual void advance(std::uint64_t /*progress*/) {}
  /// Waits until every member has come so far. The members are of one node.
  virtual void await_progress(std::uint64_t progress);

  /// Says what this rank does now, for the ranks that may wait for it: `runs %dot.3, step 12 of 40 of train_step`; "" when that is over.
  virtual void works_on(std::string_view /*text*/) {}
  [[nodiscard]] virtual const TrafficCounters& traffic() const = 0;
  /// Of this rank over all groups that were split, directly or not, from the same world.
  [[nodiscard]] virtual const TrafficCounters& rank_traffic() const = 0;

  /// Stands for this group: another may later have its address, but a weak pointer to this has expired then.
  [[nodiscard]] const std::shared_ptr<const void>& identity() const { return identity_; }

 private:
  std::shared_ptr<const void> identity_ = std::make_shared<char>();
};

/// What a rank keeps for each group while the group lives.
template <class T>
class PerGroup {
 public:
  T& of(const ProcessGroup& group) {
    const auto found = kept_.find(group.identity());
    if (found != kept_.end()) return found->second;
    std::erase_if(kept_, [](const auto& entry) { return entry.first.expired(); });
    return kept_[group.identity()];
  }

 private:
  std::map<std::weak_ptr<const void>, T, std::owner_less<>> kept_;
};

}  // namespace tessera
