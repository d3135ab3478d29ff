// SPDX-License-Identifier: Apache-2.0
// The reference evaluation of collectives on all devices together.
#pragma once

#include "row_support.h"
#include "tessera/ops/collectives.h"

namespace tessera::rows {

inline const CollectiveAttributes& collective(const OpView& view) { return view.as<CollectiveAttributes>(); }
/// The dim of a gather, scatter or all-to-all.
int only_dim(const OpView& view);
/// Without use_global_device_ids but with a channel, ids are replicas, each of which represents all its partitions.
/// With one replica, these are all devices.
bool names_one_replica(const CollectiveAttributes& a);

std::vector<Literal> evaluate_all_gather(const CollectiveContext& context);
std::vector<Literal> evaluate_all_reduce(const CollectiveContext& context);
std::vector<Literal> evaluate_reduce_scatter(const CollectiveContext& context);
std::vector<Literal> evaluate_all_to_all(const CollectiveContext& context);
std::vector<Literal> evaluate_collective_permute(const CollectiveContext& context);
std::vector<Literal> evaluate_ragged_all_to_all(const CollectiveContext& context);
std::vector<Literal> evaluate_collective_broadcast(const CollectiveContext& context);

}  // namespace tessera::rows
