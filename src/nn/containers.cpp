// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/containers.h"

namespace tessera::nn {
namespace {

// A function as an element of a Sequential.
class Lambda : public Module {};

}  // namespace

void Sequential::append(std::shared_ptr<Module> module, std::function<Tensor(const Tensor&)> call) {
  register_module(std::to_string(calls_.size()), std::move(module));
  calls_.push_back(std::move(call));
}

void Sequential::push_back(std::function<Tensor(const Tensor&)> function) {
  require(static_cast<bool>(function), "Sequential: element {} is an empty function", size());
  append(std::make_shared<Lambda>(), std::move(function));
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor out = x;
  for (const auto& call : calls_) out = call(out);
  return out;
}

Module& Sequential::operator[](int i) {
  const int index = i < 0 ? i + size() : i;
  require(index >= 0 && index < size(), "there is no module {}; the Sequential has {}", i, size());
  return *children()[static_cast<std::size_t>(index)].second;
}

bool Sequential::is_container() const {
  for (const auto& [name, child] : children())
    if (child->class_name() != children().front().second->class_name()) return false;
  return size() > 1;
}

}  // namespace tessera::nn
