// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/update_slice.h"

#include "tessera/ops/indexing.h"
#include "tracing/recorded.h"

namespace tessera {

Tensor update_slice(const Tensor& x, const Tensor& update, const Tensor& start, int dim, std::source_location where) {
  return in_context("update_slice", {&x, &update, &start}, where, [&] {
    return trace().record(where, [&](Builder& builder) {
      const Value to = operand_value(x);
      const Value first = operand_value(start);
      require(first.type().ndim() == 0 && is_integer(first.type().dtype()),
              "the start must be a scalar of an integer type, got {}", first.type());
      std::vector<Value> starts(to.type().dims().size(), ops::full(builder, first.type(), 0));
      at(starts, checked_dim(to.type(), dim)) = first;
      return ops::dynamic_update_slice(to, operand_value(update), starts);
    });
  });
}

}  // namespace tessera
