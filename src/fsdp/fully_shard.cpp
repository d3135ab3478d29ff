// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/stack.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

constexpr const char* kRootUnit = "root";

struct Axis {
  Mesh mesh;
  int index = 0;
};

Axis sharding_axis(const FsdpOptions& options) {
  Mesh mesh = options.mesh ? *options.mesh : default_mesh();
  if (!options.axis.empty()) return {mesh, mesh.axis_index(options.axis)};
  for (const char* name : {"fsdp", "data"})
    if (mesh.has_axis(name)) return {mesh, mesh.axis_index(name)};
  fail("FSDP shards over an axis called fsdp or data; {} has neither (name another by .axis)", mesh.str());
}

void check_unwrapped(nn::Module& module) {
  for (const auto& [path, child] : module.named_modules())
    require(child->unit().empty(), "{} is already an FSDP unit; wrap a module once",
            [&] { return path.empty() ? std::string(module.class_name()) : path; });
}

void check_types(const MixedPrecision& types) {
  for (const auto& type : {types.param_dtype, types.reduce_dtype})
    require(!type || is_float(*type), "mixed_precision takes floating-point types, got {}",
            [&] { return dtype_name(*type); });
  require(
      !types.reduce_dtype || (types.param_dtype && dtype_size(*types.param_dtype) <= dtype_size(*types.reduce_dtype)),
      "mixed_precision: reduce_dtype {} needs a param_dtype that is no wider",
      [&] { return dtype_name(*types.reduce_dtype); });
}

// Returns the unit of a parameter: the innermost wrapped module that contains it.
std::string unit_of(const std::string& path, const std::vector<nn::NamedModule>& wrapped) {
  std::string best;
  for (const auto& [prefix, module] : wrapped)
    if (path.size() > prefix.size() && path.compare(0, prefix.size(), prefix) == 0 && path[prefix.size()] == '.' &&
        prefix.size() > best.size())
      best = prefix;
  return best.empty() ? kRootUnit : best;
}

// Returns the innermost module that contains both paths: `h.0` for `h.0.attn.weight` and `h.0.mlp.weight`.
std::string common_module(const std::string& a, const std::string& b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i)
    if (a[i] == '.') end = i;
  return a.substr(0, end);
}

// Returns the unit of each parameter. A tied parameter belongs to the innermost unit that contains all of its users, so
// that it is gathered once for all of them.
std::map<const TensorImpl*, std::string> assign_units(nn::Module& root, const std::vector<nn::NamedModule>& wrapped) {
  std::map<const TensorImpl*, std::string> modules;
  for (const auto& parameter : root.all_parameter_paths()) {
    const auto [entry, fresh] = modules.try_emplace(&parameter.tensor.impl(), parameter.name);
    if (!fresh) entry->second = common_module(entry->second, parameter.name) + ".";
  }
  std::map<const TensorImpl*, std::string> units;
  for (const auto& [key, path] : modules) units[key] = unit_of(path, wrapped);
  return units;
}

PartitionSpec with_minor_axis(const Sharding& before, std::size_t dim, const std::string& axis) {
  std::vector<PartitionSpec::Entry> entries;
  for (const auto& dim : before.dims) {
    SpecEntry names;
    for (const auto& ref : dim.axes) names.push_back(before.mesh.axis_text(ref));
    entries.emplace_back(std::move(names));
  }
  entries[dim].axes.push_back(axis);
  return PartitionSpec(std::move(entries));
}

void shard_parameter(Tensor parameter, const Axis& axis, const std::string& unit, const FsdpOptions& options) {
  TensorImpl& variable = parameter.impl();
  require(!variable.has_optimizer_state, "{} already has optimizer state; wrap the model before making the optimizer",
          parameter.name());
  const MixedPrecision& types = options.mixed_precision;
  if (types.param_dtype) variable.compute_dtype = types.param_dtype;
  const Sharding gathered = parameter.sharding().value_or(Sharding::replicated(axis.mesh, parameter.ndim()));
  require(gathered.mesh == axis.mesh, "{} is sharded on {}, but FSDP uses {}; use the same mesh", parameter.name(),
          gathered.mesh, axis.mesh);
  const MeshAxis& mesh_axis = at(axis.mesh.axes(), axis.index);
  const std::size_t dim = stack_count(parameter) > 0 ? 1 : 0;  // each variable of a stack is sharded along its dim 0
  if (parameter.ndim() <= static_cast<int>(dim) || mesh_axis.size == 1) return;
  clear_sharding(parameter);
  mark_sharding(parameter, axis.mesh, with_minor_axis(gathered, dim, mesh_axis.name));
  const bool stays = unit == kRootUnit && options.disable_reshard_on_root;
  variable.unshard = std::make_shared<const Unshard>(
      Unshard{unit, gathered, options.reshard_after_forward && !stays, types.reduce_dtype});
}

}  // namespace

std::vector<FsdpUnit> fully_shard(nn::Module& module, const FsdpOptions& options) {
  const Axis axis = sharding_axis(options);
  check_unwrapped(module);
  check_types(options.mixed_precision);
  const WrapPolicy policy = options.auto_wrap_policy ? options.auto_wrap_policy : default_wrap_policy(module);
  auto wrapped = modules_to_wrap(module, policy);
  const auto unit_names = assign_units(module, wrapped);
  std::erase_if(wrapped, [&](const nn::NamedModule& unit) {  // all its weights are tied to weights of other units
    return std::none_of(unit_names.begin(), unit_names.end(),
                        [&](const auto& entry) { return entry.second == unit.path; });
  });
  if (axis.mesh.device_count() == device_count()) set_default_mesh(axis.mesh);

  std::vector<FsdpUnit> units{{kRootUnit, std::string(module.class_name()), {}, 0, 0, 0}};
  module.set_unit(kRootUnit);
  for (const auto& [path, child] : wrapped) {
    child->set_unit(path);
    units.push_back({path, std::string(child->class_name()), {}, 0, 0, 0});
  }
  for (const auto& parameter : module.named_parameters()) {
    const std::string& name = unit_names.at(&parameter.tensor.impl());
    shard_parameter(parameter.tensor, axis, name, options);
    FsdpUnit& unit = *std::find_if(units.begin(), units.end(), [&](const FsdpUnit& u) { return u.name == name; });
    const Type& type = parameter.tensor.type();
    unit.parameters.push_back(parameter.name);
    unit.elements += type.element_count();
    const auto sharding = parameter.tensor.sharding();
    const TensorImpl& variable = parameter.tensor.impl();
    unit.bytes_per_device += (sharding ? shard_type(type, *sharding) : type).byte_size();
    const auto gathered = variable.unshard ? variable.unshard->gathered : sharding;  // at most sharded over other axes
    const Type in_use = Type::array(variable.compute_dtype.value_or(type.dtype()), type.dims());
    unit.bytes += (gathered ? shard_type(in_use, *gathered) : in_use).byte_size();
  }
  return units;
}

void shard_input(const Tensor& input, const FsdpOptions& options) {
  const Node& node = *input.impl().node;
  if (input.ndim() == 0 || !node.has_data() || node.sharding || input.impl().has_optimizer_state) return;
  const Axis axis = sharding_axis(options);
  if (axis.mesh.device_count() != device_count()) return;
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(input.ndim()));
  for (int a = 0; a < isize(axis.mesh.axes()); ++a) {
    const std::string& name = at(axis.mesh.axes(), a).name;
    if (name == "data" || name == "fsdp" || a == axis.index) entries.front().axes.push_back(name);
  }
  mark_sharding(input, axis.mesh, PartitionSpec(std::move(entries)));
}

}  // namespace tessera
