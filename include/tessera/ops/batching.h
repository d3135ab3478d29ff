// SPDX-License-Identifier: Apache-2.0
// The form of an op for several examples, for vmap: operands may have a further dim 0, with one element for each
// example, and all leaves of the result have it. The form is `OpDef::batch` of the row.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera {

/// The arguments of OpDef::batch. At least one operand is batched.
struct BatchContext {
  Builder& builder;
  const OpView& view;            // of one example
  std::vector<Value> operands;   // with the further dim 0 if they are batched
  std::vector<bool> is_batched;  // false: the operand is the same for all examples
  std::int64_t examples = 0;     // the size of the further dim
  std::vector<ComputationId> called{};

  [[nodiscard]] Value operand(int i) const { return at(operands, i); }
  [[nodiscard]] bool batched(int i) const { return at(is_batched, i); }
};

/// The type with a further dim 0 of size `examples` in each leaf. The leaves are arrays.
Type with_examples(const Type& type, std::int64_t examples);
/// The same value for each example.
Value for_each_example(Value x, std::int64_t examples);
/// Emits the instruction for several examples. Null if its row has no form for these operands.
Value emit_batched(BatchContext& context);

}  // namespace tessera
