// SPDX-License-Identifier: Apache-2.0
#include "tessera/fsdp/spmd.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera {

FsdpOptions spmd_fsdp_options(const SpmdFsdpOptions& options) {
  FsdpOptions out;
  out.mesh = options.mesh ? *options.mesh : default_mesh();
  require(out.mesh->has_axis("fsdp"), "SpmdFullyShardedDataParallel needs a mesh with an axis fsdp; {} has none",
          out.mesh->str());
  if (!options.extra_data_axis.empty()) (void)out.mesh->axis_index(options.extra_data_axis);
  out.axis = "fsdp";
  out.auto_wrap_policy = options.auto_wrap_policy;
  out.auto_wrapper_callable = options.auto_wrapper_callable;
  out.shard_placement_fn = [](const nn::NamedParameter& parameter) -> std::optional<int> {
    const Dims& dims = parameter.tensor.dims();
    if (dims.empty()) return std::nullopt;
    return static_cast<int>(std::max_element(dims.begin(), dims.end()) - dims.begin());
  };
  return out;
}

std::vector<Tensor> with_sharded_rows(std::vector<Tensor> results, const SpmdFsdpOptions& options) {
  const Mesh mesh = options.mesh ? *options.mesh : default_mesh();
  if (mesh.device_count() != device_count()) return results;
  if (options.shard_output) {
    options.shard_output(results, mesh);
    return results;
  }
  SpecEntry axes;
  if (!options.extra_data_axis.empty()) axes.push_back(options.extra_data_axis);
  axes.emplace_back("fsdp");
  for (Tensor& result : results) {
    if (result.is_null() || result.ndim() == 0) continue;
    std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(result.ndim()));
    entries.front() = PartitionSpec::Entry(axes);
    result = with_sharding_constraint(result, mesh, PartitionSpec(std::move(entries)));
  }
  return results;
}

}  // namespace tessera
