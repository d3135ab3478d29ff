// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/strategy.h"

#include <vector>

#include "tessera/base/text.h"

namespace tessera::nn {
namespace {

thread_local const TPUStrategy* current_strategy = nullptr;  // every rank has a thread of its own

PartitionSpec spec_with(std::size_t ndim, std::size_t dim, const std::string& axis) {
  std::vector<PartitionSpec::Entry> entries(ndim);
  if (dim < ndim) entries[dim] = PartitionSpec::Entry(SpecEntry{axis});
  return PartitionSpec(std::move(entries));
}

PartitionSpec replicated(std::size_t ndim) { return spec_with(ndim, ndim, ""); }

}  // namespace

VariablePolicy replicated_parameters() {
  return [](const NewVariable& variable, const Mesh& /*mesh*/) { return replicated(variable.dims.size()); };
}

VariablePolicy sharded_parameters(std::string axis, std::int64_t least_elements) {
  return [axis = std::move(axis), least_elements](const NewVariable& variable, const Mesh& mesh) {
    const Dims& dims = variable.dims;
    const std::int64_t size = mesh.full_axis(axis).size;
    std::size_t best = dims.size();
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d] % size == 0 && (best == dims.size() || dims[d] > dims[best])) best = d;
    if (variable.is_buffer || product(dims) < least_elements) best = dims.size();
    return spec_with(dims.size(), best, axis);
  };
}

StrategyScope::StrategyScope(const TPUStrategy& strategy) : outer_(std::exchange(current_strategy, &strategy)) {}
StrategyScope::~StrategyScope() { current_strategy = outer_; }

void TPUStrategy::apply(const NewVariable& variable, const Tensor& tensor) const {
  if (tensor.sharding()) return;
  if (const auto spec = policy_(variable, mesh_)) mark_sharding(tensor, mesh_, *spec);
}

void detail::apply_strategy(const Module& module, const std::string& name, const Tensor& tensor, bool is_buffer) {
  if (current_strategy != nullptr) current_strategy->apply({module, name, tensor.dims(), is_buffer}, tensor);
}

}  // namespace tessera::nn
