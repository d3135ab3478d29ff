// SPDX-License-Identifier: Apache-2.0
// The gradients of a module under FSDP.
#pragma once

#include <string>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera {

/// Scales all gradients of a module by max_norm / (norm + 1e-6) if that is below 1, and returns the norm before scaling.
/// The norm is that of all gradients together, complete on every device: the 2-norm for 2, the largest magnitude for
/// infinity, else the p-norm. Call it on the root unit after backward() and outside of NoSync. Errors: the module is a
/// unit below a root; max_norm or norm_type is not positive; there is no gradient.
Tensor clip_grad_norm_(nn::Module& module, double max_norm, double norm_type = 2);

/// Within this scope, backward() adds up gradients without reducing them over the devices: every device keeps the partial
/// gradients of its rows of the batch, complete in size. The first backward() outside of such a scope reduces the sum of
/// all. The forward pass must be in the same scope as its backward pass. Error for a unit below a root.
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

/// Reduces each gradient by one all-reduce over all devices that shard the batch, after which the devices keep their
/// parts. The devices add in the order of their ranks, so the gradients have the same bits on every mesh of `data` and
/// `fsdp` axes over the same devices. This receives up to twice the bytes of the default, and holds one complete gradient
/// at a time. Call it before the forward pass, on any module.
void reduce_gradients_at_once(const nn::Module& module);

/// Scales gradients. In PyTorch/XLA, gradients are divided by `pre` before and by `post` after the sum over the n devices
/// that shard the batch, and pre * post = n gives the mean. A gradient here is that of the traced loss, so that the
/// default needs no division; other factors scale it by n / (pre * post). `recursive`: also in units below. Error for
/// factors that are not positive.
void set_gradient_divide_factors(nn::Module& module, double pre, double post, std::int64_t devices,
                                 bool recursive = true);

}  // namespace tessera
