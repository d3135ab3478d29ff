// SPDX-License-Identifier: Apache-2.0
#include "strategy/work_seconds.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/ops/attention.h"

namespace tessera {
namespace {

bool has_factor(const TensorFactors& tensor, int factor) {
  return std::any_of(tensor.begin(), tensor.end(),
                     [&](const DimFactors& dim) { return std::find(dim.begin(), dim.end(), factor) != dim.end(); });
}

DType work_type(const OpView& view) {
  const auto of = [](const Type& type) { return type.is_array() ? type.dtype() : DType::kF32; };
  return view.operands.empty() ? of(view.result) : of(view.operands.front());
}

}  // namespace

WorkClass work_class(const FactorMap& map, const Strategy& strategy) {
  if (map.operands.size() < 2) return WorkClass::kOther;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t summed = 1;
  bool is_product = false;
  for (int f = 0; f < isize(map.factors); ++f) {
    const std::int64_t size = ceil_div(at(map.factors, f).size, f < isize(strategy) ? tiles_of(strategy, f) : 1);
    const bool in_left = has_factor(map.operands[0], f);
    const bool in_right = has_factor(map.operands[1], f);
    if (in_left && in_right && at(map.factors, f).kind == FactorKind::kReduce) {
      is_product = true;
      summed *= size;
    } else if (in_left != in_right) {
      (in_left ? rows : columns) *= size;
    }
  }
  if (!is_product) return WorkClass::kOther;
  return std::min({rows, columns, summed}) >= MachineModel::kWideExtent ? WorkClass::kWideProduct
                                                                        : WorkClass::kNarrowProduct;
}

double work_seconds(const OpView& view, const FactorMap& map, const Strategy& strategy, double flops, double bytes,
                    const MachineModel& machine) {
  const WorkClass kind = is_attention(view.op) ? WorkClass::kWideProduct : work_class(map, strategy);
  return flops / machine.flops_per_second(work_type(view), kind) + bytes / machine.memory_bytes_per_second();
}

}  // namespace tessera
