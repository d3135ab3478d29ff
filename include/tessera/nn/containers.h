// SPDX-License-Identifier: Apache-2.0
// Modules that hold other modules: Sequential, ModuleList, ModuleDict.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera::nn {

/// Makes a module for a container or register_module(): make<Linear>(784, 128).
template <class M, class... Args>
std::shared_ptr<M> make(Args&&... args) {
  return std::make_shared<M>(std::forward<Args>(args)...);
}

/// Calls its modules one after the other, each with the result of the one before. They are children "0", "1", …. An
/// element may also be a function from Tensor to Tensor.
///
///   nn::Sequential mlp(nn::make<nn::Linear>(784, 128), nn::make<nn::ReLU>(), nn::make<nn::Linear>(128, 10));
///   mlp.emplace<nn::Dropout>(0.1);
class Sequential : public Callable<Sequential> {
 public:
  Sequential() = default;
  template <class... Elements>
  explicit Sequential(Elements... elements) {
    static_assert((!std::derived_from<Elements, Module> && ...),
                  "modules cannot be copied: pass nn::make<nn::Linear>(2, 3) instead of nn::Linear(2, 3)");
    (push_back(std::move(elements)), ...);
  }
  /// Makes a module and appends it.
  template <class M, class... Args>
  M& emplace(Args&&... args) {
    auto module = std::make_shared<M>(std::forward<Args>(args)...);
    M& out = *module;
    push_back(std::move(module));
    return out;
  }
  template <class M>
    requires std::derived_from<M, Module>
  void push_back(std::shared_ptr<M> module) {
    require(module != nullptr, "Sequential: element {} is null", size());
    M* const called = module.get();
    append(std::move(module), [called](const Tensor& x) -> Tensor { return (*called)(x); });
  }
  void push_back(std::function<Tensor(const Tensor&)> function);
  Tensor forward(const Tensor& x);
  [[nodiscard]] int size() const { return static_cast<int>(calls_.size()); }
  /// The module with this index; negative indices count from the end. Error if there is none.
  [[nodiscard]] Module& operator[](int i);
  /// The module with this index, as its class M. Error if the module has another class.
  template <class M>
  [[nodiscard]] M& get(int i) {
    auto* const module = dynamic_cast<M*>(&(*this)[i]);
    require(module != nullptr, "Sequential: module {} is a {}", i, (*this)[i].class_name());
    return *module;
  }
  /// True if all modules have the same class, so that each may be an FSDP unit.
  [[nodiscard]] bool is_container() const override;

 private:
  void append(std::shared_ptr<Module> module, std::function<Tensor(const Tensor&)> call);
  std::vector<std::function<Tensor(const Tensor&)>> calls_;
};

/// A list of modules of one class, or of one base class: children "0", "1", ….
template <class M>
class ModuleList : public Module {
 public:
  /// Makes a module of class M and appends it.
  template <class... Args>
  M& emplace(Args&&... args) {
    return push_back(std::make_shared<M>(std::forward<Args>(args)...));
  }
  /// Appends a module.
  M& push_back(std::shared_ptr<M> module) {
    register_module(std::to_string(items_.size()), module);
    items_.push_back(std::move(module));
    return *items_.back();
  }
  /// The same as push_back.
  M& append(std::shared_ptr<M> module) { return push_back(std::move(module)); }
  [[nodiscard]] int size() const { return static_cast<int>(items_.size()); }
  [[nodiscard]] M& operator[](int i) {
    require(i >= 0 && static_cast<std::size_t>(i) < items_.size(), "there is no module {}; the list has {}", i,
            items_.size());
    return *items_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::string_view class_name() const override { return "ModuleList"; }
  [[nodiscard]] bool is_container() const override { return true; }
  [[nodiscard]] auto begin() { return items_.begin(); }
  [[nodiscard]] auto end() { return items_.end(); }

 private:
  std::vector<std::shared_ptr<M>> items_;
};

/// Modules of one class, or of one base class, by name.
template <class M>
class ModuleDict : public Module {
 public:
  /// Makes a module of class M under a new name. Error if the name exists.
  template <class... Args>
  M& emplace(const std::string& name, Args&&... args) {
    return insert(name, std::make_shared<M>(std::forward<Args>(args)...));
  }
  /// Adds a module under a new name. Error if the name exists.
  M& insert(const std::string& name, std::shared_ptr<M> module) {
    register_module(name, module);
    items_.emplace_back(name, std::move(module));
    return *items_.back().second;
  }
  [[nodiscard]] int size() const { return static_cast<int>(items_.size()); }
  [[nodiscard]] bool contains(std::string_view name) const {
    for (const auto& [known, module] : items_)
      if (known == name) return true;
    return false;
  }
  /// Error, with the nearest name, if there is no such module.
  [[nodiscard]] M& operator[](std::string_view name) {
    std::vector<std::string> known;
    for (const auto& [item, module] : items_) {
      if (item == name) return *module;
      known.push_back(item);
    }
    fail("there is no module {}{}", name, suggest_name(name, known));
  }
  [[nodiscard]] std::string_view class_name() const override { return "ModuleDict"; }
  [[nodiscard]] bool is_container() const override { return true; }
  [[nodiscard]] auto begin() { return items_.begin(); }
  [[nodiscard]] auto end() { return items_.end(); }

 private:
  std::vector<std::pair<std::string, std::shared_ptr<M>>> items_;
};

}  // namespace tessera::nn
