// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "tessera/frontend/execution/initialize.h"
#include "tessera/fsdp/units.h"
#include "unit_names.h"

namespace tessera {

void materialize_module(nn::Module& module, const MaterializeCheck& check) {
  std::set<const TensorImpl*> wanted;
  for (const auto& each : module.named_modules()) {
    if (check && !check(*each.module)) continue;
    for (const auto& parameter : each.module->own_parameters()) wanted.insert(&parameter.tensor.impl());
    for (const auto& buffer : each.module->own_buffers()) wanted.insert(&buffer.tensor.impl());
  }
  const auto units = fsdp::assign_units(module, fsdp::units_below(module));
  std::vector<std::string> order;  // of the first parameters: the same on every rank
  std::map<std::string, std::vector<Tensor>> by_unit;
  for (const Tensor& parameter : module.parameters()) {
    if (!wanted.contains(&parameter.impl())) continue;
    const std::string& unit = units.at(&parameter.impl());
    if (by_unit[unit].empty()) order.push_back(unit);
    by_unit[unit].push_back(parameter);
  }
  for (const std::string& unit : order) initialize(by_unit.at(unit));
  std::vector<Tensor> buffers;
  for (const Tensor& buffer : module.buffers())
    if (wanted.contains(&buffer.impl())) buffers.push_back(buffer);
  initialize(buffers);
}

}  // namespace tessera
