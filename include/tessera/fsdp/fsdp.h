// SPDX-License-Identifier: Apache-2.0
// Fully sharded data parallelism: parameters, gradients and optimizer state are sharded, and the parameters of a unit
// are gathered where they are used. This module does not communicate. It gives parameters shardings and marks, and the
// partitioner inserts the collectives (Zhao et al., PyTorch FSDP, 2023; Xu et al., GSPMD, 2021).
//
//   const auto policy = transformer_auto_wrap_policy({"GPT2Block"});
//   FullyShardedDataParallel wrapped(model, {.mesh = mesh, .auto_wrap_policy = policy});
//   Tensor loss = wrapped(tokens, labels);
//
// Inputs are sharded, too. If a batch is a complete tensor (Tensor::from), its rows are sharded over the axes data and
// fsdp of the mesh. A batch with its own sharding (mark_sharding, Tensor::from_local_shards) keeps it.
// fully_shard(model, options) shards the parameters in the same way without a wrapper.
#pragma once

#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/fsdp/gradients.h"
#include "tessera/fsdp/options.h"
#include "tessera/fsdp/units.h"
#include "tessera/fsdp/wrap_policy.h"
#include "tessera/nn/module.h"

namespace tessera {

/// Returns a message about a unit of the module of which the trace uses no parameter, or "". Ignores frozen units.
std::string unused_unit(nn::Module& module);
/// Error if there is an unused_unit().
void check_units_are_used(nn::Module& module);

/// A module under FSDP. It is a Module with the same names as the module that it wraps: `wrapped.state_dict()` has no
/// prefix. `wrapped->member` and `wrapped[i]` access the wrapped module. The first call in training mode checks that
/// every unit is used.
template <class M>
class FullyShardedDataParallel : public nn::Callable<FullyShardedDataParallel<M>> {
 public:
  explicit FullyShardedDataParallel(M& module, const FsdpOptions& options = {}) : module_(module), options_(options) {
    this->add_wrapped_module(module);
    const std::vector<FsdpUnit> units = fully_shard(module, options);
    notes_ = units.front().notes;
  }
  [[nodiscard]] std::string_view class_name() const override { return "FullyShardedDataParallel"; }

  template <class... Args>
  auto forward(Args&&... args) {
    if constexpr (std::is_void_v<decltype(module_(input(std::forward<Args>(args))...))>) {
      module_(input(std::forward<Args>(args))...);
      check_units();
    } else {
      auto result = module_(input(std::forward<Args>(args))...);
      check_units();
      return result;
    }
  }

  [[nodiscard]] M& module() { return module_; }
  M* operator->() { return &module_; }
  template <class Index>
  decltype(auto) operator[](Index&& index) {
    return module_[std::forward<Index>(index)];
  }
  [[nodiscard]] std::vector<FsdpUnit> units() const {
    std::vector<FsdpUnit> out = fsdp_units(module_);
    out.front().notes = notes_;
    return out;
  }
  /// Clips all gradients (gradients.h).
  Tensor clip_grad_norm_(double max_norm, double norm_type = 2) {
    return tessera::clip_grad_norm_(module_, max_norm, norm_type);
  }
  /// Accumulates gradients without reducing them while the result exists (gradients.h).
  [[nodiscard]] NoSync no_sync() { return NoSync(module_); }
  /// Scales gradients (gradients.h). Without this call they are those of the loss.
  void set_gradient_divide_factors(double pre, double post, std::int64_t devices, bool recursive = true) {
    tessera::set_gradient_divide_factors(module_, pre, post, devices, recursive);
  }
  [[nodiscard]] std::vector<ShardMetadata> get_shard_metadata() { return tessera::get_shard_metadata(module_); }
  [[nodiscard]] std::vector<OriginalParameter> get_original_names_and_sharded_parameters(
      const std::string& unit = "root") {
    return tessera::get_original_names_and_sharded_parameters(module_, unit);
  }
  /// The tree of modules with units, shapes, shardings and bytes, and the table of units.
  [[nodiscard]] std::string str() const { return fsdp_tree(module_) + unit_report(units()); }
  friend std::ostream& operator<<(std::ostream& out, const FullyShardedDataParallel& wrapped) {
    return out << wrapped.str();
  }

 private:
  // A tensor with its rows sharded, in the type of the computation. Other arguments stay.
  template <class T>
  decltype(auto) input(T&& arg) {
    if constexpr (std::is_same_v<std::remove_cvref_t<T>, Tensor>) {
      shard_input(arg, options_);
      return cast_input(arg, options_);
    } else {
      return std::forward<T>(arg);
    }
  }

  void check_units() {
    if (units_are_used_ || !module_.is_training()) return;
    check_units_are_used(module_);
    units_are_used_ = true;
  }

  M& module_;
  FsdpOptions options_;
  std::vector<std::string> notes_;
  bool units_are_used_ = false;
};

}  // namespace tessera
