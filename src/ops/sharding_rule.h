// SPDX-License-Identifier: Apache-2.0
// Shardy's rule of a custom-call, which gives the factors of its dims: `xla.sdy.sharding_rule`.
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
  std::string tail;  // the text after the sizes, verbatim

  [[nodiscard]] std::string str() const;
};

/// Throws an Error (which quotes the rule) unless it is well formed and its sizes are those of the operands and
/// results.
ShardingRule parse_sharding_rule(std::string_view text, const OpView& view);
/// The same rule for smaller operands and results. In a dim of several factors, only the major one may be smaller.
ShardingRule with_local_sizes(ShardingRule rule, const std::vector<Type>& operands, const std::vector<Type>& results);
/// Evaluates a function with these factors: each result is the product of the operands' elements, summed over the
/// factors that the result does not have.
Literal evaluate_sharding_rule(const ShardingRule& rule, const EvalContext& context);

}  // namespace tessera::rows
