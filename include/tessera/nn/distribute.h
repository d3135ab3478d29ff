// SPDX-License-Identifier: Apache-2.0
// Shards the parameters of a module, as DTensor's distribute_module.
//
//   nn::distribute_module(model, mesh, [](const std::string& name, nn::Module& module, const Mesh& mesh) {
//     if (module.class_name() == "Linear") mark_sharding(module.parameter("weight"), mesh, {{}, "model"});
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/sharding/meshes.h"
#include "tessera/frontend/sharding/use_spmd.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// Shards the parameters of one module (not those of its submodules) over the mesh. `name` is the path of the module;
/// "" for the module itself.
using PartitionFunction = std::function<void(const std::string& name, Module& module, const Mesh& mesh)>;

/// Calls `partition` for the module and all its submodules. Parameters and buffers that then have no sharding become
/// replicated over the mesh. Errors: those of mark_sharding().
inline void distribute_module(Module& module, const Mesh& mesh, const PartitionFunction& partition = {}) {
  if (partition)
    for (const NamedModule& each : module.named_modules()) partition(each.path, *each.module, mesh);
  const auto replicate = [&](const std::vector<NamedParameter>& variables) {
    for (const NamedParameter& variable : variables)
      if (!variable.tensor.sharding()) {
        std::vector<PartitionSpec::Entry> none(static_cast<std::size_t>(variable.tensor.ndim()));
        mark_sharding(variable.tensor, mesh, PartitionSpec(std::move(none)));
      }
  };
  replicate(module.named_parameters());
  replicate(module.named_buffers());
}

/// In place of a partition function: no parameter is annotated, and auto mode chooses their shardings. PyTorch/XLA
/// calls it auto_policy.
enum class AutoPolicy : std::uint8_t { kAuto };
inline constexpr AutoPolicy kAutoPolicy = AutoPolicy::kAuto;

/// Turns auto mode on (use_spmd.h), with `mesh` as the global mesh. Error if its size is not the number of devices.
inline void distribute_module(Module& /*module*/, const Mesh& mesh, AutoPolicy /*policy*/) {
  set_global_mesh(mesh);
  use_spmd({.automatic = true});
}

}  // namespace tessera::nn
