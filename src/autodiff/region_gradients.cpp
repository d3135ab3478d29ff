// SPDX-License-Identifier: Apache-2.0
#include "region_gradients.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"

namespace tessera::autodiff {

void RegionGradients::extend(Id last) {
  for (Id id = isize(axes_); id <= last; ++id) {
    const Instruction& instruction = builder_[id];
    std::vector<AxisRef> axes;
    if (has_borders_)
      for (const Id operand : instruction.operands)
        for (const AxisRef& axis : at(axes_, operand))
          if (!overlaps_any(axes, axis)) axes.push_back(axis);
    const ManualBorder border = manual_border(instruction);
    if (const auto region = border == ManualBorder::kNone ? std::nullopt : region_of_border(instruction)) {
      has_borders_ = true;
      mesh_ = region->mesh;
      std::erase_if(axes, [&](const AxisRef& axis) { return overlaps_any(region->axes, axis); });
      if (border == ManualBorder::kEnter) axes.insert(axes.end(), region->axes.begin(), region->axes.end());
    }
    axes_.push_back(std::move(axes));
  }
}

Value RegionGradients::for_value(Id value, Value gradient) {
  extend(std::max(value, gradient.id));
  std::vector<AxisRef> left = at(axes_, gradient.id);
  std::erase_if(left, [&](const AxisRef& axis) { return overlaps_any(at(axes_, value), axis); });
  if (left.empty()) return gradient;
  const ManualRegion region{mesh_, left};
  const Value total = ops::sum_within(gradient, {mesh_.groups(left)});
  return ops::leave_region(total, gradient.type(), Sharding::replicated(mesh_, gradient.type().ndim()), region);
}

}  // namespace tessera::autodiff
