// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel.h"

#include <algorithm>

#include "tessera/ops/rows.h"

namespace tessera {
namespace {

struct MakerRow {
  const OpDef* op;
  KernelRef (*make)(const OpView&, const OperandViews&);
};
// Elementwise ops are not in this table: they run as fused groups (fused_kernel.h), even if the group has one op.
constexpr MakerRow kMakers[] = {
    {&rows::kBroadcast, make_copy},
    {&rows::kTranspose, make_copy},
    {&rows::kSlice, make_copy},
    {&rows::kReverse, make_copy},
    {&rows::kIota, make_iota},
    {&rows::kPad, make_pad},
    {&rows::kConcatenate, make_concatenate},
    {&rows::kDynamicSlice, make_dynamic_slice},
    {&rows::kDynamicUpdateSlice, make_dynamic_update_slice},
    {&rows::kGather, make_gather},
    {&rows::kScatter, make_scatter},
    {&rows::kReduce, make_reduce},
    {&rows::kDot, make_dot},
    {&rows::kAttention, make_attention},
    {&rows::kAttentionBackward, make_attention},
    {&rows::kConvolution, make_convolution},
    {&rows::kReduceWindow, make_reduce_window},
    {&rows::kSelectAndScatter, make_select_and_scatter},
    {&rows::kSort, make_sort},
    {&rows::kTopK, make_topk},
};

}  // namespace

KernelRef make_kernel(const OpView& view, const OperandViews& views) {
  const auto is_other = [](const Type& type) {
    return type.is_array() && (is_complex(type.dtype()) || is_narrow(type.dtype()));
  };
  if (is_other(view.result) || std::any_of(view.operands.begin(), view.operands.end(), is_other)) return nullptr;
  for (const MakerRow& row : kMakers)
    if (row.op == &view.op) return row.make(view, views);
  return nullptr;
}

}  // namespace tessera
