// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/functions.h"
#include "tracing/recorded.h"

namespace tessera {

Tensor embedding(Operand table, Operand ids, std::int64_t padding_idx) {
  in_context("embedding", {&table.tensor(), &ids.tensor()}, ids.where(), [&] {
    const Type& type = table.tensor().type();
    require(type.ndim() == 2 && padding_idx >= 0 && padding_idx < type.dim(0),
            "padding_idx {} is not a row of the table {}", padding_idx, type);
  });
  const Tensor rows = embedding(table, ids);
  const Tensor fixed = recorded("embedding", Operand(rows, ids.where()), [](Value v) { return stop_gradient(v); });
  const Tensor is_padding = ids.tensor() == Operand(static_cast<double>(padding_idx), ids.where());
  return where(is_padding.unsqueeze(-1), fixed, rows);
}

}  // namespace tessera
