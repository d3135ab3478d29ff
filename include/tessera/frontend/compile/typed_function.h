// SPDX-License-Identifier: Apache-2.0
// compile() for functions of any trees of tensors (tree.h): structs, vectors, maps, tuples, numbers.
//
//   auto step = compile([&](const Batch& batch, double smoothing) { …; return Metrics{loss, accuracy}; });
//   Metrics metrics = step(batch, 0.1);
//
// A call behaves like that of a CompiledFunction. Numbers, strings and sizes belong to the structure of the arguments:
// if one of them changes, the function is traced again. It is also traced again if other tensors are null than before.
// Null tensors stay null. Pass a Tensor::scalar for a number that changes often.
#pragma once

#include <any>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/tensor/tree.h"

namespace tessera {

/// The result of compile() for a function of trees.
template <class F>
class TypedFunction {
 public:
  TypedFunction(F function, CompileOptions options, std::source_location where)
      : function_(std::make_shared<F>(std::move(function))),
        options_(std::move(options)),
        where_(where),
        traced_(std::make_shared<detail::TracedForms>()) {}

  /// Runs one step. Collective. Errors: those of CompiledFunction; more programs than max_different_graphs.
  template <class... Args>
    requires std::invocable<F&, const Args&...>
  auto operator()(const Args&... args) {
    using Result = std::decay_t<std::invoke_result_t<F&, const Args&...>>;
    const std::tuple<const Args&...> given(args...);
    structure_.text.clear();
    visit_tree(given, structure_);
    Entry& entry = entry_for<Result, Args...>(given);
    const ResetAtExit reset{entry.last_result};
    std::vector<Tensor> leaves = entry.compiled(tree_leaves(given), where_);
    if constexpr (!std::is_void_v<Result>) return result_of<Result>(entry, leaves);
  }
  /// The same for a list of tensors in braces: `step({x, y})`.
  template <std::same_as<Tensor> T>
  auto operator()(std::initializer_list<T> tensors) {
    return (*this)(std::vector<Tensor>(tensors));
  }

  /// For a generic lambda that takes and returns a vector of tensors.
  operator CompiledFunction() && {  // NOLINT(google-explicit-constructor): compile() returns it
    return CompiledFunction([function = function_](const std::vector<Tensor>& x) { return (*function)(x); }, options_);
  }

  /// The number of programs traced so far.
  [[nodiscard]] int form_count() const { return traced_->count; }

 private:
  // The programs for one structure of arguments.
  struct Entry {
    std::type_index types;
    std::string structure;
    std::any last_result;           // of the last call of the function; only during a call
    std::vector<std::any> results;  // a result for each form, without tensors
    CompiledFunction compiled;
  };
  // A result that outlives the call would be a result of the step, or of the function that makes this call.
  struct ResetAtExit {
    std::any& result;
    ~ResetAtExit() { result.reset(); }
  };

  template <class Result, class... Args>
  Entry& entry_for(const std::tuple<const Args&...>& given) {
    const std::type_index types(typeid(std::tuple<Args...>));
    for (const auto& entry : entries_)
      if (entry->types == types && entry->structure == structure_.text) return *entry;
    auto entry = std::make_unique<Entry>(Entry{types, structure_.text, {}, {}, CompiledFunction(nothing, {})});
    Entry* place = entry.get();
    const auto arguments_of = [example = tree_without_leaves(std::tuple<Args...>(given))](
                                  const std::vector<Tensor>& leaves) { return tree_with_leaves(example, leaves); };
    const auto traced = [function = function_, place, arguments_of](const std::vector<Tensor>& leaves) {
      const std::tuple<Args...> arguments = arguments_of(leaves);
      if constexpr (std::is_void_v<Result>) {
        std::apply(*function, arguments);
        return std::vector<Tensor>{};
      } else {
        Result result = std::apply(*function, arguments);
        auto out = tree_leaves(result);
        place->last_result = std::move(result);
        return out;
      }
    };
    const auto text = [arguments_of](const std::vector<Tensor>& leaves) { return tree_types(arguments_of(leaves)); };
    entry->compiled = CompiledFunction(traced, options_, traced_, text);
    return *entries_.emplace_back(std::move(entry));
  }

  template <class Result>
  static Result result_of(Entry& entry, const std::vector<Tensor>& leaves) {
    const int form = entry.compiled.last_form();
    if (form < 0) return std::any_cast<Result>(std::move(entry.last_result));  // not compiled
    const auto place = static_cast<std::size_t>(form);
    if (place >= entry.results.size()) entry.results.resize(place + 1);
    if (entry.last_result.has_value())
      entry.results[place] = tree_without_leaves(std::any_cast<const Result&>(entry.last_result));
    return tree_with_leaves(std::any_cast<const Result&>(entry.results[place]), leaves);
  }
  static std::vector<Tensor> nothing(const std::vector<Tensor>& leaves) { return leaves; }

  std::shared_ptr<F> function_;
  CompileOptions options_;
  std::source_location where_;  // of compile()
  std::shared_ptr<detail::TracedForms> traced_;
  detail::StructureText structure_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

/// Compiles a function of trees. A function that takes and returns a vector of tensors is compiled as a
/// CompiledFunction. A generic lambda, or a class with several functions for calls, is a TypedFunction; if it can take
/// and return a vector of tensors, it converts to a CompiledFunction.
template <class F>
  requires(!detail::TakesVector<F>)
auto compile(F function, CompileOptions options = {}, std::source_location where = std::source_location::current()) {
  return TypedFunction<F>(std::move(function), std::move(options), where);
}

}  // namespace tessera
