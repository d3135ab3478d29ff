// SPDX-License-Identifier: Apache-2.0
// Which modules become FSDP units.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera {

/// Asked with recurse = true: shall children be visited? With recurse = false: shall this module, with that many parameters not yet in
/// units below it, be a unit?
using WrapPolicy = std::function<bool(const nn::Module& module, bool recurse, std::int64_t unwrapped_parameters)>;

struct SizeBasedOptions {
  std::int64_t min_num_params = 100'000'000;
  std::set<std::string> force_leaf_modules{"MultiheadAttention"};
  std::set<std::string> exclude_wrap_modules{"ModuleList", "ModuleDict"};
};
/// Units of at least min_num_params parameters.
WrapPolicy size_based_auto_wrap_policy(SizeBasedOptions options = {});
inline WrapPolicy size_based_auto_wrap_policy(std::int64_t min_num_params) {
  SizeBasedOptions options;
  options.min_num_params = min_num_params;
  return size_based_auto_wrap_policy(std::move(options));
}
/// Every module of one of these classes (names as class_name() gives them; case counts).
WrapPolicy transformer_auto_wrap_policy(std::set<std::string> classes);
/// Every module for which `wrap` is true.
WrapPolicy lambda_auto_wrap_policy(std::function<bool(const nn::Module&)> wrap);
WrapPolicy always_wrap_policy();
/// The class of the modules in the longest list: the repeated block. Wraps nothing when there is none.
WrapPolicy default_wrap_policy(nn::Module& root);

/// The modules that the policy wraps below `root` (never root itself), in the order of wrapping: children before parents. Error when
/// a class of transformer_auto_wrap_policy does not occur.
std::vector<nn::NamedModule> modules_to_wrap(nn::Module& root, const WrapPolicy& policy);
/// Error naming the classes present (and the nearest) unless each of `classes` occurs below root.
void check_classes(nn::Module& root, const std::set<std::string>& classes);

}  // namespace tessera
