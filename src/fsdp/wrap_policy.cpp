// SPDX-License-Identifier: Apache-2.0
#include "tessera/fsdp/wrap_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/error.h"

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

// The recursion of the policies: the parameters of children count for the parent only if no child took them.
class Wrapping {
 public:
  Wrapping(const WrapPolicy& policy, const std::vector<const nn::Module*>& ignored)
      : policy_(policy), ignored_(ignored) {}

  // Wraps modules within `module`. Returns how many of its parameters belong to units afterwards.
  std::int64_t wrap_below(nn::Module& module, const std::string& path, bool is_root) {
    const std::int64_t total = module.parameter_count();
    if (!policy_(module, true, total)) return 0;
    std::int64_t wrapped = 0;
    std::set<const nn::Module*> visited;  // a child with two names counts once
    for (const auto& [name, child] : module.children()) {
      if (std::find(ignored_.begin(), ignored_.end(), child) != ignored_.end()) continue;
      if (!visited.insert(child).second) continue;
      const std::string of_child = path.empty() ? name : name.empty() ? path : fmt::format("{}.{}", path, name);
      wrapped += wrap_below(*child, of_child, is_root && name.empty());
    }
    if (is_root || !policy_(module, false, total - wrapped)) return wrapped;
    const bool is_known =
        std::any_of(out_.begin(), out_.end(), [&](const auto& unit) { return unit.module == &module; });
    if (!is_known) out_.push_back({path, &module});
    return total;
  }
  [[nodiscard]] std::vector<nn::NamedModule> take() { return std::move(out_); }

 private:
  const WrapPolicy& policy_;
  const std::vector<const nn::Module*>& ignored_;
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

std::vector<nn::NamedModule> modules_to_wrap(nn::Module& root, const WrapPolicy& policy,
                                             const std::vector<const nn::Module*>& ignored) {
  if (const auto* by_class = policy.target<WrapClasses>()) check_classes(root, by_class->classes);
  Wrapping wrapping(policy, ignored);
  wrapping.wrap_below(root, "", true);
  return wrapping.take();
}

void check_classes(nn::Module& root, const std::set<std::string>& classes) {
  std::set<std::string> present;
  for (const auto& [path, module] : root.named_modules()) present.insert(std::string(module->class_name()));
  for (const auto& wanted : classes) {
    if (present.contains(wanted)) continue;
    const std::vector<std::string> known(present.begin(), present.end());
    fail("no module of class {} to wrap{}; classes of this model: {}", wanted, suggest_name(wanted, known),
         fmt::join(known, ", "));
  }
}

}  // namespace tessera
