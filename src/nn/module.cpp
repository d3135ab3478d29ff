// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/module.h"

#include <algorithm>
#include <functional>
#include <ostream>

#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/initialize.h"
#include "tessera/frontend/tracing/initial_value.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/strategy.h"

namespace tessera::nn {
namespace {

std::string join_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : name.empty() ? path : path + "." + name;
}

void visit(const Module& module, const std::string& path, const std::function<void(const NamedParameter&)>& take) {
  for (const auto& own : module.own_parameters()) take({join_path(path, own.name), own.tensor, own.exported_dims});
  for (const auto& [name, child] : module.children()) visit(*child, join_path(path, name), take);
}

void visit_buffers(const Module& module, const std::string& path, std::vector<NamedParameter>& out) {
  for (const auto& own : module.own_buffers())
    out.push_back({join_path(path, own.name), own.tensor, own.exported_dims});
  for (const auto& [name, child] : module.children()) visit_buffers(*child, join_path(path, name), out);
}

void visit_modules(Module& module, const std::string& path, std::vector<NamedModule>& out) {
  out.push_back({path, &module});
  for (const auto& [name, child] : module.children()) visit_modules(*child, join_path(path, name), out);
}

}  // namespace

detail::CallScope::CallScope(Module& module, const std::source_location& where) {
  const auto trains = [](const NamedParameter& parameter) { return parameter.tensor.requires_grad(); };
  const auto parameters = module.is_known_or_mark() ? std::vector<NamedParameter>() : module.named_parameters();
  if (trace().in_scope() && std::any_of(parameters.begin(), parameters.end(), trains))
    log_shared_warning(
        "{} is called within another module ({}) but is not a submodule: its parameters are not in parameters(), are "
        "not trained and not saved. Write register_module(\"name\", member) in the constructor of the other module",
        module.class_name(), fmt::format("{}:{}", where.file_name(), where.line()));
  trace().push_scope({module.path(), module.unit(), where});
}
detail::CallScope::~CallScope() { trace().pop_scope(); }
std::source_location detail::current_call() { return trace().call_site({}); }
void detail::note_call(Error& error) { trace().note_call(error); }

std::string_view Module::class_name() const {
  const std::type_info& type = typeid(*this);
  if (named_type_ == nullptr || *named_type_ != type) {
    type_name_ = class_name_of(type);
    named_type_ = &type;
  }
  return type_name_;
}

std::vector<NamedParameter> Module::all_parameter_paths() const {
  std::vector<NamedParameter> out;
  visit(*this, "", [&](const NamedParameter& parameter) { out.push_back(parameter); });
  return out;
}

std::vector<NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> out;
  visit(*this, "", [&](const NamedParameter& parameter) {
    const auto same = [&](const NamedParameter& other) { return same_variable(other.tensor, parameter.tensor); };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(parameter);
  });
  return out;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  for (auto& parameter : named_parameters()) out.push_back(std::move(parameter.tensor));
  return out;
}

std::vector<NamedParameter> Module::named_buffers() const {
  std::vector<NamedParameter> out;
  visit_buffers(*this, "", out);
  return out;
}

std::vector<Tensor> Module::buffers() const {
  std::vector<Tensor> out;
  for (auto& buffer : named_buffers()) out.push_back(std::move(buffer.tensor));
  return out;
}

StateDict Module::state_dict() const {
  StateDict out;
  const std::vector<NamedParameter> parameters = named_parameters();
  for (const auto& parameter : parameters) out.add(parameter);
  for (const auto& path : all_parameter_paths())
    for (const auto& parameter : parameters)
      if (same_variable(parameter.tensor, path.tensor) && parameter.name != path.name)
        out.add_alias(parameter.name, path.name);
  for (auto& buffer : named_buffers()) out.add(std::move(buffer));
  return out;
}

LoadStateResult Module::load_state_dict(const StateDict& source, const LoadStateOptions& options) {
  return load_state(state_dict(), source, class_name(), options);
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> out;
  visit_modules(*this, "", out);
  return out;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> out;
  for (const NamedModule& each : named_modules()) out.push_back(each.module);
  return out;
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.str(); }

Tensor Module::parameter(std::string_view name) const {
  std::vector<std::string> known;
  for (const auto& parameter : all_parameter_paths()) {
    if (parameter.name == name) return parameter.tensor;
    known.push_back(parameter.name);
  }
  fail("{} has no parameter {}{}", class_name(), name, suggest_name(name, known));
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& parameter : named_parameters()) count += parameter.tensor.element_count();
  return count;
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

void Module::apply(const std::function<void(Module&)>& visit_module) {
  for (const auto& [name, child] : children_) child->apply(visit_module);
  visit_module(*this);
}

void Module::zero_grad() {
  for (auto& parameter : parameters()) parameter.zero_grad();
}

