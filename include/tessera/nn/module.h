// SPDX-License-Identifier: Apache-2.0
// Modules: named parameters and submodules. A module cannot be copied or moved. Its submodules are members of the
// object, or are owned by shared pointers.
//
//   class TwoLayers : public nn::Callable<TwoLayers> {
//    public:
//     TwoLayers() {
//       register_module("first", first_);
//       register_module("second", second_);
//     }
//     Tensor forward(const Tensor& x) { return second_(relu(first_(x))); }
//
//    private:
//     nn::Linear first_{784, 128}, second_{128, 10};
//   };
//
// forward() may have any arguments and results. A call of the module runs forward() in the trace scope of the module:
// ops have the path of the module in their metadata, and errors name the source location of the call.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/state_dict.h"
#include "tessera/frontend/tensor/tensor.h"
#include "tessera/nn/hooks.h"

namespace tessera {
struct FsdpOptions;
}  // namespace tessera

namespace tessera::nn {

class Module;

/// Changes the options of a module that a wrap policy makes an FSDP unit.
using WrapOverrides = std::function<void(FsdpOptions& options)>;

using NamedParameter = NamedTensor;
/// A module and its path from another module.
struct NamedModule {
  std::string path;  // "" for the module itself
  Module* module = nullptr;
};

/// The names of the state of a module in files.
struct FileNames {
  /// Files that contain only the body of the model have names without this prefix: `wte.weight` for
  /// `transformer.wte.weight`.
  std::string prefix;
  /// Names with these ends, such as `.attn.masked_bias`, may be in files and are ignored.
  std::vector<std::string> ignored_suffixes;
  /// Files of a larger model that contains this one have names with this prefix: `bert.embeddings.LayerNorm.weight` for
  /// `embeddings.LayerNorm.weight`. The names of its other parts are ignored.
  std::string outer_prefix{};
  /// Ends of names in older files, and the ends that replaced them.
  std::vector<std::pair<std::string, std::string>> renamed_suffixes{};
  /// Parameters that older files lack, and the parameters to which they were tied there.
  std::vector<std::pair<std::string, std::string>> formerly_tied{};
};

/// The base of all modules.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The name for wrap policies and reports: `GPT2Block`. By default the name of the C++ class, without namespaces and
  /// template arguments. In a constructor, it is the class that is being constructed.
  [[nodiscard]] virtual std::string_view class_name() const;
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
  [[nodiscard]] std::vector<Module*> modules();
  [[nodiscard]] const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }
  [[nodiscard]] const std::vector<NamedParameter>& own_parameters() const { return parameters_; }
  /// Returns the parameter of this name. Error, with the nearest name, if there is none.
  [[nodiscard]] Tensor parameter(std::string_view name) const;
  /// The number of elements of all parameters; tied parameters count once. Needs no storage.
  [[nodiscard]] std::int64_t parameter_count() const;

  /// Buffers: variables without gradient and optimizer state, such as running statistics. They are named like
  /// parameters.
  [[nodiscard]] std::vector<NamedParameter> named_buffers() const;
  [[nodiscard]] std::vector<Tensor> buffers() const;
  [[nodiscard]] const std::vector<NamedParameter>& own_buffers() const { return buffers_; }

  /// The parameters and buffers of this module and its submodules under their names. A tied parameter is one entry; its
  /// other names are aliases.
  [[nodiscard]] StateDict state_dict() const;
  /// Gives the parameters and buffers the values of another state, with load_state(). The error lists missing and
  /// unexpected names, with the nearest ones, and shapes that do not fit.
  LoadStateResult load_state_dict(const StateDict& source, const LoadStateOptions& options = {});
  /// The names of the state in files.
  [[nodiscard]] virtual FileNames file_names() const { return {}; }

  /// Switches between training and evaluation mode (dropout, batch statistics), also for submodules.
  void train(bool on = true);
  void eval() { train(false); }
  [[nodiscard]] bool is_training() const { return training_; }
  /// Calls `visit` for every submodule, children before parents, and for this module last.
  void apply(const std::function<void(Module&)>& visit);
  /// Removes the gradients of all parameters.
  void zero_grad();
  /// Converts the parameters and buffers that are floats to `dtype`, as in PyTorch. Call it before fully_shard() and
  /// before the optimizer is created. Error if `dtype` is not a float type.
  void to(DType dtype, std::source_location where = std::source_location::current());
  /// Does nothing, because every tensor is on the device. Returns *this: `Module& model = net.to(xla_device())`.
  Module& to(const Device& device);
  /// After this call, ops use all parameters converted to `dtype`. Parameters are still stored and updated in their own
  /// type.
  void set_compute_dtype(DType dtype);

  /// The name of the module as an FSDP unit; "" if it is not a unit.
  [[nodiscard]] const std::string& unit() const { return unit_; }
  void set_unit(std::string unit) { unit_ = std::move(unit); }
  /// True if the backward pass gathers the parameters of the unit again. Applies to units below another unit.
  [[nodiscard]] bool reshards_unit() const { return reshards_unit_; }
  void set_reshards_unit(bool reshards) { reshards_unit_ = reshards; }
  /// The name of the module around this one that fully_shard() has divided into units; "" if there is none.
  [[nodiscard]] const std::string& sharded_in() const { return sharded_in_; }
  void set_sharded_in(std::string around) { sharded_in_ = std::move(around); }
  /// Sets the options in which this module, if a wrap policy makes it an FSDP unit, differs from the other units (in
  /// PyTorch: _wrap_overrides). For example, parameters of a batch norm that are used in their own type:
  ///
  ///   norm.set_wrap_overrides([](FsdpOptions& options) { options.mixed_precision = {}; });
  void set_wrap_overrides(WrapOverrides overrides) { wrap_overrides_ = std::move(overrides); }
  [[nodiscard]] const WrapOverrides& wrap_overrides() const { return wrap_overrides_; }
  /// The path of the module, as in errors and HLO metadata.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Returns true if a module has registered this one or if this function was called before. Used to warn once.
  [[nodiscard]] bool is_known_or_mark() { return std::exchange(is_known_, true); }

  /// Calls `hook` before every call of this module. The hook may replace the tensors among the arguments, but not
  /// change their number. Ops that a hook records belong to the module and its FSDP unit.
  HookHandle register_forward_pre_hook(ForwardPreHook hook) { return hooks_.before.add(std::move(hook)); }
  /// Calls `hook` after every call of this module. The hook may replace the tensors of the result.
  HookHandle register_forward_hook(ForwardHook hook) { return hooks_.after.add(std::move(hook)); }
  [[nodiscard]] const ForwardHooks& forward_hooks() const { return hooks_; }

  /// Returns the tree of modules with parameter counts and units, one module on each line.
  [[nodiscard]] std::string str() const;

 protected:
  /// Registers a tensor as a parameter, as in libtorch. Its value is the initial value. Errors: the name is empty,
  /// contains a dot or exists already; the tensor is null.
  Tensor register_parameter(std::string name, Tensor value, bool requires_grad = true);
  /// Registers a tensor as a buffer. Errors: those of register_parameter().
  Tensor register_buffer(std::string name, Tensor value);
  /// Registers a member of this object as a submodule and returns it. Error if the name is empty, contains a dot or
  /// exists already.
  template <class M>
  M& register_module(const std::string& name, M& child) {
    add_module(name, child);
    return child;
  }
  /// The same for a submodule that several objects may own.
  template <class M>
  std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> child) {
    require(child != nullptr, "{}: submodule {} is null", class_name(), name);
    add_module(name, *child);
    owned_.push_back(child);
    return child;
  }

  /// Registers a new parameter and returns it.
  Tensor add_parameter(std::string name, const Type& type, Initializer initializer, Dims exported_dims = {});
  /// Registers a parameter of another module (a tied parameter).
  void add_shared_parameter(std::string name, const Tensor& tensor, Dims exported_dims = {});
  /// Registers a variable that is not trained and returns it.
  Tensor add_buffer(std::string name, const Type& type, Initializer initializer);
  /// Registers a submodule, which must outlive this module. Errors: those of register_module().
  void add_module(std::string name, Module& child);
  /// Registers a submodule without a name. Its parameters and submodules have the same names in this module. For
  /// wrappers; it must be the only submodule.
  void add_wrapped_module(Module& child);

 private:
  void set_path(const std::string& path);
  void check_new_name(std::string_view kind, const std::string& name) const;
  std::vector<NamedParameter> parameters_;
  std::vector<NamedParameter> buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
  std::vector<std::shared_ptr<Module>> owned_;
  ForwardHooks hooks_;
  std::string path_;
  std::string unit_;
  bool reshards_unit_ = true;
  std::string sharded_in_;
  WrapOverrides wrap_overrides_;
  bool training_ = true;
  bool is_known_ = false;
  mutable const std::type_info* named_type_ = nullptr;  // the class of type_name_
  mutable std::string type_name_;
};

