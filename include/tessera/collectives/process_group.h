// SPDX-License-Identifier: Apache-2.0
// Groups of ranks that communicate. A group is created once for each set of mesh axes. Its members are ordered. Buffers
// are raw bytes, because collectives do not depend on programs.
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

/// A running collective. The buffers belong to the caller. wait() throws the error of the collective, if any.
class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  virtual void wait() = 0;
  /// Advances the collective. Returns true if wait() would not block. All-gathers and all-reduces over several nodes
  /// with several ranks each complete only in wait().
  virtual bool test() = 0;
};

/// Waits for an operation whose result is not used. An error ends the job with its message, because the caller cannot
/// handle it and the peers depend on this rank: the function calls std::terminate, whose handler make_world() sets. If
/// another exception is already ending the job, the error is ignored.
void wait_unseen(std::unique_ptr<PendingOperation> operation) noexcept;

/// A running collective with its result. `T` owns the buffers, and moving a T must not move their memory. The buffers
/// live until the collective is complete.
template <class T>
class Pending {
 public:
  Pending(std::unique_ptr<PendingOperation> operation, T result)
      : result_(std::move(result)), operation_(std::move(operation)) {}
  /// Waits until the collective is complete. Throws its error, once.
  T wait() {
    if (const auto operation = std::exchange(operation_, nullptr)) operation->wait();
    return std::move(result_);
  }
  /// True if wait() would not block.
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

/// The bytes that this rank received, by kind of collective, and the number of its collectives. `tessera stats`
/// predicts these numbers.
struct TrafficCounters {
  std::int64_t all_gather = 0;
  std::int64_t reduce_scatter = 0;
  std::int64_t all_reduce = 0;
  std::int64_t all_to_all = 0;
  std::int64_t permute = 0;
  std::int64_t broadcast = 0;
  std::int64_t mpi_payload = 0;  // the part of these bytes that went through MPI
  std::int64_t calls = 0;
  [[nodiscard]] std::int64_t total() const;
  TrafficCounters& operator+=(const TrafficCounters& other);
};

/// The name of a collective in messages: its sequence number and a text such as `all_reduce %17 over {data}`. All
/// members must pass the same label. Without a text, messages contain the kind and the group.
struct CollectiveLabel {
  std::int64_t sequence = 0;
  std::string text;
};

/// Ranks that communicate. All members must call the same collectives in the same order, with equal sizes; otherwise an
/// Error names the ranks that differ.
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

  /// Concatenates every member's `in` (equal sizes) in rank order into `out` (size() times the bytes of `in`).
  virtual void all_gather(std::span<const std::byte> in, std::span<std::byte> out,
                          const CollectiveLabel& label = {}) = 0;
  /// `in` holds size() equal parts. `out` is the reduction of part rank() over all members. Reduces in an order that
  /// depends only on the world ranks of the members and on their nodes, so all ranks get the same bits.
  virtual void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                              const CollectiveLabel& label = {}) = 0;
  /// `out` is the reduction of `in` over all members, on every member. Reduces in the same order.
  virtual void all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                          const CollectiveLabel& label = {}) = 0;
  /// Part k of `in` goes to member k; part k of `out` came from member k.
  virtual void all_to_all(std::span<const std::byte> in, std::span<std::byte> out,
                          const CollectiveLabel& label = {}) = 0;
  /// `pairs` are (source, target) members. A member is at most once a source and at most once a target. A member that
  /// is not a target gets zeros.
  virtual void permute(std::span<const std::byte> in, std::span<std::byte> out,
                       const std::vector<std::pair<int, int>>& pairs, const CollectiveLabel& label = {}) = 0;
  /// Copies `data` of member `root` to `data` of all members.
  virtual void broadcast(std::span<std::byte> data, int root, const CollectiveLabel& label = {}) = 0;
  /// Waits until all members have called it.
  virtual void barrier(const CollectiveLabel& label = {}) = 0;

  // Non-blocking forms. The buffers must live until the operation is complete; Pending<T> ensures this. The default
  // runs the collective immediately, because communication within a node is inexpensive.
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

  /// Divides the members into `groups` and returns the sub-group of this rank. Collective over this group. The result
  /// is cached by `name`.
  virtual std::shared_ptr<ProcessGroup> split(const std::vector<std::vector<int>>& groups, const std::string& name) = 0;

  /// The node of each member. Members of one node can read each other's node memory in place. Empty if ranks cannot
  /// read each other's memory.
  [[nodiscard]] virtual std::vector<int> nodes() const { return {}; }
  /// Publishes the progress of this rank: peers may then read the memory that it wrote before, and overwrite the memory
  /// that it read before. The count must not decrease. All groups of one world share one count.
  virtual void advance(std::uint64_t /*progress*/) {}
  /// Waits until every member has published at least this progress. All members must be on one node.
  virtual void await_progress(std::uint64_t progress);

  /// Sets the activity of this rank, for messages of ranks that wait for it: `runs %dot.3, step 12 of 40 of
  /// train_step`; "" when it is done.
  virtual void works_on(std::string_view /*text*/) {}
  /// The traffic of this rank in this group.
  [[nodiscard]] virtual const TrafficCounters& traffic() const = 0;
  /// The traffic of this rank over all groups of the same world.
  [[nodiscard]] virtual const TrafficCounters& rank_traffic() const = 0;

  /// Identifies this group. Another group may later have the same address, but then a weak pointer to this identity
  /// has expired.
  [[nodiscard]] const std::shared_ptr<const void>& identity() const { return identity_; }

 private:
  std::shared_ptr<const void> identity_ = std::make_shared<char>();
};

/// Data that a rank keeps for each group while the group exists.
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
