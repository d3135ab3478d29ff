// SPDX-License-Identifier: Apache-2.0
// PyTorch/XLA's SpmdFullyShardedDataParallel (FSDPv2) under its name: FSDP over the axis `fsdp` of a mesh, with results
// that are sharded by rows.
//
//   SpmdFullyShardedDataParallel wrapped(model, {.mesh = Mesh({{"data", 2}, {"fsdp", 4}}), .extra_data_axis = "data"});
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/tree.h"
#include "tessera/fsdp/fsdp.h"

namespace tessera {

struct SpmdFsdpOptions {
  /// Nullopt: the default mesh. It must have an axis `fsdp`.
  std::optional<Mesh> mesh{};
  /// Shards the tensors of the result. Null: the rows of each tensor are sharded over extra_data_axis and fsdp.
  std::function<void(std::vector<Tensor>& results, const Mesh& mesh)> shard_output{};
  WrapPolicy auto_wrap_policy{};
  std::function<void(nn::Module& module, FsdpOptions& options)> auto_wrapper_callable{};
  /// An axis that also shards the rows of the batch, and over which parameters are replicated.
  std::string extra_data_axis{};
};

/// Returns the options of fully_shard() that correspond to `options`. They shard each parameter along its largest dim.
/// Errors: no axis `fsdp`; no axis extra_data_axis.
FsdpOptions spmd_fsdp_options(const SpmdFsdpOptions& options);
/// Shards the rows of every tensor with dims over extra_data_axis and fsdp, and returns them.
std::vector<Tensor> with_sharded_rows(std::vector<Tensor> results, const SpmdFsdpOptions& options);

/// FullyShardedDataParallel with these options. Shards all tensors of the result, including those in tuples.
template <class M>
class SpmdFullyShardedDataParallel : public FullyShardedDataParallel<M> {
 public:
  explicit SpmdFullyShardedDataParallel(M& module, SpmdFsdpOptions options = {})
      : FullyShardedDataParallel<M>(module, spmd_fsdp_options(options)), spmd_options_(std::move(options)) {}
  [[nodiscard]] std::string_view class_name() const override { return "SpmdFullyShardedDataParallel"; }

  template <class... Args>
  auto operator()(Args&&... args) {
    auto result = FullyShardedDataParallel<M>::operator()(std::forward<Args>(args)...);
    return tree_with_leaves(result, with_sharded_rows(tree_leaves(result), spmd_options_));
  }

 private:
  SpmdFsdpOptions spmd_options_;
};

}  // namespace tessera
