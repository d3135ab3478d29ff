// SPDX-License-Identifier: Apache-2.0
// Derivatives of second and third order agree with differences of the derivatives before them.
#include <gtest/gtest.h>

#include "autodiff/finite_differences.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera {
namespace {

using testing::derivative;
using testing::expect_gradients;
using testing::f64;
using testing::Model;
using testing::seeded;
using testing::weighed;

// ---- loops ----------------------------------------------------------------------------------------------------------

// Element `index` along dim 0, with this dim.
Value row_at(Value stack, Value index) {
  return ops::dynamic_slice(stack, {index, ops::scalar(*index.builder, DType::kS32, 0)}, {1, stack.type().dim(1)});
}

// (i, h, stack, xs): h = sin(h w) + xs[i], stack[i] = h h, as in a scan. Weighs h and the stack.
Model scan_of(std::int64_t rounds) {
  return [=](Builder& main, const std::vector<Value>& p) {
    const std::int64_t width = p[0].type().dim(1);
    const Type rows = f64({rounds, width});
    const Value init =
        ops::tuple(main, {ops::scalar(main, DType::kS32, 0), p[0], ops::full(main, rows, 0), p[1], p[2]});
    Builder condition = main.program().computation("condition");
    const Value state = ops::parameter(condition, 0, init.type());
    const Value goes_on =
        ops::compare(ops::get_tuple_element(state, 0), ops::scalar(condition, DType::kS32, static_cast<double>(rounds)),
                     CompareDirection::kLt);
    const auto condition_id = main.program().add(std::move(condition), goes_on);
    Builder body = main.program().computation("body");
    const Value now = ops::parameter(body, 0, init.type());
    std::vector<Value> element;
    for (int k = 0; k < 5; ++k) element.push_back(ops::get_tuple_element(now, k));
    const Value h = ops::add(ops::sin(ops::multiply(element[1], element[4])), row_at(element[3], element[0]));
    const Value zero = ops::scalar(body, DType::kS32, 0);
    const Value stack = ops::dynamic_update_slice(element[2], ops::multiply(h, h), {element[0], zero});
    const Value next = ops::add(element[0], ops::scalar(body, DType::kS32, 1));
    const Value after = ops::tuple(body, {next, h, stack, element[3], element[4]});
    const Value loop = ops::while_loop(init, condition_id, main.program().add(std::move(body), after));
    return ops::add(weighed(ops::get_tuple_element(loop, 1)), weighed(ops::get_tuple_element(loop, 2)));
  };
}

std::vector<Literal> scan_arguments(std::int64_t rounds) {
  return {seeded(f64({1, 2}), 1), seeded(f64({rounds, 2}), 2), seeded(f64({1, 2}), 3)};
}

TEST(HigherOrder, LoopsHaveDerivativesOfEveryOrder) {
  for (const int order : {1, 2, 3}) {
    SCOPED_TRACE(order);
    expect_gradients(derivative(scan_of(3), order - 1), scan_arguments(3));
  }
}

TEST(HigherOrder, NestedLoopsHaveAThirdDerivative) {
  const Model nested = [](Builder& main, const std::vector<Value>& p) {
    const Value init = ops::tuple(main, {ops::scalar(main, DType::kS32, 0), p[0], p[1]});
    const auto condition_of = [&](const std::string& name, double limit) {
      Builder condition = main.program().computation(name);
      const Value counter = ops::get_tuple_element(ops::parameter(condition, 0, init.type()), 0);
      const Value goes_on = ops::compare(counter, ops::scalar(condition, DType::kS32, limit), CompareDirection::kLt);
      return main.program().add(std::move(condition), goes_on);
    };
    const auto body_of = [&](const std::string& name, const auto& next_of) {
      Builder body = main.program().computation(name);
      const Value now = ops::parameter(body, 0, init.type());
      const Value i = ops::get_tuple_element(now, 0);
      const Value w = ops::get_tuple_element(now, 2);
      const Value next = next_of(ops::get_tuple_element(now, 1), w);
      const Value after = ops::tuple(body, {ops::add(i, ops::scalar(body, DType::kS32, 1)), next, w});
      return main.program().add(std::move(body), after);
    };
    const auto inner_body = body_of("inner", [](Value x, Value w) { return ops::sin(ops::multiply(x, w)); });
    const auto inner_condition = condition_of("inner_condition", 2);
    const auto outer_body = body_of("outer", [&](Value x, Value w) {
      Builder& body = *x.builder;
      const Value start = ops::tuple(body, {ops::scalar(body, DType::kS32, 0), x, w});
      return ops::add(ops::get_tuple_element(ops::while_loop(start, inner_condition, inner_body), 1), x);
    });
    const Value loop = ops::while_loop(init, condition_of("outer_condition", 3), outer_body);
    return weighed(ops::get_tuple_element(loop, 1));
  };
  expect_gradients(derivative(nested, 2), {seeded(f64({2}), 4), seeded(f64({2}), 5)});
}

// A stack that the body only writes is not stored for each round, so the memory is linear in the number of rounds.
TEST(HigherOrder, NoRoundStoresAStack) {
  constexpr std::int64_t kRounds = 7;
  const Program program = testing::gradient_program(scan_of(kRounds), {f64({1, 2}), f64({kRounds, 2}), f64({1, 2})});
  for (const ComputationRef& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      for (const Type& leaf : instruction.type.leaves())
        EXPECT_LT(leaf.element_count(), kRounds * kRounds) << computation->name << " %" << instruction.name;
}

// ---- attention ------------------------------------------------------------------------------------------------------

struct AttentionCase {
  std::string name;
  std::int64_t heads = 2, key_heads = 2;
  ops::AttentionOperands options{};
  std::vector<Literal> mask{};    // none or one
  std::vector<Literal> offset{};  // none or one
};

Model attention_of(const AttentionCase& c) {
  return [=](Builder& main, const std::vector<Value>& p) {
    ops::AttentionOperands options = c.options;
    std::size_t next = 3;
    if (!c.mask.empty()) options.mask = p[next++];
    if (!c.offset.empty()) options.offset = p[next];
    if (options.dropout > 0) options.key = ops::constant(main, Literal::from<std::uint32_t>({2}, {7, 11}));
    const Value result = ops::attention(p[0], p[1], p[2], options);
    return ops::add(weighed(ops::get_tuple_element(result, 0)), weighed(ops::get_tuple_element(result, 1)));
  };
}

std::vector<Literal> attention_arguments(const AttentionCase& c) {
  std::vector<Literal> out{seeded(f64({1, 3, c.heads, 2}), 1), seeded(f64({1, 5, c.key_heads, 2}), 2),
                           seeded(f64({1, 5, c.key_heads, 3}), 3)};
  out.insert(out.end(), c.mask.begin(), c.mask.end());
  out.insert(out.end(), c.offset.begin(), c.offset.end());
  return out;
}

std::vector<AttentionCase> attention_cases() {
  const Literal two = Literal::from<std::int32_t>({}, {2});
  const Literal odd_keys = Literal::from<bool>({1, 1, 1, 5}, {false, true, false, true, false});
  return {{.name = "plain", .options = {.scale = 1.5}},
          {.name = "causal", .options = {.causal = true, .scale = 1.3}},
          {.name = "grouped", .heads = 3, .key_heads = 1, .options = {.scale = 1.2}},
          {.name = "window", .options = {.causal = true, .window = 2, .scale = 1.4}, .offset = {two}},
          {.name = "added_mask", .options = {.scale = 1.1}, .mask = {seeded(f64({1, 2, 1, 5}), 4)}},
          {.name = "pred_mask", .options = {.scale = 1.6}, .mask = {odd_keys}},
          {.name = "dropout",
           .heads = 2,
           .key_heads = 1,
           .options = {.causal = true, .scale = 1.2, .dropout = 0.4},
           .offset = {two}}};
}

TEST(HigherOrder, AttentionHasSecondDerivativesWithEveryOption) {
  for (const AttentionCase& c : attention_cases()) {
    SCOPED_TRACE(c.name);
    expect_gradients(derivative(attention_of(c), 1), attention_arguments(c));
  }
}

TEST(HigherOrder, AttentionHasAThirdDerivative) {
  const AttentionCase c{.name = "causal", .heads = 1, .key_heads = 1, .options = {.causal = true, .scale = 1.3}};
  const std::vector<Literal> arguments{seeded(f64({1, 2, 1, 2}), 1), seeded(f64({1, 3, 1, 2}), 2),
                                       seeded(f64({1, 3, 1, 1}), 3)};
  expect_gradients(derivative(attention_of(c), 2), arguments);
}

// ---- windows --------------------------------------------------------------------------------------------------------

WindowDims window_of(const char* text) {
  WindowDims out;
  parse_field(text, out);
  return out;
}

Model extremum_of(Reduction reduction, const char* window) {
  return [=](Builder&, const std::vector<Value>& p) {
    const Value x = ops::multiply(p[0], ops::sin(p[0]));
    const Value y = ops::reduce_window(ops::add(x, p[0]), reduction, window_of(window));
    return weighed(ops::multiply(y, ops::multiply(y, y)));
  };
}

TEST(HigherOrder, ExtremaOverWindowsHaveDerivativesOfEveryOrder) {
  for (const Reduction reduction : {Reduction::kMax, Reduction::kMin})
    for (const char* window : {"{size=3x2 stride=2x1}", "{size=2x3 stride=1x2 pad=1_0x1_1}",
                               "{size=2x2 stride=2x1 pad=0_1x1_1 rhs_dilate=2x1}"})
      for (const int order : {1, 2, 3}) {
        SCOPED_TRACE(window + std::string(" order ") + std::to_string(order));
        expect_gradients(derivative(extremum_of(reduction, window), order - 1), {seeded(f64({7, 5}), 6)});
      }
}

// The largest element is at an end of its window, so elements of the padding are compared with it.
TEST(HigherOrder, PaddingIsNeverSelected) {
  const Model model = [](Builder&, const std::vector<Value>& p) {
    const Value below = ops::subtract(p[0], ops::full(*p[0].builder, p[0].type(), 3));  // less than the padding's 0
    const Value y = ops::reduce_window(below, Reduction::kMax, window_of("{size=3 stride=2 pad=2_2}"));
    return weighed(ops::multiply(y, ops::multiply(y, y)));
  };
  expect_gradients(derivative(model, 1), {seeded(f64({5}), 7)});
}

}  // namespace
}  // namespace tessera
