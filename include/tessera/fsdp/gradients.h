// SPDX-License-Identifier: Apache-2.0
// The gradients of a module under FSDP.
#pragma once

#include <string>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera {

/// Scales all gradients of a module by max_norm / (norm + 1e-6) if that is below 1, and returns the norm before
/// scaling. The norm is that of all complete gradients together: the p-norm for p = norm_type, or the largest magnitude
/// for infinity. Call it on the root unit, after backward() and outside of NoSync. Errors: the module is a unit below a
/// root; max_norm or norm_type is not positive; there is no gradient.
Tensor clip_grad_norm_(nn::Module& module, double max_norm, double norm_type = 2);

/// In this scope, backward() accumulates gradients without reducing them over the devices. Every device keeps an
/// unsharded partial value of each gradient, from its rows of the batch. The first backward() outside of the scope
/// reduces the sum. A forward pass must be in the same scope as its backward pass. Error for a unit below a root.
class NoSync {
 public:
  explicit NoSync(nn::Module& module);
  ~NoSync();
  NoSync(NoSync&& other) noexcept : parameters_(std::move(other.parameters_)) { other.parameters_.clear(); }
  NoSync& operator=(NoSync&&) = delete;
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  std::vector<Tensor> parameters_;
};

/// Reduces each gradient by one all-reduce over all devices that shard the batch, of which each device keeps its part.
/// The all-reduce adds in the order of the ranks, so the gradients have the same bits on every mesh of `data` and
/// `fsdp` axes over the same devices. Compared with the default, devices receive up to twice the bytes, and hold one
/// complete gradient at a time. Call it before the forward pass, on any module.
void reduce_gradients_at_once(const nn::Module& module);

/// Multiplies gradients by devices / (pre * post). In PyTorch/XLA, gradients are divided by `pre` before and by `post`
/// after the sum over the `devices` devices that shard the batch, so pre * post = devices gives the mean. In Tessera, a
/// gradient is that of the traced loss, so the mean needs no division. If `recursive`, also scales the gradients of
/// units below this one. Error for factors that are not positive.
void set_gradient_divide_factors(nn::Module& module, double pre, double post, std::int64_t devices,
                                 bool recursive = true);

}  // namespace tessera
