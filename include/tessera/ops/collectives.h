// SPDX-License-Identifier: Apache-2.0
// Collectives as instructions of a per-device program. The partitioner emits them. In manual regions, `shard_map` emits
// them, too.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

/// `{{0,1},{2,3}}`; `{}`: one group of all devices; iota form `[2,2]<=[4]` or `[2,2]<=[2,2]T(1,0)`. Printed in the
/// canonical iota form if there is one, else as lists.
struct ReplicaGroups {
  std::vector<std::vector<std::int64_t>> groups;
  friend bool operator==(const ReplicaGroups&, const ReplicaGroups&) = default;
};
std::string field_text(const ReplicaGroups& value);
void parse_field(std::string_view text, ReplicaGroups& value);
struct SourceTargetPairs {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  friend bool operator==(const SourceTargetPairs&, const SourceTargetPairs&) = default;
};
std::string field_text(const SourceTargetPairs& value);
void parse_field(std::string_view text, SourceTargetPairs& value);

/// The attributes of all-gather, reduce-scatter, all-reduce, all-to-all and collective-broadcast.
struct CollectiveAttributes {
  std::int64_t channel_id = 0;
  ReplicaGroups replica_groups;
  bool use_global_device_ids = false;
  Dims dimensions;  // empty for all-reduce and the tuple form of all-to-all
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("channel_id", self.channel_id, Presence::kIfNotDefault);
    visit("replica_groups", self.replica_groups, Presence::kAlways);
    visit("use_global_device_ids", self.use_global_device_ids, Presence::kIfNotDefault);
    visit("dimensions", self.dimensions, Presence::kIfNotDefault);
  }
  friend bool operator==(const CollectiveAttributes&, const CollectiveAttributes&) = default;
};
struct PermuteAttributes {
  std::int64_t channel_id = 0;
  SourceTargetPairs source_target_pairs;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("channel_id", self.channel_id, Presence::kIfNotDefault);
    visit("source_target_pairs", self.source_target_pairs, Presence::kRequired);
  }
  friend bool operator==(const PermuteAttributes&, const PermuteAttributes&) = default;
};

/// The devices in the groups or pairs of the attributes of a collective.
ListedDevices listed_devices(const Attributes& attributes);
/// The number of devices in a group of the collective; `devices` if it lists no groups.
std::int64_t collective_group_size(const Instruction& instruction, std::int64_t devices);
/// The bytes that a device receives in the collective (OpDef::bytes_received). `operand` and `result` are sizes in
/// bytes.
std::int64_t bytes_received(const Instruction& instruction, std::int64_t operand, std::int64_t result,
                            std::int64_t devices);
/// Returns true if every group of the collective is within a node and has more than one member. `nodes` has the node of
/// each device; the groups must consist of devices.
bool stays_on_nodes(const CollectiveAttributes& attributes, const std::vector<int>& nodes);
/// Returns the attributes with another channel, if they have one.
Attributes with_channel(const Attributes& attributes, std::int64_t channel_id);

namespace ops {
/// Groups are ordered: member k of a group provides or receives part k. The caller chooses a new channel_id (0:
/// none).
Value all_gather(Value x, int dim, ReplicaGroups groups, std::int64_t channel_id);
Value reduce_scatter(Value x, int dim, Reduction reduction, ReplicaGroups groups, std::int64_t channel_id);
Value all_reduce(Value x, Reduction reduction, ReplicaGroups groups, std::int64_t channel_id);
/// Divides `split_dim` into as many parts as the group has members. Part k goes to member k. The received parts are
/// concatenated along the same dim (HLO's array form).
Value all_to_all(Value x, int split_dim, ReplicaGroups groups, std::int64_t channel_id);
/// Devices that are not the target of a pair get zeros.
Value collective_permute(Value x, SourceTargetPairs pairs, std::int64_t channel_id);
}  // namespace ops
}  // namespace tessera
