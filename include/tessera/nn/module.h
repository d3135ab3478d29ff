// SPDX-License-Identifier: Apache-2.0
// Modules: named parameters and submodules. A module is an object with an address; its submodules are members.
//
//   class TwoLayers : public nn::Callable<TwoLayers> {
//    public:
//     TwoLayers() { add_module("first", first_); add_module("second", second_); }
//     Tensor forward(const Tensor& x) { return second_(relu(first_(x))); }
//     std::string_view class_name() const override { return "TwoLayers"; }
//    private:
//     nn::Linear first_{784, 128}, second_{128, 10};
//   };
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/frontend/tracing/trace.h"

namespace tessera::nn {

class Module;

/// A parameter as a model names it.
struct NamedParameter {
  std::string name;  // transformer.h.0.attn.c_attn.weight
  Tensor tensor;
  Dims exported_dims;  // the shape that files and other frameworks know; same elements in the same order
};
struct NamedModule {
  std::string path;  // "" for the module itself
  Module* module = nullptr;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// What wrap policies and reports call it: `GPT2Block`.
  [[nodiscard]] virtual std::string_view class_name() const = 0;
  /// True for classes that only hold others (ModuleList); policies by size leave them out.
  [[nodiscard]] virtual bool is_container() const { return false; }

  /// All parameters below, depth first in order of registration; a tied parameter once, under its first name.
  [[nodiscard]] std::vector<NamedParameter> named_parameters() const;
  [[nodiscard]] std::vector<Tensor> parameters() const;
  /// Every path a parameter is reached by, tied ones more than once.
  [[nodiscard]] std::vector<NamedParameter> all_parameter_paths() const;
  /// The module itself and all below, depth first.
  [[nodiscard]] std::vector<NamedModule> named_modules();
  [[nodiscard]] const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }
  [[nodiscard]] const std::vector<NamedParameter>& own_parameters() const { return parameters_; }
  /// The parameter of this name. Error with the nearest name.
  [[nodiscard]] Tensor parameter(std::string_view name) const;
  /// Elements of all parameters, tied ones once; needs no storage.
  [[nodiscard]] std::int64_t parameter_count() const;

  /// What a module keeps besides parameters: no gradient, no optimizer (running statistics). Named like parameters.
  [[nodiscard]] std::vector<NamedParameter> named_buffers() const;
  [[nodiscard]] const std::vector<NamedParameter>& own_buffers() const { return buffers_; }

  /// Switches dropout and batch statistics in this module and all below.
  void train(bool on = true);
  void eval() { train(false); }
  [[nodiscard]] bool is_training() const { return training_; }
  void zero_grad();
  /// From now on ops see the parameters below converted to `dtype`; they are stored and updated as they are.
  void set_compute_dtype(DType dtype);

  /// The FSDP unit this module is, "" when none.
  [[nodiscard]] const std::string& unit() const { return unit_; }
  void set_unit(std::string unit) { unit_ = std::move(unit); }
  /// Module path, as errors and HLO metadata show it.
  [[nodiscard]] const std::string& path() const { return path_; }

  /// The tree with parameter counts and units, one module a line.
  [[nodiscard]] std::string str() const;

 protected:
  /// Registers a new parameter and returns it.
  Tensor add_parameter(std::string name, const Type& type, Initializer initializer, Dims exported_dims = {});
  /// Registers a parameter that another module has too (tied).
  void add_shared_parameter(std::string name, const Tensor& tensor, Dims exported_dims = {});
  /// Registers a variable that is not trained and returns it.
  Tensor add_buffer(std::string name, const Type& type, Initializer initializer);
  void add_module(std::string name, Module& child);

 private:
  void set_path(const std::string& path);
  std::vector<NamedParameter> parameters_;
  std::vector<NamedParameter> buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
  std::string path_;
  std::string unit_;
  bool training_ = true;
};

/// Gives Self a call operator that runs Self::forward within the module's trace scope. Errors name the place of the call.
template <class Self>
class Callable : public Module {
 public:
  template <class A>
  auto operator()(A&& a, std::source_location where = std::source_location::current()) {
    return call(where, std::forward<A>(a));
  }
  template <class A, class B>
  auto operator()(A&& a, B&& b, std::source_location where = std::source_location::current()) {
    return call(where, std::forward<A>(a), std::forward<B>(b));
  }
  template <class A, class B, class C>
  auto operator()(A&& a, B&& b, C&& c, std::source_location where = std::source_location::current()) {
    return call(where, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }

 private:
  template <class... Args>
  auto call(const std::source_location& where, Args&&... args) {
    const TraceScope scope(path(), unit(), where);
    try {
      return static_cast<Self&>(*this).forward(std::forward<Args>(args)...);
    } catch (InternalError&) {
      throw;
    } catch (Error& error) {
      trace().note_call(error);
      throw;
    }
  }
};

/// A list of modules of one class: children "0", "1", ….
template <class M>
class ModuleList : public Module {
 public:
  template <class... Args>
  M& emplace(Args&&... args) {
    items_.push_back(std::make_unique<M>(std::forward<Args>(args)...));
    add_module(std::to_string(items_.size() - 1), *items_.back());
    return *items_.back();
  }
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
  std::vector<std::unique_ptr<M>> items_;
};

}  // namespace tessera::nn
