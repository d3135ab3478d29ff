// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel.h"

#include <algorithm>

namespace tessera {
namespace {

struct MakerRow {
  std::string_view op;
  KernelRef (*make)(const OpView&, const OperandViews&);
};
// Elementwise ops are not here: they run as fused groups (fused_kernel.h), also alone.
constexpr MakerRow kMakers[] = {
    {"broadcast", make_copy},
    {"transpose", make_copy},
    {"slice", make_copy},
    {"reverse", make_copy},
    {"iota", make_iota},
    {"pad", make_pad},
    {"concatenate", make_concatenate},
    {"dynamic-slice", make_dynamic_slice},
    {"dynamic-update-slice", make_dynamic_update_slice},
    {"gather", make_gather},
    {"scatter", make_scatter},
    {"reduce", make_reduce},
    {"dot", make_dot},
    {"convolution", make_convolution},
    {"reduce-window", make_reduce_window},
    {"select-and-scatter", make_select_and_scatter},
};

}  // namespace

KernelRef make_kernel(const OpView& view, const OperandViews& views) {
  const auto is_other = [](const Type& type) {
    return type.is_array() && (is_complex(type.dtype()) || is_narrow(type.dtype()));
  };
  if (is_other(view.result) || std::any_of(view.operands.begin(), view.operands.end(), is_other)) return nullptr;
  for (const MakerRow& row : kMakers)
    if (row.op == view.op.name) return row.make(view, views);
  return nullptr;
}

}  // namespace tessera
