// SPDX-License-Identifier: Apache-2.0
// A function of tensors that is traced only at the first call. Later calls run the compiled program of that call.
//
//   CompiledFunction step = compile([&](const std::vector<Tensor>& batch) {
//     const Tensor loss = model(batch[0], batch[1]);
//     loss.backward();
//     optimizer.step();
//     optimizer.zero_grad();
//     return std::vector<Tensor>{loss};
//   });
//   for (const auto& batch : loader) const Tensor loss = step({batch.tokens, batch.labels}).front();
//
// A call is a step, as if mark_step() followed it. The following may vary between calls:
//   - the arguments: tensors with a value (Tensor::from, results of earlier steps). Each combination of types and
//     shardings is traced once. Two arguments may be the same tensor, and an argument may be a variable that the
//     function uses; the function is then traced again only if it computes gradients with respect to this variable or
//     assigns it. An argument that the function assigns has its new value afterwards;
//   - the variables that the function uses, which have their value at the time of the call. Variables that it assigns
//     have their new value afterwards;
//   - the learning rate, step count, random numbers, and Tensor::scalar of a function.
// Everything else is as at the time of tracing: numbers, branches, training or evaluation mode, tensors made from host
// data. A call that throws before the program runs changes nothing: variables, step counts and random numbers keep
// their values.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// Options of compile(), with the names of torch_xla.compile().
struct CompileOptions {
  /// The name of the steps in reports and errors; "": `mark_step`.
  std::string name{};
  /// True: it is an error if the function reads a value, ends the step or calls host_region(). False: such a function
  /// is not compiled. Every call then traces it, ends the step, and is counted as `GraphBreak`.
  bool full_graph = true;
  /// The number of programs that may be traced for different arguments; 0: any number.
  int max_different_graphs = 0;
  /// 1: one program for a step. 3: three programs, for the forward pass, for the ops that backward() adds, and for the
  /// ops after the last backward() (the update). Values that a later program needs stay in memory. The results are the
  /// same. Error for a function without backward().
  int graphs = 1;
  /// False: each call traces the function and ends the step. The results are the same, and a call takes longer. Use it
  /// to find out whether the compiled call causes an error or a wrong value.
  bool jit_compile = true;
};

namespace detail {

/// The programs of one or several CompiledFunctions with a common max_different_graphs.
struct TracedForms {
  int count = 0;
  std::string last_arguments;  // of the last program, as text
};
/// The arguments as text, for errors.
using ArgumentsText = std::function<std::string(const std::vector<Tensor>& arguments)>;

}  // namespace detail

/// A function from tensors to tensors with its compiled programs.
class CompiledFunction {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  explicit CompiledFunction(Function function, CompileOptions options = {});
  /// For a TypedFunction, which consists of several of these.
  CompiledFunction(Function function, CompileOptions options, std::shared_ptr<detail::TracedForms> traced,
                   detail::ArgumentsText text);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&&) noexcept;
  CompiledFunction& operator=(CompiledFunction&&) noexcept;

  /// Runs one step. Collective. In another compiled function, only calls the function: its ops belong to the program of
  /// the outer one. Errors in the first call with given argument types: the function reads a value or ends the step; it
  /// creates a gradient or a tensor that outlives the call and that it does not return; it returns nothing and assigns
  /// no variable; an argument has no value.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments,
                                 std::source_location where = std::source_location::current());

  /// The number of programs traced so far.
  [[nodiscard]] int form_count() const { return static_cast<int>(forms_.size()); }
  /// The program that the last call ran; -1: the call was not compiled.
  [[nodiscard]] int last_form() const { return last_form_; }

 private:
  std::vector<Tensor> add_form(const std::vector<Tensor>& arguments, const std::source_location& where);
  std::vector<Tensor> run_uncompiled(const std::vector<Tensor>& arguments, const std::source_location& where);
  std::vector<Tensor> run_traced(const std::vector<Tensor>& arguments, const std::source_location& where);
  std::vector<Tensor> call_inside_another(const std::vector<Tensor>& arguments, const std::source_location& where);
  void check_form_count(const std::vector<Tensor>& arguments) const;
  void check_arguments(const std::vector<Tensor>& arguments, const std::source_location& where) const;
  struct Form;  // the program for some argument types and shardings
  Function function_;
  CompileOptions options_;
  std::shared_ptr<detail::TracedForms> traced_;
  detail::ArgumentsText arguments_text_;
  std::vector<std::unique_ptr<Form>> forms_;
  int last_form_ = -1;
  bool has_graph_break_ = false;
  bool has_noted_call_ = false;
};

namespace detail {

/// True for a function pointer, and for a class with exactly one call operator. For other functions, such as generic
/// lambdas, a test of the argument types would instantiate the body, which may be a compile error.
template <class F>
inline constexpr bool kHasOneSignature = std::is_function_v<std::remove_pointer_t<F>> || requires { &F::operator(); };
template <class F>
concept TakesVector = kHasOneSignature<F> && std::convertible_to<F, CompiledFunction::Function>;

}  // namespace detail

/// Traces `function` at its first call. Everything that `function` refers to must outlive the result.
template <detail::TakesVector F>
CompiledFunction compile(F function, CompileOptions options = {}) {
  return CompiledFunction(std::move(function), std::move(options));
}

}  // namespace tessera
