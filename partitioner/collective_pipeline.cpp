// SPDX-License-Identifier: Apache-2.0
#include "collective_pipeline.h"

#include "tessera/passes/passes.h"

namespace tessera {

void add_collective_passes(Pipeline& pipeline, const CollectivePassOptions& options) {
  pipeline.add("combine-collectives", [&](const Program& p) { return combine_collectives(p, options); });
}

Program optimize_collectives(const Program& program, const CollectivePassOptions& options,
                             const std::vector<std::string>& skip,
                             const std::function<void(const std::string& pass, const Program&)>& dump) {
  Pipeline pipeline("optimize-collectives", {.skip = skip, .dump = dump});
  add_collective_passes(pipeline, options);
  return pipeline.run(program);
}

}  // namespace tessera
