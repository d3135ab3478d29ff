// SPDX-License-Identifier: Apache-2.0
#include "check/evaluate_global.h"

#include <algorithm>

#include "normalize/manual.h"

namespace tessera {
namespace {

bool is_manual_somewhere(const Program& program) {
  return has_manual_regions(program) ||
         std::any_of(program.computations.begin(), program.computations.end(), [](const ComputationRef& computation) {
           return std::any_of(computation->instructions.begin(), computation->instructions.end(), is_manual);
         });
}

}  // namespace

std::vector<Literal> evaluate_global(const Program& program, const std::vector<Literal>& arguments,
                                     const EvaluateOptions& options) {
  if (!is_manual_somewhere(program)) return {evaluate(program, arguments, options)};
  const std::vector<std::vector<Literal>> everywhere(static_cast<std::size_t>(program.num_partitions), arguments);
  std::vector<Literal> results = evaluate_lockstep(program, everywhere, options);
  const auto first = results.front().leaves();
  const bool is_one = std::all_of(results.begin(), results.end(), [&](const Literal& result) {
    const auto own = result.leaves();
    return std::equal(own.begin(), own.end(), first.begin(), [](const Literal& a, const Literal& b) {
      return !a.type().is_array() || std::ranges::equal(a.bytes(), b.bytes());
    });
  });
  if (is_one) results.resize(1);
  return results;
}

}  // namespace tessera
