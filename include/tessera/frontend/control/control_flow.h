// SPDX-License-Identifier: Apache-2.0
// Conditionals and loops in the graph. Their functions are called once, when the step is traced; the program contains
// one computation for each. Arguments and results are trees of tensors (tree.h). A function may use any tensor of its
// scope; variables and computed tensors become operands of the conditional or loop. Such a function cannot read a
// tensor, assign a variable or call backward().
//
//   Tensor y = cond(sum(x) > 0.0, [&] { return x * w; }, [&] { return x; });
//   auto [i, v] = while_loop([&](auto& s) { return std::get<1>(s) > 1e-3; },
//                            [&](auto& s) { return std::tuple(std::get<0>(s) + 1.0, step(std::get<1>(s))); },
//                            std::tuple(zero, x));
//   Tensor p = fori_loop(0, 8, [&](const Tensor& i, const Tensor& v) { return matmul(v, w); }, x);
//   auto [h, outputs] = scan([&](const Tensor& h, const Tensor& x) { Tensor n = cell(h, x);
//                                                                    return std::pair(n, n); }, h0, sequence);
//
// Gradients: cond, scan and fori_loop with numbers as limits are differentiable. The loop stores the values that its
// backward pass reads. checkpoint() around the content of the body reduces these values. The gradient of while_loop is
// an error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/tree.h"

