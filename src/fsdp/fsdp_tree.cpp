// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>

#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/units.h"
#include "tessera/sharding/placement.h"
#include "unit_names.h"

namespace tessera {
namespace {

std::string shown_bytes(std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

/// One tree with the units of the module.
class Tree {
 public:
  explicit Tree(nn::Module& root) : names_(fsdp::assign_units(root, fsdp::units_below(root))) {
    for (FsdpUnit& unit : fsdp_units(root)) units_.emplace(unit.name, std::move(unit));
  }

  std::string text(nn::Module& root) {
    add(root, "", "", 0);
    return std::move(out_);
  }

 private:
  void add(nn::Module& module, const std::string& name, const std::string& path, int depth) {
    std::string line(static_cast<std::size_t>(2 * depth), ' ');
    if (!name.empty()) line += "(" + name + ") ";
    line += fmt::format("{} {} parameters", module.class_name(), module.parameter_count());
    if (const auto unit = units_.find(path.empty() ? fsdp::kRootUnit : path);
        unit != units_.end() && !module.unit().empty())
      line += fmt::format(" [unit {}: {} gathered, {} per device]", unit->first, shown_bytes(unit->second.bytes),
                          shown_bytes(unit->second.bytes_per_device));
    out_ += line + "\n";
    for (const auto& parameter : module.own_parameters()) add_parameter(parameter, path, depth + 1);
    for (const auto& [child_name, child] : module.children()) {
      const std::string of_child = path.empty()         ? child_name
                                   : child_name.empty() ? path
                                                        : fmt::format("{}.{}", path, child_name);
      add(*child, child_name, of_child, child_name.empty() ? depth : depth + 1);
    }
  }

  void add_parameter(const nn::NamedParameter& parameter, const std::string& path, int depth) {
    const TensorImpl& variable = parameter.tensor.impl();
    const std::string full = path.empty() ? parameter.name : path + "." + parameter.name;
    std::string line(static_cast<std::size_t>(2 * depth), ' ');
    const Type& type = parameter.tensor.type();
    line += fmt::format("{} {}", parameter.name, type.str());
    const auto [first, fresh] = first_names_.try_emplace(&variable, full);
    if (!fresh) {
      out_ += line + " tied to " + first->second + "\n";
      return;
    }
    const auto sharding = parameter.tensor.sharding();
    if (sharding && !sharding->is_replicated()) line += " " + sharding->str();
    line += fmt::format(", {}", shown_bytes(type.byte_size()));
    if (sharding && !sharding->is_replicated())
      line += fmt::format(", {} per device", shown_bytes(shard_type(type, *sharding).byte_size()));
    if (!parameter.tensor.requires_grad()) line += ", frozen";
    const std::string& unit = names_.at(&variable);
    const bool is_inside = unit == fsdp::kRootUnit || full.starts_with(unit + ".");
    if (unit == fsdp::kRootUnit && is_below_unit(path)) line += ", in the root unit";
    if (!is_inside) line += ", in unit " + unit;
    out_ += line + "\n";
  }

  [[nodiscard]] bool is_below_unit(const std::string& path) const {
    return std::any_of(units_.begin(), units_.end(),
                       [&](const auto& unit) { return path == unit.first || path.starts_with(unit.first + "."); });
  }

  std::map<const TensorImpl*, std::string> names_;
  std::map<std::string, FsdpUnit> units_;
  std::map<const TensorImpl*, std::string> first_names_;
  std::string out_;
};

}  // namespace

std::string fsdp_tree(nn::Module& module) { return Tree(module).text(module); }

}  // namespace tessera
