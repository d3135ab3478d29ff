// SPDX-License-Identifier: Apache-2.0
#include "tessera/autodiff/gradients.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/finite_differences.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

using testing::expect_gradients;
using testing::f64;
using testing::seeded;
using testing::total;
using testing::weighed;

Literal ints(Dims dims, const std::vector<std::int32_t>& values) {
  return Literal::from<std::int32_t>(std::move(dims), values);
}

Value scaled(Value x, double factor) { return ops::multiply(x, ops::full(*x.builder, x.type(), factor)); }
Value row_broadcast(Value row, Dims dims) {
  return ops::broadcast(row, dims, {static_cast<std::int64_t>(dims.size()) - 1});
}
// Reduces over the last dim, and broadcasts the result back.
Value last_reduced(Value x, Reduction reduction) {
  const Dims& dims = x.type().dims();
  Dims kept;
  for (std::int64_t d = 0; d + 1 < x.type().ndim(); ++d) kept.push_back(d);
  return ops::broadcast(ops::reduce(x, reduction, {x.type().ndim() - 1}), dims, kept);
}
Value softmax(Value x) {
  const Value shifted = ops::exp(ops::subtract(x, last_reduced(x, Reduction::kMax)));
  return ops::divide(shifted, last_reduced(shifted, Reduction::kSum));
}

TEST(Gradients, OfAnMlpAgreeWithDifferences) {
  expect_gradients(
      [](Builder&, const std::vector<Value>& p) {
        const Value hidden = ops::tanh(ops::add(ops::matmul(p[0], p[1]), row_broadcast(p[2], {3, 5})));
        return weighed(ops::logistic(ops::matmul(hidden, p[3])));
      },
      {seeded(f64({3, 4}), 1), seeded(f64({4, 5}), 2), seeded(f64({5}), 3), seeded(f64({5, 2}), 4)});
}

TEST(Gradients, OfSoftmaxCrossEntropyAgreeWithDifferences) {
  expect_gradients(
      [](Builder& main, const std::vector<Value>& p) {
        const Value logits = p[0];  // [3, 7]
        const Value shifted = ops::subtract(logits, last_reduced(logits, Reduction::kMax));
        const Value log_sum = ops::log(last_reduced(ops::exp(shifted), Reduction::kSum));
        const Value classes = ops::iota(main, Type::array(DType::kS32, {3, 7}), 1);
        const Value hit = ops::compare(classes, ops::broadcast(p[1], {3, 7}, {0}), CompareDirection::kEq);
        const Value losses = ops::select(hit, ops::subtract(log_sum, shifted), ops::full(main, shifted.type(), 0));
        return scaled(total(losses), 1.0 / 3);
      },
      {seeded(f64({3, 7}), 5), ints({3}, {6, 0, 2})});
}

TEST(Gradients, OfLayerNormAgreeWithDifferences) {
  expect_gradients(
      [](Builder& main, const std::vector<Value>& p) {
        const Value centered = ops::subtract(p[0], scaled(last_reduced(p[0], Reduction::kSum), 1.0 / 5));
        const Value variance = scaled(last_reduced(ops::multiply(centered, centered), Reduction::kSum), 1.0 / 5);
        const Value unit =
            ops::multiply(centered, ops::rsqrt(ops::add(variance, ops::full(main, variance.type(), 1e-3))));
        return weighed(ops::add(ops::multiply(unit, row_broadcast(p[1], {3, 5})), row_broadcast(p[2], {3, 5})));
      },
      {seeded(f64({3, 5}), 6), seeded(f64({5}), 7), seeded(f64({5}), 8)});
}

TEST(Gradients, OfCausalAttentionAgreeWithDifferences) {
  expect_gradients(
      [](Builder& main, const std::vector<Value>& p) {  // [heads, time, width]
        const Value scores = ops::dot(p[0], p[1], {{0}, {2}, {0}, {2}});
        const Type grid = Type::array(DType::kS32, scores.type().dims());
        const Value seen = ops::compare(ops::iota(main, grid, 1), ops::iota(main, grid, 2), CompareDirection::kGe);
        const Value masked = ops::select(seen, scaled(scores, 0.5), ops::full(main, scores.type(), -1e9));
        return weighed(ops::dot(softmax(masked), p[2], {{0}, {2}, {0}, {1}}));
      },
      {seeded(f64({2, 4, 3}), 9), seeded(f64({2, 4, 3}), 10), seeded(f64({2, 4, 3}), 11)});
}

TEST(Gradients, OfATableReadTwiceAddUpAndRowsOutOfRangeClamp) {
  expect_gradients([](Builder&, const std::vector<Value>& p) { return weighed(ops::take_rows(p[0], p[1])); },
                   {seeded(f64({4, 3}), 12), ints({2, 3}, {1, 1, 9, -2, 3, 0})});
}