namespace tessera {

struct ScanOptions {
  /// The number of iterations. Required without xs; otherwise, if given, it must be the size of dim 0 of every x.
  std::optional<std::int64_t> length{};
  /// Visits the last element first. ys[i] still belongs to xs[i].
  bool reverse = false;
  /// The number of iterations that one iteration of the compiled loop performs. If it is at least the length, no loop
  /// remains.
  std::int64_t unroll = 1;
};

namespace detail {

using Tensors = std::vector<Tensor>;
using Branch = std::function<Tensors()>;
/// The functions below for lists of tensors. The templates convert trees to lists.
Tensors cond_tensors(const Operand& predicate, const Branch& on_true, const Branch& on_false);
using LoopCondition = std::function<Tensor(const Tensors& state)>;
using LoopBody = std::function<Tensors(const Tensors& state)>;
Tensors while_tensors(const LoopCondition& condition, const LoopBody& body, const Tensors& init,
                      const std::source_location& where);

struct ScanStep {
  Tensors carry;
  Tensors ys;
};
using ScanBody = std::function<ScanStep(const Tensor& index, const Tensors& carry, const Tensors& xs)>;
struct ScanCall {
  std::string name = "scan";  // of the function in errors
  std::int64_t first = 0;     // the index of the first iteration
  std::int64_t length = 0;
  bool reverse = false;
  std::int64_t unroll = 1;
};
ScanStep scan_tensors(const ScanBody& body, const Tensors& carry, const Tensors& xs, const ScanCall& call,
                      const std::source_location& where);
/// The number of iterations of a scan. Errors: it is not given; it differs from the size of dim 0 of an x; it is
/// negative.
std::int64_t scan_length(const Tensors& xs, const ScanOptions& options, const std::source_location& where);
/// Error unless both structures (tree_structure()) are equal. `what` is the reason of the error.
void check_same_structure(std::string_view function, std::string_view what, const std::string& expected,
                          const std::string& got);

/// A function of the user with its last result, which shows the structure of the results.
template <class Result>
struct Traced {
  std::optional<Result> result{};
  Tensors operator()(Result&& value) {
    result.emplace(std::move(value));
    return tree_leaves(*result);
  }
};

}  // namespace detail

/// Runs one of two functions of the operands: `on_true` if the scalar `predicate` (pred[]) is true. Both must return
/// trees of the same structure and types. Only the selected one runs. Differentiable. (jax.lax.cond, tf.cond)
template <class F, class G, class... Args>
  requires std::invocable<F&, const Args&...> && std::invocable<G&, const Args&...>
auto cond(const Operand& predicate, F&& on_true, G&& on_false, const Args&... operands) {
  using Result = std::decay_t<std::invoke_result_t<F&, const Args&...>>;
  static_assert(std::is_same_v<Result, std::decay_t<std::invoke_result_t<G&, const Args&...>>>,
                "cond: both functions must return the same type");
  detail::Traced<Result> first;
  detail::Traced<Result> second;
  const auto results = detail::cond_tensors(
      predicate, [&] { return first(Result(on_true(operands...))); },
      [&] { return second(Result(on_false(operands...))); });
  detail::check_same_structure("cond", "the functions return different trees", tree_structure(*first.result),
                               tree_structure(*second.result));
  return tree_with_leaves(*std::move(first.result), results);
}

/// Calls state = body(state) while condition(state), a pred[], is true. The types of the state do not change. The
/// gradient is an error, because the number of iterations is not known: use fori_loop or scan. (jax.lax.while_loop)
template <class Condition, class Body, class State>
State while_loop(Condition&& condition, Body&& body, const State& init,
                 std::source_location where = std::source_location::current()) {
  detail::Traced<State> traced;
  const auto state_of = [&](const detail::Tensors& leaves) { return tree_with_leaves(init, leaves); };
  const auto results = detail::while_tensors(
      [&](const detail::Tensors& leaves) { return Tensor(condition(state_of(leaves))); },
      [&](const detail::Tensors& leaves) { return traced(State(body(state_of(leaves)))); }, tree_leaves(init), where);
  detail::check_same_structure("while_loop", "the body changes the structure of the state", tree_structure(init),
                               tree_structure(*traced.result));
  return tree_with_leaves(init, results);
}

/// Calls value = body(i, value) for i = lower … upper - 1; i is an s32[]. Differentiable. (jax.lax.fori_loop)
template <class Body, class State>
State fori_loop(std::int64_t lower, std::int64_t upper, Body&& body, const State& init,
                std::source_location where = std::source_location::current()) {
  detail::Traced<State> traced;
  const auto step = [&](const Tensor& i, const detail::Tensors& carry, const detail::Tensors&) {
    return detail::ScanStep{traced(State(body(i, tree_with_leaves(init, carry)))), {}};
  };
  const detail::ScanCall call{"fori_loop", lower, std::max<std::int64_t>(0, upper - lower), false, 1};
  const auto out = detail::scan_tensors(step, tree_leaves(init), {}, call, where);
  if (traced.result)
    detail::check_same_structure("fori_loop", "the body changes the structure of the value", tree_structure(init),
                                 tree_structure(*traced.result));
  return tree_with_leaves(init, out.carry);
}

/// The same with limits that are computed: s32[] tensors. Without gradient, because it is a while_loop.
template <class Body, class State>
State fori_loop(const Tensor& lower, const Tensor& upper, Body&& body, const State& init,
                std::source_location where = std::source_location::current()) {
  const auto result = while_loop([&](const std::pair<Tensor, State>& s) { return s.first < upper; },
                                 [&](const std::pair<Tensor, State>& s) {
                                   return std::pair<Tensor, State>(s.first + 1.0, body(s.first, s.second));
                                 },
                                 std::pair<Tensor, State>(lower, init), where);
  return result.second;
}

/// Calls (carry, y) = f(carry, x) for each x = xs[i] along dim 0 and returns the last carry and the ys, stacked along a
/// new dim 0. The types of the carry do not change. `xs` is a tree of tensors of equal size in dim 0. Differentiable.
/// (jax.lax.scan)
template <class F, class Carry, class Xs>
auto scan(F&& f, const Carry& carry, const Xs& xs, ScanOptions options = {},
          std::source_location where = std::source_location::current()) {
  using Step = std::decay_t<std::invoke_result_t<F&, const Carry&, const Xs&>>;
  using Y = std::decay_t<std::tuple_element_t<1, Step>>;
  std::optional<Y> y;
  detail::Traced<Carry> traced;
  const auto step = [&](const Tensor&, const detail::Tensors& c, const detail::Tensors& x) {
    Step out = f(tree_with_leaves(carry, c), tree_with_leaves(xs, x));
    y.emplace(std::move(std::get<1>(out)));
    return detail::ScanStep{traced(Carry(std::move(std::get<0>(out)))), tree_leaves(*y)};
  };
  const auto x_leaves = tree_leaves(xs);
  const detail::ScanCall call{"scan", 0, detail::scan_length(x_leaves, options, where), options.reverse,
                              options.unroll};
  const auto out = detail::scan_tensors(step, tree_leaves(carry), x_leaves, call, where);
  detail::check_same_structure("scan", "the function changes the structure of the carry", tree_structure(carry),
                               tree_structure(*traced.result));
  return std::pair<Carry, Y>(tree_with_leaves(carry, out.carry), tree_with_leaves(*std::move(y), out.ys));
}

/// Pass NoXs() for a scan without xs; the function is then called as f(carry, {}).
struct NoXs {};

}  // namespace tessera
