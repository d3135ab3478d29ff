// SPDX-License-Identifier: Apache-2.0
// On random trees of modules, with tied and frozen parameters, sharded ones, and modules that occur twice, every policy
// gives the units of the recursion that PyTorch defines.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "frontend/on_ranks.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/fsdp.h"

namespace tessera {
namespace {

/// A module of a random tree.
class RandomNode : public nn::Module {
 public:
  explicit RandomNode(std::string name) : class_name_(std::move(name)) {}
  std::string_view class_name() const override { return class_name_; }
  void add(const std::string& name, std::int64_t size) {
    add_parameter(name, Type::array(DType::kF32, {size}), [](Builder&, const Type&) { return Value(); });
  }
  void share(const std::string& name, const Tensor& tensor) { add_shared_parameter(name, tensor); }
  void add_child(const std::string& name, const std::shared_ptr<RandomNode>& child) { register_module(name, child); }

 private:
  std::string class_name_;
};

class RandomTree {
 public:
  explicit RandomTree(std::uint32_t seed) : random_(seed) { root_ = node(0); }
  RandomNode& root() { return *root_; }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint32_t>(limit)); }

  std::shared_ptr<RandomNode> node(int depth) {
    static constexpr const char* kClasses[] = {"Block", "Linear", "MultiheadAttention", "ModuleList", "Norm"};
    auto out = std::make_shared<RandomNode>(kClasses[below(5)]);
    for (int i = below(3); i > 0; --i) {
      const std::string name = "p" + std::to_string(i);
      if (!tensors_.empty() && below(4) == 0) {
        out->share(name, tensors_[static_cast<std::size_t>(below(static_cast<int>(tensors_.size())))]);
        continue;
      }
      out->add(name, 2 * (1 + below(20)));
      tensors_.push_back(out->own_parameters().back().tensor);
      if (below(4) == 0) tensors_.back().set_requires_grad(false);
    }
    const int children = depth < 4 ? below(4) : 0;
    for (int i = 0; i < children; ++i) {
      const auto child = node(depth + 1);
      out->add_child("c" + std::to_string(i), child);
      if (below(6) == 0) out->add_child("again" + std::to_string(i), child);
    }
    return out;
  }

  std::mt19937 random_;
  std::vector<Tensor> tensors_;
  std::shared_ptr<RandomNode> root_;
};

// ---- the definition -----------------------------------------------------------------------------------------------------

using Ask = std::function<bool(const nn::Module&, bool recurse, std::int64_t parameters)>;

std::int64_t distinct_elements(const nn::Module& module) {
  std::set<const TensorImpl*> seen;
  std::int64_t count = 0;
  for (const auto& parameter : module.all_parameter_paths())
    if (seen.insert(&parameter.tensor.impl()).second) count += parameter.tensor.element_count();
  return count;
}

std::int64_t define_units(const nn::Module& module, const std::string& path, bool is_root, const Ask& ask,
                          std::map<const nn::Module*, std::string>& units) {
  const std::int64_t all = distinct_elements(module);
  if (!ask(module, true, all)) return 0;
  std::int64_t taken = 0;
  std::set<const nn::Module*> children;
  for (const auto& [name, child] : module.children())
    if (children.insert(child).second) taken += define_units(*child, path + "." + name, false, ask, units);
  if (is_root || !ask(module, false, all - taken)) return taken;
  units.try_emplace(&module, path.substr(1));
  return all;
}

std::set<std::string> defined_units(const nn::Module& root, const Ask& ask) {
  std::map<const nn::Module*, std::string> units;
  define_units(root, "", true, ask, units);
  std::set<std::string> out;
  for (const auto& [module, path] : units) out.insert(path);
  return out;
}

std::set<std::string> wrapped_units(nn::Module& root, const WrapPolicy& policy) {
  std::set<std::string> out;
  for (const auto& [path, module] : modules_to_wrap(root, policy)) out.insert(path);
  return out;
}

TEST(WrapRecursion, GivesTheUnitsOfItsDefinitionOnRandomModules) {
  constexpr std::uint32_t kTrees = 300;
  std::size_t most_units = 0;
  for (std::uint32_t seed = 0; seed < kTrees; ++seed) {
    const FreshRank rank;
    plan_for_devices(2);
    RandomTree tree(seed);
    if (seed % 3 == 1)  // sharded modules count complete parameters
      for (const Tensor& parameter : tree.root().parameters()) mark_sharding(parameter, Mesh({{"fsdp", 2}}), {"fsdp"});
    const auto size = static_cast<std::int64_t>(5 + seed % 60);
    const auto by_size = [&](const nn::Module& module, bool recurse, std::int64_t parameters) {
      return parameters >= size && module.class_name() != (recurse ? "MultiheadAttention" : "ModuleList");
    };
    const auto is_block = [](const nn::Module& module) { return module.class_name() == "Block"; };
    const auto by_class = [&](const nn::Module& module, bool recurse, std::int64_t) {
      return recurse || is_block(module);
    };
    const auto always = [](const nn::Module&, bool, std::int64_t) { return true; };
    EXPECT_EQ(wrapped_units(tree.root(), size_based_auto_wrap_policy(size)), defined_units(tree.root(), by_size))
        << seed;
    EXPECT_EQ(wrapped_units(tree.root(), lambda_auto_wrap_policy(is_block)), defined_units(tree.root(), by_class))
        << seed;
    EXPECT_EQ(wrapped_units(tree.root(), always_wrap_policy()), defined_units(tree.root(), always)) << seed;
    const auto modules = tree.root().named_modules();
    const bool has_blocks =
        std::any_of(modules.begin(), modules.end(), [&](const auto& m) { return is_block(*m.module); });
    if (has_blocks) {
      EXPECT_EQ(wrapped_units(tree.root(), transformer_auto_wrap_policy({"Block"})),
                defined_units(tree.root(), by_class));
    }
    most_units = std::max(most_units, defined_units(tree.root(), always).size());
  }
  EXPECT_GT(most_units, 20U);
}

TEST(WrapRecursion, EveryParameterOfARandomModuleBelongsToOneUnitAroundAllOfItsUsers) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const FreshRank rank;
    plan_for_devices(2);
    RandomTree tree(seed);
    FsdpOptions options{.mesh = Mesh({{"fsdp", 2}})};
    options.auto_wrap_policy = size_based_auto_wrap_policy(10);
    const auto units = fully_shard(tree.root(), options);
    std::int64_t elements = 0;
    for (const auto& unit : units) elements += unit.elements;
    EXPECT_EQ(elements, tree.root().parameter_count()) << seed;
    for (const auto& path : tree.root().all_parameter_paths()) {
      const auto& unshard = path.tensor.impl().unshard;
      if (!unshard || unshard->unit == "root" || path.name.find("again") != std::string::npos) continue;
      EXPECT_TRUE(path.name.starts_with(unshard->unit + ".")) << path.name;
    }
  }
}

}  // namespace
}  // namespace tessera