TEST(Gradients, OfScatterAddSkipDroppedUpdates) {
  expect_gradients(
      [](Builder& main, const std::vector<Value>& p) {
        ScatterAttributes dims;
        dims.update_window_dims = {1};
        dims.inserted_window_dims = {0};
        dims.scatter_dims_to_operand_dims = {0};
        dims.index_vector_dim = 1;
        const auto add = ops::reduction_computation(main.program(), Reduction::kSum, DType::kF64);
        return weighed(ops::scatter({p[0]}, p[2], {p[1]}, dims, add));
      },
      {seeded(f64({4, 3}), 13), seeded(f64({5, 3}), 14), ints({5}, {1, 4, 1, -1, 3})});
}

TEST(Gradients, OfDynamicSlicesAgreeWithDifferencesForClampedStarts) {
  expect_gradients(
      [](Builder&, const std::vector<Value>& p) {
        const Value updated = ops::dynamic_update_slice(p[0], p[1], {p[2], p[3]});
        return weighed(ops::dynamic_slice(updated, {p[3], p[2]}, {2, 3}));
      },
      {seeded(f64({4, 5}), 15), seeded(f64({2, 2}), 16), ints({}, {3}), ints({}, {1})});
}

TEST(Gradients, OfSortGoToTheSortedElements) {
  expect_gradients(
      [](Builder& main, const std::vector<Value>& p) {
        Builder less = main.program().computation("less");
        std::vector<Value> sides;
        for (int i = 0; i < 4; ++i) sides.push_back(ops::parameter(less, i, Type::scalar(DType::kF64)));
        const Value root = ops::compare(sides[0], sides[1], CompareDirection::kGt);
        const auto comparator = main.program().add(std::move(less), root);
        const Value sorted = ops::sort({p[0], p[1]}, 0, true, comparator);
        return ops::add(weighed(ops::get_tuple_element(sorted, 0)),
                        weighed(scaled(ops::get_tuple_element(sorted, 1), 3)));
      },
      {seeded(f64({5, 3}), 17), seeded(f64({5, 3}), 18)});
}

ComputationId scaled_sine(ProgramBuilder& program, const std::string& name, double factor, const Type& type) {
  Builder inner = program.computation(name);
  const Value x = ops::parameter(inner, 0, type);
  const Value root = scaled(ops::sin(x), factor);
  return program.add(std::move(inner), root);
}

TEST(Gradients, PassThroughCallsAndBothBranchesOfConditionals) {
  for (const std::int32_t branch : {0, 1, 7})
    expect_gradients(
        [](Builder& main, const std::vector<Value>& p) {
          const Type type = p[0].type();
          const Value called = ops::call(main, {p[0]}, scaled_sine(main.program(), "once", 2, type));
          const auto left = scaled_sine(main.program(), "left", 3, type);
          const auto right = scaled_sine(main.program(), "right", 5, type);
          return weighed(ops::add(called, ops::conditional(p[2], {called, p[1]}, {left, right})));
        },
        {seeded(f64({3}), 19), seeded(f64({3}), 20), ints({}, {branch})});
}

// (i, x, w, steps): x = sin(x * w) + x[i] broadcast, steps += i; w does not change.
Value looped(Builder& main, Value x, Value w, std::int32_t rounds) {
  const Value zero = ops::scalar(main, DType::kS32, 0);
  const Value init = ops::tuple(main, {zero, x, w, zero});
  Builder condition = main.program().computation("condition");
  const Value state = ops::parameter(condition, 0, init.type());
  const Value goes_on = ops::compare(ops::scalar(condition, DType::kS32, rounds), ops::get_tuple_element(state, 0),
                                     CompareDirection::kGt);
  const auto condition_id = main.program().add(std::move(condition), goes_on);
  Builder body = main.program().computation("body");
  const Value now = ops::parameter(body, 0, init.type());
  const Value i = ops::get_tuple_element(now, 0);
  const Value old = ops::get_tuple_element(now, 1);
  const Value weight = ops::get_tuple_element(now, 2);
  const Value picked = ops::reshape(ops::dynamic_slice(old, {ops::get_tuple_element(now, 3)}, {1}), {});
  const Value next = ops::add(ops::sin(ops::multiply(old, weight)), ops::splat(picked, old.type().dims()));
  const Value one = ops::scalar(body, DType::kS32, 1);
  const Value steps = ops::add(ops::get_tuple_element(now, 3), i);
  const Value after = ops::tuple(body, {ops::add(i, one), next, weight, steps});
  return ops::while_loop(init, condition_id, main.program().add(std::move(body), after));
}

