// SPDX-License-Identifier: Apache-2.0
//   %p = u32[] partition-id()      %r = u32[] replica-id()
#include "row_support.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace rows {
namespace {

Type infer_device_id(const OpView& view) { return declared_or(view, Type::scalar(DType::kU32)); }
Literal evaluate_partition(const EvalContext& context) {
  return Literal::scalar(static_cast<std::uint32_t>(context.partition));
}
// Programs have one replica: devices differ by partition.
Literal evaluate_replica(const EvalContext&) { return Literal::scalar(std::uint32_t{0}); }

}  // namespace

const OpDef kPartitionId{
    .name = "partition-id",
    .role = Role::kPartitionId,
    .infer = infer_device_id,
    .evaluate = evaluate_partition,
    .gradient_kind = GradientKind::kZero,
};

const OpDef kReplicaId{
    .name = "replica-id",
    .infer = infer_device_id,
    .evaluate = evaluate_replica,
    .gradient_kind = GradientKind::kZero,
};

}  // namespace rows

Value ops::partition_id(Builder& builder) { return builder.emit(rows::kPartitionId, {}); }

}  // namespace tessera
