// SPDX-License-Identifier: Apache-2.0
#include "op_kinds.h"

#include <algorithm>
#include <iterator>

#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera::schedule {
namespace {

// Fused tiles hold real numbers, and only kernels for these read views.
bool is_real(const OpView& view) {
  const auto is_other = [](const Type& type) {
    return type.is_array() && (is_complex(type.dtype()) || is_narrow(type.dtype()));
  };
  return !is_other(view.result) && std::none_of(view.operands.begin(), view.operands.end(), is_other);
}

bool same_dims(const OpView& view) {
  return std::all_of(view.operands.begin(), view.operands.end(), [&](const Type& operand) {
    return operand.is_array() && (operand.dims() == view.result.dims() || operand.ndim() == 0);
  });
}

}  // namespace

OpKind kind_of(const OpView& view) {
  switch (view.op.role) {
    case Role::kParameter: return OpKind::kParameter;
    case Role::kConstant: return OpKind::kConstant;
    case Role::kTuple:
    case Role::kGetTupleElement:
    case Role::kOptBarrier: return OpKind::kAlias;
    case Role::kShardingMark: return is_identity_call(view) ? OpKind::kAlias : OpKind::kPlain;
    case Role::kCopy: return view.result.is_array() ? OpKind::kReshape : OpKind::kAlias;
    default: break;
  }
  if (!view.result.is_array()) return OpKind::kPlain;
  if (&view.op == &rows::kIota) return OpKind::kIota;
  if (view.op.movement == Movement::kReshape) return OpKind::kReshape;
  if (view.op.movement != Movement::kNone) return is_real(view) ? OpKind::kView : OpKind::kPlain;
  if (view.op.elementwise && same_dims(view) && is_real(view)) return OpKind::kElementwise;
  if (&view.op == &rows::kBitcastConvert && !is_narrow(view.operands[0].dtype()) && !is_narrow(view.result.dtype()))
    return OpKind::kReshape;  // a narrow element takes a byte regardless of its number of bits
  return OpKind::kPlain;
}

bool reads_from_the_beginning(const OpView& view) { return view.op.reads_from_start && is_real(view); }
std::int64_t columns_of(const OpView& view) {
  if (&view.op != &rows::kReduce || view.operands.size() != 2 || !is_real(view) || view.called.size() != 1) return 0;
  const auto reduction = reduction_of(*view.called[0]);
  if (!reduction || !is_float(view.result.dtype()) || *reduction == Reduction::kAnd || *reduction == Reduction::kOr)
    return 0;
  const Dims& dims = view.operands[0].dims();
  std::int64_t columns = 1;
  for (std::int64_t d = 0; d < isize(dims); ++d) {
    const Dims& reduced = view.as<DimensionsAttributes>().dimensions;
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    if (is_reduced) columns *= at(dims, d);
    if (!is_reduced && columns > 1 && at(dims, d) > 1) return 0;  // a dim inside of a reduced one is kept
  }
  return columns > 1 && columns <= kMostColumns && view.result.element_count() > 0 ? columns : 0;
}
bool adds_up(const OpView& view) {
  return &view.op == &rows::kAdd && view.result.is_array() && view.result.dtype() == DType::kF32 && same_dims(view);
}
bool writes_strides(const OpView& view) {
  return view.op.writes_strides && is_real(view) && view.operands[0].dtype() == view.operands[1].dtype();
}

}  // namespace tessera::schedule
