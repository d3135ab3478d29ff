// SPDX-License-Identifier: Apache-2.0
// The k largest or smallest elements of every line: the part that op topk and custom-call TopK share.
#pragma once

#include "row_support.h"

namespace tessera::rows {

/// A tuple of values and s32 indices of the types in `result`.
Literal top_k(const Literal& x, std::int64_t k, bool largest, const Type& result);
FactorMap top_k_factors(const OpView& view);

}  // namespace tessera::rows
