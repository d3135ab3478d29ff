// SPDX-License-Identifier: Apache-2.0
#include "scratch.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/ops/collectives.h"

namespace tessera::schedule {

bool parts_are_contiguous(const Dims& dims, std::int64_t dim) {
  return std::all_of(dims.begin(), dims.begin() + dim, [](std::int64_t size) { return size == 1; });
}

namespace {

// The sent and the received data of one message.
std::int64_t packed_scratch(const OpView& view) {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  const std::vector<Type> results = view.result.leaves();
  for (const std::size_t i : packed_operands(view)) {
    sent += view.operands[i].byte_size();
    received += results[i].byte_size();
  }
  return ceil_div(sent, kBufferAlignment) * kBufferAlignment + received;
}

std::int64_t collective_scratch(const OpView& view) {
  const CollectiveKind kind = view.op.collective;
  const bool has_dims =
      kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
  std::int64_t most = packed_scratch(view);
  if (!has_dims) return most;
  const auto& attributes = view.as<CollectiveAttributes>();
  if (attributes.dimensions.empty()) {  // all-to-all of a tuple: all parts are packed, in both directions
    Checked both = most;
    for (const Type& operand : view.operands) both += Checked(2) * operand.byte_size();
    return both.value_or_most();
  }
  const std::int64_t dim = attributes.dimensions.front();
  const std::vector<Type> results = view.result.leaves();
  for (std::size_t i = 0; i < view.operands.size(); ++i) {
    if (parts_are_contiguous(view.operands[i].dims(), dim)) continue;
    const std::int64_t operand = view.operands[i].byte_size();
    const std::int64_t bytes = kind == CollectiveKind::kAllGather       ? results[i].byte_size()
                               : kind == CollectiveKind::kReduceScatter ? operand
                                                                        : 2 * operand;
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

std::int64_t scratch_bytes(const OpView& view, const std::vector<NestedSchedule>& nested) {
  if (view.op.role == Role::kCollective) return collective_scratch(view);
  std::int64_t most = 0;
  for (const auto& one : nested) most = std::max(most, one.schedule->arena_bytes);
  return view.op.role == Role::kWhile ? kPredicateBytes + most : most;
}

}  // namespace tessera::schedule

namespace tessera {

std::vector<std::size_t> packed_operands(const OpView& collective) {
  std::vector<std::size_t> out;
  if (!collective.op.exchanges_each_operand) return out;
  for (std::size_t i = 0; i < collective.operands.size(); ++i) {
    const Type& operand = collective.operands[i];
    if (operand.dtype() != collective.operands[0].dtype()) return {};
    if (operand.byte_size() > 0 && operand.byte_size() <= kMostPackedBytes) out.push_back(i);
  }
  if (out.size() < 2) out.clear();
  return out;
}

}  // namespace tessera
