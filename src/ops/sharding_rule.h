// SPDX-License-Identifier: Apache-2.0
// Shardy's rule of a custom-call: which factors its dims have, `xla.sdy.sharding_rule`.
//
//   #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=6, k=4} reduction={k}>
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "row_support.h"

namespace tessera::rows {

struct ShardingRule {
  std::vector<std::string> symbols;  // of the factors
  FactorMap map;
  std::string tail;  // what stands behind the sizes, verbatim

  [[nodiscard]] std::string str() const;
};

/// Error (quoting the rule) unless it is well formed and its sizes are those of the operands and results.
ShardingRule parse_sharding_rule(std::string_view text, const OpView& view);
/// The same rule of smaller operands and results. A dim of several factors may have lost from its major one only.
ShardingRule with_local_sizes(ShardingRule rule, const std::vector<Type>& operands, const std::vector<Type>& results);
/// A function that has these factors: each result the product of the operands' elements, summed over the factors it lacks.
Literal evaluate_sharding_rule(const ShardingRule& rule, const EvalContext& context);

}  // namespace tessera::rows
