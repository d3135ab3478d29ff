// SPDX-License-Identifier: Apache-2.0
// Strategies give a sharding to all parameters that are created in a scope, as TensorFlow's TPUStrategy.
//
//   const nn::TPUStrategy strategy(Mesh::parse("data=8"));
//   const auto scope = strategy.scope();
//   Model model(config);                                    replicated over the 8 devices
//
//   const nn::TPUStrategy sharded(Mesh::parse("data=2,fsdp=4"), nn::sharded_parameters("fsdp"));
//   const auto other = sharded.create<Model>(config);       each parameter is sharded over `fsdp`
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// A parameter or buffer that a module creates.
struct NewVariable {
  const Module& module;     // its class_name() is that of the class whose constructor runs
  const std::string& name;  // within the module: `weight`
  Dims dims;
  bool is_buffer = false;
};

/// Returns the spec of a new variable; nullopt: the variable gets no sharding.
using VariablePolicy = std::function<std::optional<PartitionSpec>(const NewVariable& variable, const Mesh& mesh)>;

/// Every device holds all parameters and buffers, as in TensorFlow.
VariablePolicy replicated_parameters();
/// Shards each parameter along the largest dim whose size is divisible by the size of `axis`; of equal dims, the first
/// one. Parameters without such a dim, or with less than `least_elements` elements, and all buffers are replicated.
/// Error, when a variable is created: the mesh has no such axis.
VariablePolicy sharded_parameters(std::string axis, std::int64_t least_elements = 0);

class TPUStrategy;

/// While this object exists, the variables that modules of this rank create get their sharding from the strategy.
/// Scopes may be nested: the innermost one applies.
class [[nodiscard]] StrategyScope {
 public:
  explicit StrategyScope(const TPUStrategy& strategy);
  ~StrategyScope();
  StrategyScope(const StrategyScope&) = delete;
  StrategyScope& operator=(const StrategyScope&) = delete;

 private:
  const TPUStrategy* outer_;
};

/// A mesh, and a policy that gives new variables shardings over this mesh.
class TPUStrategy {
 public:
  explicit TPUStrategy(Mesh mesh, VariablePolicy policy = replicated_parameters())
      : mesh_(std::move(mesh)), policy_(std::move(policy)) {}

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// The number of devices of the mesh.
  [[nodiscard]] std::int64_t num_replicas_in_sync() const { return mesh_.device_count(); }
  /// The strategy must outlive the scope.
  StrategyScope scope() const& { return StrategyScope(*this); }
  StrategyScope scope() const&& = delete;
  /// Makes a module in the scope of the strategy.
  template <class M, class... Args>
  [[nodiscard]] std::unique_ptr<M> create(Args&&... args) const {
    const StrategyScope inside(*this);
    return std::make_unique<M>(std::forward<Args>(args)...);
  }
  /// Shards a new variable, unless it has a sharding already. Errors: those of mark_sharding(), and those of the
  /// policy.
  void apply(const NewVariable& variable, const Tensor& tensor) const;

 private:
  Mesh mesh_;
  VariablePolicy policy_;
};

namespace detail {
/// Applies the strategy of the innermost scope of this rank, if there is one.
void apply_strategy(const Module& module, const std::string& name, const Tensor& tensor, bool is_buffer);
}  // namespace detail

}  // namespace tessera::nn
