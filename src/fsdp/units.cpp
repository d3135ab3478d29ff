// SPDX-License-Identifier: Apache-2.0
#include "tessera/fsdp/fsdp.h"

#include <algorithm>
#include <set>

#include "choose_shard.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/sharding/placement.h"
#include "unit_names.h"

namespace tessera {
namespace {

// Returns the innermost unit that contains the parameter or module at `path`.
std::string unit_of(const std::string& path, const std::vector<nn::NamedModule>& units) {
  std::string best;
  for (const auto& [prefix, module] : units)
    if (path.size() > prefix.size() && path.compare(0, prefix.size(), prefix) == 0 && path[prefix.size()] == '.' &&
        prefix.size() > best.size())
      best = prefix;
  return best.empty() ? fsdp::kRootUnit : best;
}

// Returns the innermost module that contains both paths: `h.0` for `h.0.attn.weight` and `h.0.mlp.weight`.
std::string common_module(const std::string& a, const std::string& b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i)
    if (a[i] == '.') end = i;
  return a.substr(0, end);
}

// The parameters below a module under the first name of each module: a module with two names is no tied parameter.
void first_paths(const nn::Module& module, const std::string& path, std::set<const nn::Module*>& visited,
                 std::vector<nn::NamedParameter>& out) {
  if (!visited.insert(&module).second) return;
  const auto below = [&](const std::string& name) {
    return path.empty() ? name : name.empty() ? path : path + "." + name;
  };
  for (const auto& own : module.own_parameters()) out.push_back({below(own.name), own.tensor, own.exported_dims});
  for (const auto& [name, child] : module.children()) first_paths(*child, below(name), visited, out);
}

void add_parameter(FsdpUnit& unit, const nn::NamedParameter& parameter) {
  const Type& type = parameter.tensor.type();
  const TensorImpl& variable = parameter.tensor.impl();
  unit.parameters.push_back(parameter.name);
  unit.elements += type.element_count();
  if (!parameter.tensor.requires_grad()) unit.frozen += type.element_count();
  const auto sharding = parameter.tensor.sharding();
  unit.bytes_per_device += (sharding ? shard_type(type, *sharding) : type).byte_size();
  if (sharding && variable.unshard)
    unit.padding +=
        fsdp::padded_elements(type, *sharding) * (type.byte_size() / std::max<std::int64_t>(type.element_count(), 1));
  const auto gathered = variable.unshard ? variable.unshard->gathered : sharding;  // at most sharded over other axes
  const Type in_use = Type::array(variable.compute_dtype.value_or(type.dtype()), type.dims());
  unit.bytes += (gathered ? shard_type(in_use, *gathered) : in_use).byte_size();
}

}  // namespace

namespace fsdp {

std::vector<nn::NamedModule> units_below(nn::Module& root) {
  std::vector<nn::NamedModule> out;
  std::set<const nn::Module*> visited{&root};  // a module may have several names
  for (const auto& each : root.named_modules())
    if (!each.path.empty() && !each.module->unit().empty() && visited.insert(each.module).second) out.push_back(each);
  return out;
}

std::map<const TensorImpl*, std::string> assign_units(const nn::Module& root,
                                                      const std::vector<nn::NamedModule>& units) {
  std::map<const TensorImpl*, std::string> modules;
  std::vector<nn::NamedParameter> parameters;
  std::set<const nn::Module*> visited;
  first_paths(root, "", visited, parameters);
  for (const auto& parameter : parameters) {
    const auto [entry, fresh] = modules.try_emplace(&parameter.tensor.impl(), parameter.name);
    if (!fresh) entry->second = common_module(entry->second, parameter.name) + ".";
  }
  std::map<const TensorImpl*, std::string> out;
  for (const auto& [key, path] : modules) out[key] = unit_of(path, units);
  return out;
}

}  // namespace fsdp

std::vector<FsdpUnit> fsdp_units(nn::Module& module) {
  const auto below = fsdp::units_below(module);
  const auto names = fsdp::assign_units(module, below);
  std::vector<FsdpUnit> out;
  const auto unit_at = [&](const std::string& name, const nn::Module& its_module) {
    FsdpUnit unit;
    unit.name = name;
    unit.class_name = its_module.class_name();
    out.push_back(std::move(unit));
  };
  unit_at(fsdp::kRootUnit, module);
  for (const auto& [path, child] : below) unit_at(path, *child);
  for (const auto& parameter : module.named_parameters()) {
    const std::string& name = names.at(&parameter.tensor.impl());
    add_parameter(*std::find_if(out.begin(), out.end(), [&](const FsdpUnit& u) { return u.name == name; }), parameter);
  }
  return out;
}

std::string unused_unit(nn::Module& module) {
  std::set<const TensorImpl*> used;
  for (const auto& leaf : trace().leaves()) {
    used.insert(leaf.used_as);
    if (const auto variable = leaf.variable.lock()) used.insert(variable.get());
  }
  for (const FsdpUnit& unit : fsdp_units(module)) {
    const auto is_used = [&](const std::string& name) {
      const Tensor parameter = module.parameter(name);
      return !parameter.requires_grad() || used.contains(&parameter.impl());
    };
    if (unit.elements != unit.frozen && std::none_of(unit.parameters.begin(), unit.parameters.end(), is_used))
      return fmt::format(
          "unit {} ({}) has {} trained parameters, but the forward pass used none of them; freeze them, or use the "
          "module",
          unit.name, unit.class_name, unit.parameters.size());
  }
  return "";
}

void check_units_are_used(nn::Module& module) {
  const std::string message = unused_unit(module);
  require(message.empty(), "{}", message);
}

std::vector<OriginalParameter> get_original_names_and_sharded_parameters(nn::Module& module, const std::string& unit) {
  std::vector<std::string> known;
  for (const FsdpUnit& each : fsdp_units(module)) {
    known.push_back(each.name);
    if (each.name != unit) continue;
    std::vector<OriginalParameter> out;
    for (const std::string& name : each.parameters) out.push_back({name, module.parameter(name)});
    return out;
  }
  fail("{} has no unit {}{}", module.class_name(), unit, suggest_name(unit, known));
}

std::vector<ShardMetadata> get_shard_metadata(nn::Module& module) {
  std::vector<ShardMetadata> out;
  for (const auto& [name, tensor] : module.named_parameters()) {
    const Type& type = tensor.type();
    const auto sharding = tensor.sharding();
    if (!sharding) {
      out.push_back({name, type.dims(), "replicated", type.dims(), {}});
      continue;
    }
    ShardMetadata each{name, type.dims(), sharding->str(), shard_type(type, *sharding).dims(), {}};
    const Placement placement = placement_of(type, *sharding);
    for (std::int64_t device = 0; device < sharding->mesh.device_count(); ++device) {
      Dims start;
      for (int d = 0; d < type.ndim(); ++d) start.push_back(placement.interval(device, d).start);
      each.starts.push_back(std::move(start));
    }
    out.push_back(std::move(each));
  }
  return out;
}

}  // namespace tessera
