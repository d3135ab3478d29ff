// SPDX-License-Identifier: Apache-2.0
// A value of the front end, and the handle with which a tensor refers to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tessera/frontend/tensor/state_dict.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/ir/builder.h"
#include "tessera/runtime/executable/buffer.h"

namespace tessera::detail {

/// An element of an array of integers: its value, and its place in row-major order.
struct KnownElement {
  std::int64_t value = 0;
  std::int64_t place = 0;
};
/// The outermost distinct values of integers: two at each end, because functions of ids may ignore one value.
struct KnownBounds {
  std::optional<KnownElement> least, second_least, most, second_most;
};

/// A value: data, traced, or deferred. Several variables may hold the same value.
struct Node {
  Type type;
  std::uint64_t order = 0;  // of creation on this rank
  std::string name;         // of the variable for which it was made
  std::optional<Sharding>
      sharding;               // current or required sharding; none: fully replicated (data), or undecided (traced)
  bool is_automatic = false;  // auto mode has chosen the sharding

  DeviceArray shard;                        // data: this rank's shard
  std::optional<Literal> host;              // data: the complete value, equal on every rank
  bool is_abstract = false;                 // data without a value, for plans
  bool is_given = false;                    // data from the host, or from a file, which must be equal on every rank
  std::optional<std::uint64_t> given_hash;  // of the complete value, if it was needed; the ranks compare it
  bool is_from_file = false;                // given_hash is that of a file
  std::optional<std::uint64_t> shard_hash;  // of this rank's shard from the host, if other ranks hold it too
  KnownBounds bounds;                       // of integers from the host whose complete value was discarded
  bool is_under_way = false;  // data that the running step computes: call await_execution() before using the shard
  std::function<Literal()> refresh;  // data from the host that a compiled function requests at each call

  Id id = -1;  // traced: in the trace of `epoch`
  std::uint64_t epoch = 0;
  std::uint64_t frame = 0;         // traced: the number of the FunctionTrace; 0: the trace itself
  std::shared_ptr<Node> replaces;  // traced: the data whose memory it may reuse

  Initializer initializer;  // deferred: computes the value
  ShardReader reader;       // deferred: reads this rank's shard

  [[nodiscard]] bool has_data() const { return host.has_value() || !shard.is_null() || is_under_way || is_abstract; }
  [[nodiscard]] bool is_deferred() const { return initializer != nullptr || reader != nullptr; }
  /// The number of tensors with this value. A step may write its results into the memory of a value that no tensor
  /// holds.
  [[nodiscard]] int holders() const { return holders_.load(std::memory_order_relaxed); }

 private:
  friend class NodeHandle;
  std::atomic<int> holders_{0};
};

/// A handle to a node, for a tensor or for other code that reads the value later. A plain shared_ptr keeps the node,
/// but not its value.
class NodeHandle {
 public:
  NodeHandle() = default;
  NodeHandle(std::shared_ptr<Node> node) : node_(std::move(node)) { hold(1); }  // NOLINT(google-explicit-constructor)
  NodeHandle(const NodeHandle& other) : node_(other.node_) { hold(1); }
  NodeHandle(NodeHandle&& other) noexcept : node_(std::move(other.node_)) {}
  NodeHandle& operator=(NodeHandle other) noexcept {
    node_.swap(other.node_);
    return *this;
  }
  ~NodeHandle() { hold(-1); }

  [[nodiscard]] const std::shared_ptr<Node>& shared() const { return node_; }
  operator const std::shared_ptr<Node>&() const { return node_; }  // NOLINT(google-explicit-constructor)
  Node* operator->() const { return node_.get(); }
  Node& operator*() const { return *node_; }
  [[nodiscard]] Node* get() const { return node_.get(); }
  friend bool operator==(const NodeHandle& a, const NodeHandle& b) { return a.node_ == b.node_; }

 private:
  void hold(int more) const {
    if (node_) node_->holders_.fetch_add(more, std::memory_order_relaxed);
  }
  std::shared_ptr<Node> node_;
};

}  // namespace tessera::detail
