// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "choose_shard.h"
#include "debug_options.h"
#include "fsdp_axes.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/stack.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/fsdp/units.h"
#include "tessera/sharding/placement.h"
#include "unit_names.h"

namespace tessera {
namespace {

using fsdp::kRootUnit;
using fsdp::ShardAxes;
using fsdp::UnitRules;

/// A module that becomes a unit.
struct NewUnit {
  std::string name;
  FsdpOptions options;
  UnitRules rules;
};

using NewUnits = std::map<std::string, NewUnit>;  // by path in the module, or kRootUnit

std::string shown_name(const nn::Module& module) {
  return module.path().empty() ? std::string(module.class_name()) : module.path();
}

// A wrapper has the parameters of the module that it wraps, so only one of them may be a unit.
void check_is_no_unit(const nn::Module& module) {
  require(module.unit().empty(), "{} is already an FSDP unit; wrap a module once", [&] { return shown_name(module); });
  for (const auto& [name, child] : module.children())
    if (name.empty()) check_is_no_unit(*child);
}

// Its parameters are sharded with the options of the units of the module around it.
void check_is_in_no_unit(const nn::Module& module) {
  require(
      module.sharded_in().empty(), "{} is a part of {}, which is sharded already; shard the parts of a model before it",
      [&] { return shown_name(module); }, module.sharded_in());
}

// Ignored modules belong to no unit.
void note_parts(const nn::Module& module, const std::string& around, const FsdpOptions& options) {
  for (const auto& [name, child] : module.children()) {
    if (std::ranges::find(options.ignored_modules, child) != options.ignored_modules.end()) continue;
    child->set_sharded_in(around);
    note_parts(*child, around, options);
  }
}

void check_no_units(nn::Module& module, const WrapPolicy& policy) {
  check_is_no_unit(module);
  check_is_in_no_unit(module);
  if (!policy) return;
  for (const auto& [path, child] : fsdp::units_below(module))
    require(false, "{} is already an FSDP unit; an auto_wrap_policy needs a module without units below it", path);
}

void check_ignored_modules(const FsdpOptions& options) {
  for (const nn::Module* ignored : options.ignored_modules)
    require(ignored != nullptr, "ignored_modules contains a null pointer");
}

// Not errors, because parts of a model may be sharded one after the other with the same options.
std::vector<std::string> notes_of_ignored_modules(nn::Module& root, const FsdpOptions& options) {
  const auto modules = root.named_modules();
  std::vector<std::string> out;
  for (const nn::Module* ignored : options.ignored_modules)
    if (std::none_of(modules.begin(), modules.end(), [&](const auto& each) { return each.module == ignored; }))
      out.push_back(fmt::format("ignored_modules: {} has no effect, because it is not in {}", shown_name(*ignored),
                                shown_name(root)));
  return out;
}

void check_module(nn::Module& module, const FsdpOptions& options) {
  check_ignored_modules(options);
  check_no_units(module, nullptr);
  require(
      !module.is_container(), "{} is a {}, which has no forward(): wrap its elements, or the module around it",
      [&] { return shown_name(module); }, [&] { return module.class_name(); });
  check_no_units(module, options.auto_wrap_policy);
}

// The names of parameters in ignored modules, and of those that the options ignore.
std::set<std::string> ignored_names(nn::Module& root, const FsdpOptions& options) {
  std::set<std::string> out;
  for (const auto& [path, module] : root.named_modules()) {
    const bool is_ignored = std::find(options.ignored_modules.begin(), options.ignored_modules.end(), module) !=
                            options.ignored_modules.end();
    if (!is_ignored) continue;
    for (const auto& parameter : module->all_parameter_paths())
      out.insert(path.empty() ? parameter.name : path + "." + parameter.name);
  }
  if (!options.ignored_parameters) return out;
  for (const auto& parameter : root.all_parameter_paths())
    if (options.ignored_parameters(parameter)) out.insert(parameter.name);
  return out;
}

PartitionSpec spec_of(const Sharding& sharding) {
  std::vector<PartitionSpec::Entry> entries;
  for (const auto& dim : sharding.dims) {
    SpecEntry names;
    for (const auto& ref : dim.axes) names.push_back(sharding.mesh.axis_text(ref));
    entries.emplace_back(std::move(names));
  }
  return PartitionSpec(std::move(entries));
}

// The part of the stored sharding that stays between the passes: without the major factor of the axis, which comes last.
std::optional<Sharding> kept_sharding(const Sharding& storage, const Sharding& gathered, const UnitRules& rules) {
  if (rules.kept_over <= 1) return std::nullopt;
  Sharding kept = storage;
  for (std::size_t d = 0; d < kept.dims.size(); ++d)
    if (kept.dims[d].axes.size() == gathered.dims[d].axes.size() + 2) {
      kept.dims[d].axes.pop_back();
      return kept;
    }
  return std::nullopt;
}

class Sharder {
 public:
  Sharder(const ShardAxes& axes, const FsdpOptions& options) : axes_(axes), options_(options) {}