TEST(Gradients, ReverseLoopsOfKnownTripCount) {
  for (const std::int32_t rounds : {0, 1, 4})
    expect_gradients(
        [=](Builder& main, const std::vector<Value>& p) {
          const Value loop = looped(main, ops::exp(p[0]), p[1], rounds);
          return weighed(ops::multiply(ops::get_tuple_element(loop, 1), ops::get_tuple_element(loop, 2)));
        },
        {seeded(f64({3}), 24), seeded(f64({3}), 25)});
}

TEST(Gradients, PassTuplesAndBarriers) {
  expect_gradients(
      [](Builder& main, const std::vector<Value>& p) {
        const auto tied = ops::opt_barrier({p[0], p[1], ops::multiply(p[0], p[1])});
        const Value nested = ops::tuple(main, {tied[2], ops::tuple(main, {tied[0], tied[1]})});
        const Value inner = ops::get_tuple_element(nested, 1);
        return weighed(ops::divide(
            ops::get_tuple_element(nested, 0),
            ops::add(ops::exp(ops::get_tuple_element(inner, 1)), ops::exp(ops::get_tuple_element(inner, 0)))));
      },
      {seeded(f64({4}), 21), seeded(f64({4}), 22)});
}

TEST(Gradients, AreZeroWithoutADependence) {
  const Program program = testing::gradient_program(
      [](Builder&, const std::vector<Value>& p) {  // flows through an integer only
        return total(ops::convert(ops::convert(p[0], DType::kS32), DType::kF64));
      },
      {f64({2})});
  EXPECT_EQ(evaluate(program, {seeded(f64({2}), 23)}), Literal::from<double>({2}, {0, 0}));
}

std::string error_of(const testing::Model& model, const std::vector<Type>& types) {
  try {
    testing::gradient_program(model, types);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Gradients, ErrorsNameTheOpWithoutAGradientAndItsLine) {
  const auto model = [](Builder& main, const std::vector<Value>& p) {
    auto notes = std::make_shared<Notes>();
    notes->source_file = "train.cpp";
    notes->source_line = 41;
    main.default_notes = notes;
    return ops::custom_call(main, "Mystery", {p[0]}, Type::scalar(DType::kF64));
  };
  EXPECT_EQ(
      error_of(model, {f64({3})}),
      "gradient of custom-call: custom-call \"Mystery\" has no gradient\n  at   %custom-call: f64[]    train.cpp:41");
}

TEST(Gradients, OfALoopWithUnknownTripCountAreAnError) {
  const auto model = [](Builder& main, const std::vector<Value>& p) {
    const Type type = p[0].type();
    Builder condition = main.program().computation("small");
    const Value state = ops::parameter(condition, 0, type);
    const Value goes_on = ops::compare(state, ops::scalar(condition, DType::kF64, 9), CompareDirection::kLt);
    const auto condition_id = main.program().add(std::move(condition), goes_on);
    return ops::while_loop(p[0], condition_id, scaled_sine(main.program(), "grow", 2, type));
  };
  EXPECT_EQ(error_of(model, {f64({})}),
            "gradient of while: needs a known trip count (a counter with constant start, step and limit): use "
            "fori_loop or scan in place of while_loop; body %grow\n"
            "  at   %while: f64[]    unknown source");
}

TEST(Gradients, RequireAScalarFloat) {
  EXPECT_EQ(error_of([](Builder&, const std::vector<Value>& p) { return p[0]; }, {f64({3})}),
            "a gradient needs a scalar output, %parameter is f64[3]");
  EXPECT_EQ(
      error_of([](Builder& main, const std::vector<Value>&) { return ops::scalar(main, DType::kS32, 1); }, {f64({3})}),
      "a gradient needs an output of a float type, %constant is s32[]");
}

TEST(Gradients, KeepTheForwardLineAndUnitButNoOtherMark) {
  const Program program = testing::gradient_program(
      [](Builder& main, const std::vector<Value>& p) {
        auto notes = std::make_shared<Notes>();
        notes->source_file = "model.cpp";
        notes->source_line = 7;
        notes->frontend_attributes = {{"tessera.unit", "h.0"}, {"xla.sdy.sharding", "x"}};
        main.default_notes = notes;
        return total(ops::sin(p[0]));
      },
      {f64({3})});
  const Computation& main = program.entry_computation();
  const Instruction& cosine = main[main.root];
  EXPECT_EQ(cosine.source(), "model.cpp:7");
  ASSERT_NE(cosine.frontend_attribute("tessera.unit"), nullptr);
  EXPECT_EQ(cosine.frontend_attribute("xla.sdy.sharding"), nullptr);
}

}  // namespace
}  // namespace tessera
