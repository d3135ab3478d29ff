// SPDX-License-Identifier: Apache-2.0
#include "check/evaluate_global.h"

#include "normalize/manual.h"

namespace tessera {

Literal evaluate_global(const Program& program, const std::vector<Literal>& arguments, const EvaluateOptions& options) {
  if (!has_manual_regions(program)) return evaluate(program, arguments, options);
  const std::vector<std::vector<Literal>> everywhere(static_cast<std::size_t>(program.num_partitions), arguments);
  return evaluate_lockstep(program, everywhere, options).front();
}

}  // namespace tessera