  void shard(const nn::NamedParameter& parameter, const NewUnit& unit) {
    TensorImpl& variable = parameter.tensor.impl();
    require(!variable.has_optimizer_state, "{} already has optimizer state; wrap the model before making the optimizer",
            parameter.name);
    const UnitRules& rules = unit.rules;
    if (rules.types.param_dtype) variable.compute_dtype = rules.types.param_dtype;
    variable.gradient_rules.shards = rules.update;
    variable.gradient_rules.ends_step = options_.sync_on_finalization;
    variable.gradient_rules.skips_reduction = unit.options.debug.dummy_reduce_scatter_op;
    const Sharding gathered =
        parameter.tensor.sharding().value_or(Sharding::replicated(axes_.mesh, parameter.tensor.ndim()));
    require(gathered.mesh == axes_.mesh, "{} is sharded on {}, but FSDP uses {}; use the same mesh", parameter.name,
            gathered.mesh, axes_.mesh);
    if (!rules.shards_parameters || !gathered.is_tiled()) return;
    const auto storage = storage_of_parameter(parameter, gathered, unit);
    if (!storage) return;
    clear_sharding(parameter.tensor);
    mark_sharding(parameter.tensor, axes_.mesh, spec_of(*storage));
    const bool stays = unit.name == kRootUnit && options_.disable_reshard_on_root;
    variable.unshard = std::make_shared<const Unshard>(
        Unshard{unit.name, gathered, rules.reshards && !stays, rules.types.reduce_dtype,
                kept_sharding(*storage, gathered, rules), fsdp::dummies_of(unit.options.debug)});
  }

 private:
  [[nodiscard]] std::optional<Sharding> storage_of_parameter(const nn::NamedParameter& parameter,
                                                             const Sharding& gathered, const NewUnit& unit) const {
    for (const AxisRef& axis : axes_.axes)
      require(!overlaps_any(gathered.used_axes(), axis), "{} is sharded as {} already, so FSDP cannot shard it over {}",
              parameter.name, gathered, axes_.str());
    fsdp::ShardChoice choice;
    choice.first_dim = stack_count(parameter.tensor) > 0 ? 1 : 0;
    choice.group = unit.rules.kept_over;
    if (unit.options.shard_param_on_dim_0) choice.dim = choice.first_dim;
    if (unit.options.shard_placement_fn) {
      if (const auto dim = unit.options.shard_placement_fn(parameter)) {
        require(*dim >= choice.first_dim && *dim < parameter.tensor.ndim(),
                "shard_placement_fn: {} is {}, which has no dim {} to shard", parameter.name, parameter.tensor.type(),
                *dim);
        choice.dim = dim;
      }
    }
    return fsdp::choose_shard(parameter.tensor.type(), gathered, axes_.axes, choice);
  }

