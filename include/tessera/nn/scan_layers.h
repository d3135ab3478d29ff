// SPDX-License-Identifier: Apache-2.0
// A loop over equal layers. The program contains only one layer, for any number of layers.
//
//   nn::ScanLayers<Block> h(config.n_layer, config);      in place of ModuleList<Block> and a for loop
//   x = h(x);
//
// The parameters of the layers are stacked: each parameter of Block is one variable [layers, …] of the model, which the
// optimizer updates as one. State dicts and files contain one entry for each layer, `h.3.attn.weight`, as those of a
// ModuleList.
#pragma once

#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/frontend/tensor/stack.h"
#include "tessera/nn/module.h"

namespace tessera::nn {
namespace detail {

/// Makes each parameter of the layer a stack of `count` variables. Error if the layer has buffers.
void stack_layers(Module& layer, std::int64_t count);
/// Traces `call` once as the body of the loop. In it, the parameters of `layer` are those of the layer of the
/// iteration.
Tensor scan_layers(Module& layer, const Tensor& x, bool checkpoint, const std::function<Tensor(const Tensor&)>& call,
                   const std::source_location& where);

}  // namespace detail

/// `M(x)` must return a tensor of the type of x. All layers have the same constructor arguments. They have different
/// initial values and different dropout masks. Error if M has buffers (batch norm). FSDP treats M as one unit: each
/// iteration gathers the parameters of one layer, and the backward pass gathers them again.
template <class M>
class ScanLayers : public Callable<ScanLayers<M>> {
 public:
  template <class... Args>
  explicit ScanLayers(std::int64_t count, Args&&... args) : count_(count), layer_(std::forward<Args>(args)...) {
    this->add_module(std::string(kEachOfStack), layer_);
    detail::stack_layers(layer_, count);
  }
  Tensor forward(const Tensor& x) {
    return detail::scan_layers(
        layer_, x, checkpoint_, [this](const Tensor& h) { return layer_(h); }, std::source_location::current());
  }
  /// The layer whose parameters are the stacks.
  [[nodiscard]] M& layer() { return layer_; }
  [[nodiscard]] std::int64_t size() const { return count_; }
  /// If `on`, the backward pass computes the values of a layer again, and only the input of the layer is kept.
  void set_checkpoint(bool on = true) { checkpoint_ = on; }
  [[nodiscard]] std::string_view class_name() const override { return "ScanLayers"; }
  [[nodiscard]] bool is_container() const override { return true; }

 private:
  std::int64_t count_;
  bool checkpoint_ = false;
  M layer_;
};

}  // namespace tessera::nn
