// SPDX-License-Identifier: Apache-2.0
// Subscripts of tensors. Reading is one slice and one gather; writing is one scatter and one dynamic-update-slice.
#include "tessera/frontend/tensor/subscript.h"

#include "tensor/functions/positions.h"
#include "tensor/functions/selection.h"
#include "tensor/number_types.h"
#include "tessera/frontend/tensor/writes.h"
#include "tessera/ops/elementwise.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

std::source_location where_of(std::span<const Index> indices) {
  return indices.empty() ? std::source_location() : indices.front().where();
}

Value combined(Value old, Value values, Reduction reduction) {
  switch (reduction) {
    case Reduction::kProduct: return ops::multiply(old, values);
    case Reduction::kMin: return ops::minimum(old, values);
    case Reduction::kMax: return ops::maximum(old, values);
    default: return ops::add(old, values);
  }
}

// x with `given` at the selected elements, or with these elements combined with `given` by a reduction.
Tensor written(std::string_view name, const Operand& x, std::span<const Index> indices, const Operand& given,
               std::optional<Reduction> reduction) {
  return recorded(name, x, [&](Value v) {
    const Selection selection = selection_of(v.type(), indices);
    const DType dtype = v.type().dtype();
    if (selection.ids.empty()) {
      const Value values = values_of(given, Type::array(dtype, selection.sizes));
      return with_part(v, selection, reduction ? combined(part_of(v, selection), values, *reduction) : values);
    }
    const Value part = part_of(v, selection);
    const Positions positions = positions_of(part.type(), selection.ids);
    const Value values = values_of(given, Type::array(dtype, element_dims(part.type(), positions)));
    return with_part(v, selection, scatter_at(part, positions, values, reduction));
  });
}

}  // namespace

Index::Index(const Tensor& ids, std::source_location where)
    : kind_(Kind::kIds), ids_(std::make_shared<const Tensor>(ids)), where_(where) {}

Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  const std::span all(indices.begin(), indices.size());
  return recorded("operator[]", {*this, where_of(all)}, [&](Value x) {
    const Selection selection = selection_of(x.type(), all);
    const Value part = part_of(x, selection);
    return selection.ids.empty() ? part : gather_at(part, positions_of(part.type(), selection.ids));
  });
}

ElementsAt Tensor::at(const Index& index) const { return {*this, {index}}; }
ElementsAt Tensor::at(std::initializer_list<Index> indices) const { return {*this, indices}; }

Tensor ElementsAt::set(const Operand& values) const {
  return written("at().set", {x_, where_of(indices_)}, indices_, values, std::nullopt);
}
Tensor ElementsAt::add(const Operand& values) const {
  return written("at().add", {x_, where_of(indices_)}, indices_, values, Reduction::kSum);
}
Tensor ElementsAt::multiply(const Operand& values) const {
  return written("at().multiply", {x_, where_of(indices_)}, indices_, values, Reduction::kProduct);
}
Tensor ElementsAt::min(const Operand& values) const {
  return written("at().min", {x_, where_of(indices_)}, indices_, values, Reduction::kMin);
}
Tensor ElementsAt::max(const Operand& values) const {
  return written("at().max", {x_, where_of(indices_)}, indices_, values, Reduction::kMax);
}

Tensor index_put(Operand x, const std::vector<Index>& indices, Operand values, IndexPutOptions options) {
  return written("index_put", x, indices, values, options.accumulate ? std::optional(Reduction::kSum) : std::nullopt);
}

}  // namespace tessera