  const ShardAxes& axes_;
  const FsdpOptions& options_;
};

// A unit that was made as a root is now below another root: its parameters may belong to a larger unit, and they are
// gathered again in the backward pass if its own option says so.
void adopt(const nn::NamedParameter& parameter, const NewUnit& unit, bool moves_to_root, const FsdpOptions& options) {
  TensorImpl& variable = parameter.tensor.impl();
  if (!variable.unshard) return;
  Unshard changed = *variable.unshard;
  changed.unit = unit.name;
  if (moves_to_root && options.disable_reshard_on_root) changed.recompute = false;
  if (!moves_to_root) changed.recompute = unit.rules.reshards;
  variable.unshard = std::make_shared<const Unshard>(std::move(changed));
}

void initialize_by(nn::Module& module, const std::function<void(nn::Module&)>& init) {
  module.apply([&](nn::Module& each) {
    const auto& own = each.own_parameters();
    const bool is_deferred = std::any_of(own.begin(), own.end(), [](const nn::NamedParameter& parameter) {
      return parameter.tensor.impl().node->is_deferred();
    });
    if (is_deferred) init(each);
  });
}

std::vector<std::string> padding_notes(nn::Module& module) {
  constexpr int kNamed = 3;
  std::vector<std::pair<std::int64_t, std::string>> padded;
  std::int64_t total = 0;
  for (const auto& parameter : module.named_parameters()) {
    const auto sharding = parameter.tensor.sharding();
    const Type& type = parameter.tensor.type();
    if (!sharding || !parameter.tensor.impl().unshard) continue;
    const std::int64_t elements = fsdp::padded_elements(type, *sharding);
    const std::int64_t bytes = elements * static_cast<std::int64_t>(dtype_size(type.dtype()));
    if (bytes == 0) continue;
    total += bytes;
    padded.emplace_back(bytes, fmt::format("{} {} as {} ({:.3g}%)", parameter.name, type.str(), sharding->str(),
                                           100.0 * static_cast<double>(elements) /
                                               static_cast<double>(std::max<std::int64_t>(type.element_count(), 1))));
  }
  if (padded.empty()) return {};
  std::stable_sort(padded.begin(), padded.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = fmt::format("padding takes {} on all devices together, because no dim divides: ",
                                 format_bytes(static_cast<double>(total)));
  for (int i = 0; i < isize(padded) && i < kNamed; ++i) text += (i > 0 ? ", " : "") + at(padded, i).second;
  if (isize(padded) > kNamed) text += fmt::format(" and {} more", isize(padded) - kNamed);
  return {text};
}

std::vector<nn::NamedModule> new_units(nn::Module& module, const WrapPolicy& policy, const WrapOptions& options) {
  auto wrapped = modules_to_wrap(module, policy, options);
  const auto names = fsdp::assign_units(module, wrapped);
  std::erase_if(wrapped, [&](const nn::NamedModule& unit) {  // all its weights are tied to weights of other units
    return unit.module != &module &&
           std::none_of(names.begin(), names.end(), [&](const auto& entry) { return entry.second == unit.path; });
  });
  return wrapped;
}

// The options of a unit below the root. They are those of the root, except for what the module and the user change.
NewUnit new_unit(nn::Module& module, std::string name, const FsdpOptions& options, const ShardAxes& axes) {
  FsdpOptions own = options;
  if (module.wrap_overrides()) module.wrap_overrides()(own);
  if (options.auto_wrapper_callable) options.auto_wrapper_callable(module, own);
  const UnitRules rules = fsdp::unit_rules(own, axes);
  module.set_unit(name);
  module.set_reshards_unit(rules.reshards);
  return {std::move(name), std::move(own), rules};
}

void set_buffer_types(const nn::Module& module, std::optional<DType> type) {
  for (const Tensor& buffer : module.buffers())
    if (is_float(buffer.dtype())) buffer.impl().compute_dtype = type;
}

// Children are before parents in `wrapped`. The type of the innermost unit applies to a buffer.
void set_buffer_types(const nn::Module& module, const std::vector<nn::NamedModule>& wrapped, const NewUnits& units) {
  const bool any = std::any_of(units.begin(), units.end(),
                               [](const auto& unit) { return unit.second.options.buffer_dtype.has_value(); });
  if (!any) return;
  const auto root = units.find(kRootUnit);
  if (root != units.end() && root->second.options.buffer_dtype)
    set_buffer_types(module, root->second.options.buffer_dtype);
  for (auto each = wrapped.rbegin(); each != wrapped.rend(); ++each)
    set_buffer_types(*each->module, units.at(each->path).options.buffer_dtype);
}

void shard_parameters(nn::Module& module, const NewUnits& units, const ShardAxes& axes, const FsdpOptions& options) {
  const auto ignored = ignored_names(module, options);
  const auto names = fsdp::assign_units(module, fsdp::units_below(module));
  Sharder sharder(axes, options);
  for (const auto& parameter : module.named_parameters()) {
    const auto unit = units.find(names.at(&parameter.tensor.impl()));
    if (ignored.contains(parameter.name) || unit == units.end()) continue;
    if (parameter.tensor.impl().unshard)
      adopt(parameter, unit->second, unit->first == kRootUnit, options);
    else
      sharder.shard(parameter, unit->second);
  }
}

// The first call in training mode warns of a unit that it does not use: later calls may use it, as in PyTorch. A module that
// has become a part of a larger unit by then is checked with that unit. A forward pass that has ended its step has left no
// uses.
void check_first_call(nn::Module& module) {
  const auto handle = std::make_shared<nn::HookHandle>();
  *handle = module.register_forward_hook(
      [handle](nn::Module& called, const std::vector<Tensor>& /*inputs*/, std::vector<Tensor>& /*outputs*/) {
        if (!called.is_training() || trace().leaves().empty()) return;
        const std::string message = called.unit() == kRootUnit ? unused_unit(called) : "";
        if (!message.empty() && RankContext::current().rank() == 0) log_warning("{}", message);
        handle->remove();
      });
}

std::vector<std::string> debug(nn::Module& root, const std::vector<nn::NamedModule>& wrapped, const NewUnits& units,
                               const ShardAxes& axes) {
  std::vector<fsdp::DebuggedUnit> all;
  if (const auto own = units.find(kRootUnit); own != units.end())
    all.push_back({&root, kRootUnit, own->second.options.debug});
  for (auto each = wrapped.rbegin(); each != wrapped.rend(); ++each)
    all.push_back({each->module, units.at(each->path).name, units.at(each->path).options.debug});
  return fsdp::apply_debug_options(all, axes);
}

}  // namespace

std::vector<FsdpUnit> fully_shard(nn::Module& module, const FsdpOptions& options) {
  check_module(module, options);
  const ShardAxes axes = fsdp::shard_axes(options);
  const auto nested = fsdp::units_below(module);
  std::vector<nn::NamedModule> wrapped;
  if (options.auto_wrap_policy || nested.empty())
    wrapped = new_units(module, options.auto_wrap_policy ? options.auto_wrap_policy : default_wrap_policy(module),
                        {options.ignored_modules, options.ignored_parameters});
  if (options.param_init_fn) initialize_by(module, options.param_init_fn);
  NewUnits units{{kRootUnit, {kRootUnit, options, fsdp::unit_rules(options, axes)}}};
  for (const auto& each : wrapped) units[each.path] = new_unit(*each.module, each.path, options, axes);
  for (const auto& each : nested) {
    units[each.path] = {each.path, options, units.at(kRootUnit).rules};
    units.at(each.path).rules.reshards = each.module->reshards_unit();
    each.module->set_unit(each.path);
  }
  module.set_unit(kRootUnit);
  module.set_reshards_unit(units.at(kRootUnit).rules.reshards);
  if (axes.mesh.device_count() == device_count()) set_default_mesh(axes.mesh);

  shard_parameters(module, units, axes, options);
  set_buffer_types(module, wrapped, units);
  std::vector<FsdpUnit> out = fsdp_units(module);
  out.front().notes = fsdp::notes_of_options(options);
  for (std::string& note : debug(module, wrapped, units, axes)) out.front().notes.push_back(std::move(note));
  for (std::string& note : notes_of_ignored_modules(module, options)) out.front().notes.push_back(std::move(note));
  for (std::string& note : padding_notes(module)) out.front().notes.push_back(std::move(note));
  check_first_call(module);
  note_parts(module, shown_name(module), options);
  return out;
}

std::int64_t recursive_wrap(nn::Module& module, const FsdpOptions& options, const RecursiveWrapOptions& how) {
  require(options.auto_wrap_policy != nullptr, "recursive_wrap needs an auto_wrap_policy");
  check_ignored_modules(options);
  check_no_units(module, options.auto_wrap_policy);
  const auto wrapped = new_units(module, options.auto_wrap_policy,
                                 {options.ignored_modules, options.ignored_parameters, how.only_wrap_children});
  const auto is_module = [&](const nn::NamedModule& each) { return each.module == &module; };
  if (std::any_of(wrapped.begin(), wrapped.end(), is_module)) {
    fully_shard(module, options);
    return module.parameter_count();
  }
  const ShardAxes axes = fsdp::shard_axes(options);
  NewUnits units;
  for (const auto& each : wrapped) {
    if (options.param_init_fn) initialize_by(*each.module, options.param_init_fn);
    const std::string name = module.path().empty() ? each.path : module.path() + "." + each.path;
    units[each.path] = new_unit(*each.module, name, options, axes);
    note_parts(*each.module, shown_name(*each.module), options);
  }
  shard_parameters(module, units, axes, options);
  set_buffer_types(module, wrapped, units);
  (void)debug(module, wrapped, units, axes);
  std::int64_t count = 0;
  const auto names = fsdp::assign_units(module, wrapped);
  for (const Tensor& parameter : module.parameters())
    if (names.at(&parameter.impl()) != kRootUnit) count += parameter.element_count();
  return count;
}

Tensor cast_input(const Tensor& input, const FsdpOptions& options) {
  const MixedPrecision& types = options.mixed_precision;
  const std::optional<DType> type = types.param_dtype ? types.param_dtype : options.compute_dtype;
  const bool is_cast = type && types.cast_forward_inputs && !input.is_null() && is_float(input.dtype());
  return is_cast ? input.to(*type) : input;
}

void shard_input(const Tensor& input, const FsdpOptions& options) {
  const Node& node = *input.impl().node;
  if (input.ndim() == 0 || !node.has_data() || node.sharding || input.impl().has_optimizer_state) return;
  const ShardAxes shards = fsdp::shard_axes(options);
  if (shards.mesh.device_count() != device_count()) return;
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(input.ndim()));
  entries.front() = PartitionSpec::Entry(shards.rows());
  mark_sharding(input, shards.mesh, PartitionSpec(std::move(entries)));
}

}  // namespace tessera