/// Prints str(): `std::cout << model`.
std::ostream& operator<<(std::ostream& out, const Module& module);

namespace detail {

/// The trace scope of a call of a module. Ops in it belong to the module at `path`, and to the FSDP unit `unit` if it
/// is not empty.
class CallScope {
 public:
  /// Warns once if another module calls `module`, which has parameters to train but is no submodule of any module: they
  /// are then in no parameters() and no state_dict().
  CallScope(Module& module, const std::source_location& where);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};
/// The source location of the innermost call of a module.
std::source_location current_call();
/// Adds the location of the outermost call of a module to an error.
void note_call(Error& error);

}  // namespace detail

/// Gives Self a call operator that runs Self::forward in the trace scope of the module, with the module's hooks. It
/// takes the arguments of forward(), of any number and type, and returns its result. Errors name the source location
/// of the call. Base is Module, or an interface derived from it.
template <class Self, class Base = Module>
class Callable : public Base {
 public:
  using Base::Base;
  // A parameter pack must be last in order to be deduced, so each number of arguments has its own operator.
  auto operator()(std::source_location where = std::source_location::current()) { return call(where); }
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
  template <class A, class B, class C, class D>
  auto operator()(A&& a, B&& b, C&& c, D&& d, std::source_location where = std::source_location::current()) {
    return call(where, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d));
  }
  /// Five arguments and more. Errors name the call of the enclosing module.
  template <class A, class B, class C, class D, class E, class... More>
    requires(!std::is_same_v<std::remove_cvref_t<E>, std::source_location>)
  auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, More&&... more) {
    return call(detail::current_call(), std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d),
                std::forward<E>(e), std::forward<More>(more)...);
  }

 private:
  template <class... Args>
  auto call(const std::source_location& where, Args&&... args) {
    const detail::CallScope scope(*this, where);
    try {
      Self& self = static_cast<Self&>(*this);
      const auto forward = [&self](auto&&... given) { return self.forward(std::forward<decltype(given)>(given)...); };
      if (this->forward_hooks().empty()) return forward(std::forward<Args>(args)...);
      return call_with_hooks(*this, this->forward_hooks(), forward, std::forward<Args>(args)...);
    } catch (InternalError&) {
      throw;
    } catch (Error& error) {
      detail::note_call(error);
      throw;
    }
  }
};

}  // namespace tessera::nn
