// SPDX-License-Identifier: Apache-2.0
//   %y = f32[3,4]{1,0} bitcast(%x)       f32[4,3]{0,1}: the same bytes in memory, read in the result's layout
// In compiled modules, it replaces reshapes, transposes and bitcast-converts that move no data.
#include <cstring>

#include "row_support.h"
#include "tessera/ops/rows.h"

namespace tessera::rows {
namespace {

bool is_identity_bitcast(const OpView& view) {
  return view.operands[0] == view.result && view.operands[0].layout() == view.result.layout();
}

Type infer_bitcast(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const Type& declared = declared_array(view);
  require(x.byte_size() == declared.byte_size(), "{} has {} bytes, {} has {}", x, x.byte_size(), declared,
          declared.byte_size());
  return declared;
}

// The strides, in elements, of dims in a layout (minor to major).
Dims memory_strides(const Type& type) {
  if (type.layout().empty()) return row_major_strides(type.dims());
  Dims strides(type.dims().size(), 1);
  std::int64_t step = 1;
  for (const auto d : type.layout()) {
    at(strides, d) = step;
    step *= at(type.dims(), d);
  }
  return strides;
}

Literal evaluate_bitcast(const EvalContext& context) {
  const Literal& x = context.operands[0];
  const Type& from = context.view.operands[0];
  const Type& to = context.view.result;
  Literal memory(Type::array(from.dtype(), {from.element_count()}));
  strided_copy(x, {0, row_major_strides(from.dims())}, memory, {0, memory_strides(from)}, from.dims());
  Literal recast(Type::array(to.dtype(), {to.element_count()}));
  if (!memory.bytes().empty()) std::memcpy(recast.mutable_bytes().data(), memory.bytes().data(), memory.bytes().size());
  Literal out(to);
  strided_copy(recast, {0, memory_strides(to)}, out, {0, row_major_strides(to.dims())}, to.dims());
  return out;
}

FactorMap factors_bitcast(const OpView& view) {
  if (is_identity_bitcast(view)) return elementwise_factors(view);
  FactorMap map;
  map.operands = {add_factors(map, view.operands[0], FactorKind::kBlocked)};
  map.results = {add_factors(map, view.result, FactorKind::kBlocked)};
  return map;
}

Linearity linearity_bitcast(const OpView& view, int) {
  return view.operands[0].dtype() == view.result.dtype() ? Linearity::kAny : Linearity::kNone;
}

}  // namespace

const OpDef kBitcast{.name = "bitcast",
                     .min_operands = 1,
                     .max_operands = 1,
                     .infer = infer_bitcast,
                     .type_inferable = false,
                     .evaluate = evaluate_bitcast,
                     .factors = factors_bitcast,
                     .linearity = linearity_bitcast,
                     .localize = localize_declared,
                     .flops = no_flops};

}  // namespace tessera::rows
