// SPDX-License-Identifier: Apache-2.0
// Policies that select the modules that become FSDP units.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera {

/// If `recurse` is true, returns whether the children are visited. If it is false, returns whether this module becomes
/// a unit. `unwrapped_parameters` is the number of elements of its parameters that are not in units below it.
using WrapPolicy = std::function<bool(const nn::Module& module, bool recurse, std::int64_t unwrapped_parameters)>;

struct SizeBasedOptions {
  std::int64_t min_num_params = 100'000'000;
  std::set<std::string> force_leaf_modules{"MultiheadAttention"};
  std::set<std::string> exclude_wrap_modules{"ModuleList", "ModuleDict"};
};
/// Units have at least min_num_params elements of parameters.
WrapPolicy size_based_auto_wrap_policy(SizeBasedOptions options = {});
inline WrapPolicy size_based_auto_wrap_policy(std::int64_t min_num_params) {
  SizeBasedOptions options;
  options.min_num_params = min_num_params;
  return size_based_auto_wrap_policy(std::move(options));
}
/// Units are the modules of these classes (names as in class_name(); case matters).
WrapPolicy transformer_auto_wrap_policy(std::set<std::string> classes);
/// Units are the modules for which `wrap` is true.
WrapPolicy lambda_auto_wrap_policy(std::function<bool(const nn::Module&)> wrap);
/// Every module is a unit.
WrapPolicy always_wrap_policy();
/// Units are the repeated blocks: the modules of the class of the first module in the longest ModuleList. Wraps nothing
/// if there is no list.
WrapPolicy default_wrap_policy(nn::Module& root);

/// The modules and parameters that modules_to_wrap() passes to a policy.
struct WrapOptions {
  /// These modules and those below them are not visited, and their parameters do not count.
  std::vector<const nn::Module*> ignored_modules{};
  /// Parameters for which this is true do not count. Names are those in the root.
  std::function<bool(const nn::NamedParameter& parameter)> ignored_parameters{};
  /// False: the policy may also select the root.
  bool only_wrap_children = true;
};
/// Returns the modules of `root` that the policy wraps, in the order of wrapping: children before parents. Error if a
/// class of transformer_auto_wrap_policy does not occur.
std::vector<nn::NamedModule> modules_to_wrap(nn::Module& root, const WrapPolicy& policy,
                                             const WrapOptions& options = {});
/// Checks that each of `classes` occurs below root. The error names the existing classes and the nearest one.
void check_classes(nn::Module& root, const std::set<std::string>& classes);

}  // namespace tessera
