// SPDX-License-Identifier: Apache-2.0
#include "tessera/fsdp/wrap_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera {
namespace {

bool contains(const std::set<std::string>& classes, const nn::Module& module) {
  return classes.contains(std::string(module.class_name()));
}

struct WrapClasses {
  std::set<std::string> classes;
  bool operator()(const nn::Module& module, bool recurse, std::int64_t) const {
    return recurse || contains(classes, module);
  }
};

std::set<const TensorImpl*> ignored_variables(nn::Module& root, const WrapOptions& options) {
  std::set<const TensorImpl*> out;
  for (const nn::Module* module : options.ignored_modules)
    for (const Tensor& parameter : module->parameters()) out.insert(&parameter.impl());
  if (!options.ignored_parameters) return out;
  for (const auto& parameter : root.all_parameter_paths())
    if (options.ignored_parameters(parameter)) out.insert(&parameter.tensor.impl());
  return out;
}

// The recursion of the policies: the parameters of children count for the parent only if no child took them.
class Wrapping {
 public:
  Wrapping(nn::Module& root, const WrapPolicy& policy, const WrapOptions& options)
      : policy_(policy), options_(options), ignored_(ignored_variables(root, options)) {}

  // Wraps modules within `module`. Returns how many of its parameters belong to units afterwards.
  std::int64_t wrap_below(nn::Module& module, const std::string& path, bool is_root) {
    const std::int64_t total = parameter_count(module);
    if (!policy_(module, true, total)) return 0;
    std::int64_t wrapped = 0;
    std::set<const nn::Module*> visited;  // a child with two names counts once
    for (const auto& [name, child] : module.children()) {
      const auto& ignored = options_.ignored_modules;
      if (std::find(ignored.begin(), ignored.end(), child) != ignored.end()) continue;
      if (!visited.insert(child).second) continue;
      const std::string of_child = path.empty() ? name : name.empty() ? path : fmt::format("{}.{}", path, name);
      wrapped += wrap_below(*child, of_child, is_root && name.empty());
    }
    const bool stays = is_root && options_.only_wrap_children;
    if (stays || !policy_(module, false, total - wrapped)) return wrapped;
    const bool is_known =
        std::any_of(out_.begin(), out_.end(), [&](const auto& unit) { return unit.module == &module; });
    if (!is_known) out_.push_back({path, &module});
    return total;
  }
  [[nodiscard]] std::vector<nn::NamedModule> take() { return std::move(out_); }

 private:
  [[nodiscard]] std::int64_t parameter_count(const nn::Module& module) const {
    if (ignored_.empty()) return module.parameter_count();
    std::int64_t count = 0;
    for (const Tensor& parameter : module.parameters())
      if (!ignored_.contains(&parameter.impl())) count += parameter.element_count();
    return count;
  }

  const WrapPolicy& policy_;
  const WrapOptions& options_;
  std::set<const TensorImpl*> ignored_;
  std::vector<nn::NamedModule> out_;
};

}  // namespace

WrapPolicy size_based_auto_wrap_policy(SizeBasedOptions options) {
  return [options = std::move(options)](const nn::Module& module, bool recurse, std::int64_t unwrapped) {
    if (unwrapped < options.min_num_params) return false;
    return !contains(recurse ? options.force_leaf_modules : options.exclude_wrap_modules, module);
  };
}

WrapPolicy transformer_auto_wrap_policy(std::set<std::string> classes) {
  require(!classes.empty(), "transformer_auto_wrap_policy needs at least one class name");
  return WrapClasses{std::move(classes)};
}

WrapPolicy lambda_auto_wrap_policy(std::function<bool(const nn::Module&)> wrap) {
  return [wrap = std::move(wrap)](const nn::Module& module, bool recurse, std::int64_t) {
    return recurse || wrap(module);
  };
}

WrapPolicy always_wrap_policy() {
  return [](const nn::Module&, bool, std::int64_t) { return true; };
}

WrapPolicy default_wrap_policy(nn::Module& root) {
  std::size_t longest = 0;
  std::string repeated;
  for (const auto& [path, module] : root.named_modules()) {
    if (!module->is_container() || module->children().size() <= longest) continue;
    longest = module->children().size();
    repeated = module->children().front().second->class_name();
  }
  if (repeated.empty()) return lambda_auto_wrap_policy([](const nn::Module&) { return false; });
  return transformer_auto_wrap_policy({repeated});
}

std::vector<nn::NamedModule> modules_to_wrap(nn::Module& root, const WrapPolicy& policy, const WrapOptions& options) {
  if (const auto* by_class = policy.target<WrapClasses>()) check_classes(root, by_class->classes);
  Wrapping wrapping(root, policy, options);
  wrapping.wrap_below(root, "", true);
  return wrapping.take();
}

void check_classes(nn::Module& root, const std::set<std::string>& classes) {
  std::set<std::string> present;
  for (const auto& [path, module] : root.named_modules()) present.insert(std::string(module->class_name()));
  for (const auto& wanted : classes) {
    if (present.contains(wanted)) continue;
    const std::vector<std::string> known(present.begin(), present.end());
    const std::string near = nearest_name(wanted, known);
    fail("no module of class {} to wrap{}; classes of this model: {}", wanted,
         near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near), fmt::join(known, ", "));
  }
}

}  // namespace tessera
