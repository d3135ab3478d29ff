// SPDX-License-Identifier: Apache-2.0
#include "collective_pipeline.h"

#include "tessera/passes/passes.h"

namespace tessera {

void add_collective_passes(Pipeline& pipeline, const CollectivePassOptions& options) {
  pipeline.add("simplify-collectives", simplify_collectives)
      .add("reassociate-reductions", [&](const Program& p) { return reassociate_reductions(p, options); })
      .add("hoist-collectives", [&](const Program& p) { return hoist_collectives(p, options); })
      .add("share-gathers", [&](const Program& p) { return share_gathers(p, options); })
      .add("combine-collectives", [&](const Program& p) { return combine_collectives(p, options); });
  if (options.make_asynchronous) pipeline.add("make-asynchronous", make_asynchronous);
}

Program optimize_collectives(const Program& program, const CollectivePassOptions& options,
                             const std::vector<std::string>& skip,
                             const std::function<void(const std::string& pass, const Program&)>& dump) {
  Pipeline pipeline("optimize-collectives", {.skip = skip, .dump = dump});
  pipeline.add("make-synchronous", make_synchronous).add("merge-duplicates", merge_duplicates);
  add_collective_passes(pipeline, options);
  return pipeline.run(program);
}

}  // namespace tessera
