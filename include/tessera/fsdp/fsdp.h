// SPDX-License-Identifier: Apache-2.0
// Fully sharded data parallel: parameters, gradients and optimizer state live sharded; a unit's weights are gathered where they are
// used. Nothing here communicates: units are shardings and marks that the partitioner turns into collectives.
//
//   FullyShardedDataParallel wrapped(model, {.mesh = mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"GPT2Block"})});
//   Tensor loss = wrapped(tokens, labels);
//
// Inputs are shared out too: a batch given whole (Tensor::from) is cut by rows over the mesh's data and fsdp axes. One that says how it
// lies (mark_sharding, Tensor::from_local_shards) is taken so.
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

/// Element types other than the parameters' own, as in PyTorch's FSDP.
struct MixedPrecision {
  /// Parameters are gathered and used in it; they, their gradients and optimizer state are stored as they are.
  std::optional<DType> param_dtype{};
  /// Gradients are reduced in it; none: in the parameter's own type.
  std::optional<DType> reduce_dtype{};
};

struct FsdpOptions {
  /// None: the default mesh, or `fsdp` over all devices when none was set.
  std::optional<Mesh> mesh{};
  /// None: the repeated block.
  WrapPolicy auto_wrap_policy{};
  /// Gather again in the backward pass (ZeRO-3); false keeps gathered weights from forward to backward (ZeRO-2).
  bool reshard_after_forward = true;
  /// The root unit's own parameters stay gathered.
  bool disable_reshard_on_root = true;
  MixedPrecision mixed_precision{};
  /// Shard over this axis; "": `fsdp`, else `data`.
  std::string axis{};
};

/// What one unit holds.
struct FsdpUnit {
  std::string name;  // module path; "(root)" for the rest
  std::string class_name;
  std::vector<std::string> parameters;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;             // gathered, of one device, in the type of computation
  std::int64_t bytes_per_device = 0;  // stored
};

/// Makes units of `module`: marks parameters and modules. A parameter with several users (a tied head) belongs to the
/// innermost unit that holds them all. Errors: already wrapped, built after an optimizer, no such axis.
std::vector<FsdpUnit> fully_shard(nn::Module& module, const FsdpOptions& options);
/// A table of the units, sizes and totals.
std::string unit_report(const std::vector<FsdpUnit>& units);

/// Marks an input that holds data and says nothing of how it lies: rows over `data` and `fsdp` (and the axis of the options).
void share_out_input(const Tensor& input, const FsdpOptions& options);

template <class M>
class FullyShardedDataParallel {
 public:
  explicit FullyShardedDataParallel(M& module, const FsdpOptions& options = {})
      : module_(module), options_(options), units_(fully_shard(module, options)) {}
  template <class... Args>
  auto operator()(Args&&... args) {
    const auto input = [this]<class T>(const T& arg) {
      if constexpr (std::is_same_v<T, Tensor>) share_out_input(arg, options_);
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
