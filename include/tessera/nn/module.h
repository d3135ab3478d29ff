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
#include "tessera/frontend/tensor/state_dict.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/frontend/tracing/trace.h"

namespace tessera::nn {

class Module;

using NamedParameter = NamedTensor;
struct NamedModule {
  std::string path;  // "" for the module itself
  Module* module = nullptr;
};

/// How files name the state of a module.
struct FileNames {
  /// Files of the body alone have names without this prefix: `wte.weight` for `transformer.wte.weight`.
  std::string prefix;
  /// Names with these ends are in files of other frameworks, but nothing needs them: `.attn.masked_bias`.
  std::vector<std::string> ignored_suffixes;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The name for wrap policies and reports: `GPT2Block`.
  [[nodiscard]] virtual std::string_view class_name() const = 0;
  /// True for classes that only contain other modules (ModuleList). Policies by size skip them.
  [[nodiscard]] virtual bool is_container() const { return false; }

  /// All parameters of this module and its submodules, depth first, in the order of registration. A tied parameter
  /// occurs once, under its first name.
  [[nodiscard]] std::vector<NamedParameter> named_parameters() const;
  [[nodiscard]] std::vector<Tensor> parameters() const;
  /// Every path to a parameter. A tied parameter occurs several times.
  [[nodiscard]] std::vector<NamedParameter> all_parameter_paths() const;
  /// The module itself and all its submodules, depth first.
  [[nodiscard]] std::vector<NamedModule> named_modules();
  [[nodiscard]] const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }
  [[nodiscard]] const std::vector<NamedParameter>& own_parameters() const { return parameters_; }
  /// Returns the parameter of this name. Error with the nearest name.
  [[nodiscard]] Tensor parameter(std::string_view name) const;
  /// The number of elements of all parameters; tied parameters count once. Needs no storage.
  [[nodiscard]] std::int64_t parameter_count() const;

  /// Buffers: variables without gradient and optimizer state, such as running statistics. They are named like
  /// parameters.
  [[nodiscard]] std::vector<NamedParameter> named_buffers() const;
  [[nodiscard]] const std::vector<NamedParameter>& own_buffers() const { return buffers_; }

  /// The parameters and buffers of this module and its submodules under their names. A tied parameter is one entry, with
  /// its further names as aliases.
  [[nodiscard]] StateDict state_dict() const;
  /// Gives the parameters and buffers the values of another state, with load_state(). Error listing missing and
  /// unexpected names, with the nearest ones, and shapes that do not fit.
  LoadStateResult load_state_dict(const StateDict& source, const LoadStateOptions& options = {});
  [[nodiscard]] virtual FileNames file_names() const { return {}; }

  /// Switches between training and evaluation mode (dropout, batch statistics), also for submodules.
  void train(bool on = true);
  void eval() { train(false); }
  [[nodiscard]] bool is_training() const { return training_; }
  void zero_grad();
  /// From now on ops use all parameters converted to `dtype`. Parameters are stored and updated in their own type.
  void set_compute_dtype(DType dtype);

  /// The name of the FSDP unit that this module is; "" if it is none.
  [[nodiscard]] const std::string& unit() const { return unit_; }
  void set_unit(std::string unit) { unit_ = std::move(unit); }
  /// The path of the module, as in errors and HLO metadata.
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Returns the tree of modules with parameter counts and units, one module on each line.
  [[nodiscard]] std::string str() const;

 protected:
  /// Registers a new parameter and returns it.
  Tensor add_parameter(std::string name, const Type& type, Initializer initializer, Dims exported_dims = {});
  /// Registers a parameter of another module (a tied parameter).
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

/// Gives Self a call operator that runs Self::forward in the trace scope of the module. Errors name the source
/// location of the call.
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
