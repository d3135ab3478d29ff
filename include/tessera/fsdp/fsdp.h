// SPDX-License-Identifier: Apache-2.0
// Fully sharded data parallelism: parameters, gradients and optimizer state are sharded, and the parameters of a unit
// are gathered where they are used. This module does not communicate: units are shardings and marks that the
// partitioner turns into collectives (Zhao et al., PyTorch FSDP, 2023; Xu et al., GSPMD, 2021).
//
//   const auto policy = transformer_auto_wrap_policy({"GPT2Block"});
//   FullyShardedDataParallel wrapped(model, {.mesh = mesh, .auto_wrap_policy = policy});
//   Tensor loss = wrapped(tokens, labels);
//
// Inputs are sharded too: the rows of a batch that is passed as a complete tensor (Tensor::from) are sharded over the
// axes data and fsdp of the mesh. A batch with its own sharding (mark_sharding, Tensor::from_local_shards) keeps it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/fsdp/wrap_policy.h"
#include "tessera/nn/module.h"
#include "tessera/sharding/mesh.h"

namespace tessera {

/// Element types that differ from those of the parameters, as in PyTorch's FSDP.
struct MixedPrecision {
  /// Parameters are gathered and used in this type. Parameters, gradients and optimizer state are stored in the type
  /// of the parameter.
  std::optional<DType> param_dtype{};
  /// Gradients are reduced in this type; nullopt: in the type of the parameter.
  std::optional<DType> reduce_dtype{};
};

struct FsdpOptions {
  /// Nullopt: the default mesh, or `fsdp` over all devices if no default was set.
  std::optional<Mesh> mesh{};
  /// Null: the class of the repeated block.
  WrapPolicy auto_wrap_policy{};
  /// Gather again in the backward pass (ZeRO-3); false keeps gathered weights from forward to backward (ZeRO-2).
  bool reshard_after_forward = true;
  /// The parameters of the root unit stay gathered.
  bool disable_reshard_on_root = true;
  MixedPrecision mixed_precision{};
  /// The axis over which parameters are sharded; "": `fsdp`, else `data`.
  std::string axis{};
};

/// The content of one unit.
struct FsdpUnit {
  std::string name;  // module path; "(root)" for the root unit
  std::string class_name;
  std::vector<std::string> parameters;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;             // gathered, on one device, in the type of computation
  std::int64_t bytes_per_device = 0;  // stored
};

/// Makes units of `module` by marking parameters and modules. A parameter with several users (a tied head) belongs to
/// the innermost unit that contains them all. Errors: the module is already wrapped; an optimizer exists already; the
/// axis does not exist.
std::vector<FsdpUnit> fully_shard(nn::Module& module, const FsdpOptions& options);
/// Returns a table of the units with sizes and totals.
std::string unit_report(const std::vector<FsdpUnit>& units);

/// Shards the rows of an input over `data` and `fsdp` (and the axis of the options), if the input holds data and has
/// no sharding.
void shard_input(const Tensor& input, const FsdpOptions& options);

template <class M>
class FullyShardedDataParallel {
 public:
  explicit FullyShardedDataParallel(M& module, const FsdpOptions& options = {})
      : module_(module), options_(options), units_(fully_shard(module, options)) {}
  template <class... Args>
  auto operator()(Args&&... args) {
    const auto input = [this]<class T>(const T& arg) {
      if constexpr (std::is_same_v<T, Tensor>) shard_input(arg, options_);
    };
    (input(args), ...);
    return module_(std::forward<Args>(args)...);
  }
  [[nodiscard]] M& module() { return module_; }
  [[nodiscard]] std::vector<Tensor> parameters() const { return module_.parameters(); }
  [[nodiscard]] const std::vector<FsdpUnit>& units() const { return units_; }
  [[nodiscard]] std::string str() const { return module_.str() + unit_report(units_); }

 private:
  M& module_;
  FsdpOptions options_;
  std::vector<FsdpUnit> units_;
};

}  // namespace tessera
