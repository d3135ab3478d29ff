// SPDX-License-Identifier: Apache-2.0
// Equal layers, one after the other, as one loop: the program contains one layer, whatever their number.
//
//   nn::ScanLayers<Block> h(config.n_layer, config);      in place of ModuleList<Block> and a for loop
//   x = h(x);
//
// The parameters of the layers are stored stacked: each parameter of Block is one variable [layers, …] of the model, which
// an optimizer updates at once. State dicts and files contain one entry for each layer, `h.3.attn.weight`, as those of a
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

/// Makes each parameter of the layer a stack of `count`. Error for buffers.
void stack_layers(Module& layer, std::int64_t count);
/// Calls `call` once for all layers, with the parameters of `layer` standing for those of one of them.
Tensor scan_layers(Module& layer, const Tensor& x, bool checkpoint, const std::function<Tensor(const Tensor&)>& call,
                   const std::source_location& where);

}  // namespace detail

/// `M(x)` maps a tensor to a tensor of the same type. The layers are constructed alike, and dim 0 of the initial values
/// counts the layers; dropout differs between layers. Layers with buffers (batch norm) are an error. FSDP treats M as one
/// unit: the parameters of one layer are gathered in each iteration, and again in the backward pass.
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
  /// The layer that stands for all. Its parameters are stacks.
  [[nodiscard]] M& layer() { return layer_; }
  [[nodiscard]] std::int64_t size() const { return count_; }
  /// From now on the backward pass computes the values of a layer again; only its input is kept.
  void set_checkpoint(bool on = true) { checkpoint_ = on; }
  [[nodiscard]] std::string_view class_name() const override { return "ScanLayers"; }
  [[nodiscard]] bool is_container() const override { return true; }

 private:
  std::int64_t count_;
  bool checkpoint_ = false;
  M layer_;
};

}  // namespace tessera::nn