void Module::to(DType dtype, std::source_location where) {
  require(is_float(dtype), "{}.to takes the type of floats, got {}", class_name(), dtype_name(dtype));
  for (const auto& tensor : parameters())
    if (is_float(tensor.dtype())) convert_variable(tensor, dtype, where);
  for (const auto& tensor : buffers())
    if (is_float(tensor.dtype())) convert_variable(tensor, dtype, where);
}

Module& Module::to(const Device& /*device*/) { return *this; }

void Module::set_compute_dtype(DType dtype) {
  for (auto& parameter : parameters()) parameter.impl().compute_dtype = dtype;
}

std::string Module::str() const {
  std::string out;
  const std::function<void(const Module&, const std::string&, int)> line = [&](const Module& module,
                                                                               const std::string& name, int depth) {
    std::string text(static_cast<std::size_t>(2 * depth), ' ');
    if (!name.empty()) text += "(" + name + ") ";
    text += fmt::format("{} {} parameters", module.class_name(), module.parameter_count());
    if (!module.unit().empty()) text += fmt::format(" [unit {}]", module.unit());
    out += text + "\n";
    for (const auto& [child_name, child] : module.children()) line(*child, child_name, depth + 1);
  };
  line(*this, "", 0);
  return out;
}

// ---- registration -------------------------------------------------------------------------------------------------------

void Module::check_new_name(std::string_view kind, const std::string& name) const {
  require(!name.empty() && name.find('.') == std::string::npos,
          "{}: the name of a {} must not be empty or contain a dot, got \"{}\"", class_name(), kind, name);
  const auto has_name = [&](const auto& entries) {
    return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
  };
  const bool is_child = std::any_of(children_.begin(), children_.end(), [&](const auto& c) { return c.first == name; });
  require(!has_name(parameters_) && !has_name(buffers_) && !is_child,
          "{}: {} is registered twice; parameters, buffers and submodules need distinct names", class_name(), name);
}

Tensor Module::register_parameter(std::string name, Tensor value, bool requires_grad) {
  check_new_name("parameter", name);
  require(!value.is_null(), "{}: parameter {} is null", class_name(), name);
  value.set_requires_grad(requires_grad);
  tessera::detail::compute_as_initial_value(value, name);
  detail::apply_strategy(*this, name, value, false);
  add_shared_parameter(std::move(name), value);
  set_path(path_);
  return value;
}

Tensor Module::register_buffer(std::string name, Tensor value) {
  check_new_name("buffer", name);
  require(!value.is_null(), "{}: buffer {} is null", class_name(), name);
  tessera::detail::compute_as_initial_value(value, name);
  detail::apply_strategy(*this, name, value, true);
  buffers_.push_back({std::move(name), value, value.dims()});
  set_path(path_);
  return value;
}

Tensor Module::add_parameter(std::string name, const Type& type, Initializer initializer, Dims exported_dims) {
  Tensor tensor = Tensor::deferred(type, std::move(initializer), name);
  tensor.set_requires_grad();
  detail::apply_strategy(*this, name, tensor, false);
  add_shared_parameter(std::move(name), tensor, std::move(exported_dims));
  return tensor;
}

void Module::add_shared_parameter(std::string name, const Tensor& tensor, Dims exported_dims) {
  if (exported_dims.empty()) exported_dims = tensor.dims();
  ensure(product(exported_dims) == tensor.element_count(), "{}: exported dims hold other elements", name);
  tensor.impl().exported_dims = exported_dims;
  parameters_.push_back({std::move(name), tensor, std::move(exported_dims)});
}

Tensor Module::add_buffer(std::string name, const Type& type, Initializer initializer) {
  Tensor tensor = Tensor::deferred(type, std::move(initializer), name);
  detail::apply_strategy(*this, name, tensor, true);
  buffers_.push_back({std::move(name), tensor, type.dims()});
  return tensor;
}

void Module::add_module(std::string name, Module& child) {
  check_new_name("submodule", name);
  children_.emplace_back(std::move(name), &child);
  child.is_known_ = true;
  set_path(path_);
}

void Module::add_wrapped_module(Module& child) {
  ensure(children_.empty(), "{} wraps one module", class_name());
  path_ = child.path_;
  child.is_known_ = true;
  children_.emplace_back("", &child);
}

// Children are registered before their parent, so a new parent must extend the paths of all its descendants.
void Module::set_path(const std::string& path) {
  path_ = path;
  for (auto& parameter : parameters_)
    parameter.tensor.impl().name = parameter.tensor.impl().node->name = join_path(path, parameter.name);
  for (auto& buffer : buffers_)
    buffer.tensor.impl().name = buffer.tensor.impl().node->name = join_path(path, buffer.name);
  for (const auto& [name, child] : children_) child->set_path(join_path(path, name));
}

}  // namespace tessera::nn
