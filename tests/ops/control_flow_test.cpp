// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/control_flow.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/ir/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

ComputationId times(ProgramBuilder& program, double factor) {
  Builder inner = program.computation("times");
  const Value x = ops::parameter(inner, 0, Type::scalar(DType::kS32));
  const Value root = ops::multiply(x, ops::scalar(inner, DType::kS32, factor));
  return program.add(std::move(inner), root);
}

template <class T>
std::int32_t branch_taken(T selector, int branches) {
  ProgramBuilder program("branches");
  Builder main = program.computation("main");
  const Value index = ops::parameter(main, 0, Type::scalar(kDTypeOf<T>));
  std::vector<ComputationId> callees;
  std::vector<Value> operands;
  for (int b = 0; b < branches; ++b) {
    callees.push_back(times(program, std::pow(10, b)));
    operands.push_back(ops::scalar(main, DType::kS32, 1));
  }
  const Value root = ops::conditional(index, operands, callees);
  const auto entry = program.add(std::move(main), root);
  return static_cast<std::int32_t>(element_as_int(evaluate(program.finish(entry), {Literal::scalar(selector)}), 0));
}

TEST(Conditional, TakesTheFirstBranchForTrue) {
  EXPECT_EQ(branch_taken(true, 2), 1);
  EXPECT_EQ(branch_taken(false, 2), 10);
}

TEST(Conditional, TakesTheLastBranchForAnIndexOutOfRange) {
  EXPECT_EQ(branch_taken<std::int32_t>(1, 3), 10);
  EXPECT_EQ(branch_taken<std::int32_t>(-1, 3), 100);
  EXPECT_EQ(branch_taken<std::int32_t>(3, 3), 100);
}

// while (i < limit) i += step, from start.
Program counting(double start, double limit, double step, CompareDirection direction) {
  ProgramBuilder program("counting");
  Builder main = program.computation("main");
  const Value init = ops::tuple(main, {ops::scalar(main, DType::kS32, start)});
  Builder condition = program.computation("condition");
  const Value state = ops::get_tuple_element(ops::parameter(condition, 0, init.type()), 0);
  const Value goes_on = ops::compare(state, ops::scalar(condition, DType::kS32, limit), direction);
  const auto condition_id = program.add(std::move(condition), goes_on);
  Builder body = program.computation("body");
  const Value now = ops::get_tuple_element(ops::parameter(body, 0, init.type()), 0);
  const Value next = ops::tuple(body, {ops::add(ops::scalar(body, DType::kS32, step), now)});
  const auto body_id = program.add(std::move(body), next);
  const Value root = ops::while_loop(init, condition_id, body_id);
  const auto entry = program.add(std::move(main), root);
  return program.finish(entry);
}

std::optional<std::int64_t> trips(const Program& program) {
  const Computation& main = program.entry_computation();
  return known_trip_count(program, main, main[main.root]);
}

// In a compiled module the comparison is in a fusion, and XLA has recorded the trip count.
TEST(While, ItsTripCountMayBeInBackendConfig) {
  const auto noted = [](const std::string& config) {
    return trips(
        parse_program("HloModule m\nless { a = s32[] parameter(0) b = s32[] constant(5) ROOT r = pred[] compare(a, b), "
                      "direction=LT }\n"
                      "cond { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
                      "ROOT f = pred[] fusion(i), kind=kLoop, calls=less }\n"
                      "body { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 o = s32[] constant(1)\n"
                      "j = s32[] add(i, o) ROOT t = (s32[]) tuple(j) }\n"
                      "ENTRY e { z = s32[] constant(0) t = (s32[]) tuple(z)\n"
                      "ROOT w = (s32[]) while(t), condition=cond, body=body" +
                          config + " }",
                      op_table()));
  };
  EXPECT_EQ(noted(""), std::nullopt);
  EXPECT_EQ(noted(R"(, backend_config={"known_trip_count":{"n":"5"},"known_init_step":{"init":"0","step":"1"}})"), 5);
  EXPECT_EQ(noted(R"(, backend_config="{\"known_trip_count\":{\"n\":\"12\"}}")"), 12);
  EXPECT_EQ(noted(R"(, backend_config={"known_trip_count":{"n":"x"}})"), std::nullopt);
}

TEST(While, ItsTripCountIsReadFromTheText) {
  EXPECT_EQ(trips(counting(0, 7, 1, CompareDirection::kLt)), 7);
  EXPECT_EQ(trips(counting(1, 7, 2, CompareDirection::kLe)), 4);
  EXPECT_EQ(trips(counting(9, 7, 2, CompareDirection::kLt)), 0);
  EXPECT_EQ(trips(counting(0, 7, 1, CompareDirection::kNe)), std::nullopt);
  EXPECT_EQ(trips(counting(0, 7, -1, CompareDirection::kLt)), std::nullopt);
  EXPECT_EQ(evaluate(counting(1, 7, 2, CompareDirection::kLe), {}).elements()[0], Literal::scalar<std::int32_t>(9));
}

TEST(While, StopsAtTheTripLimit) {
  EvaluateOptions options;
  options.trip_limit = 7;
  EXPECT_NO_THROW(evaluate(counting(0, 7, 1, CompareDirection::kLt), {}, options));
  options.trip_limit = 6;
  EXPECT_THROW(evaluate(counting(0, 7, 1, CompareDirection::kLt), {}, options), Error);
}

Literal mystery(const std::string& target, double x, std::int32_t tag, const Type& type) {
  ProgramBuilder program("mystery");
  Builder main = program.computation("main");
  const Value a = ops::parameter(main, 0, Type::array(DType::kF64, {1}));
  const Value b = ops::parameter(main, 1, Type::scalar(DType::kS32));
  const Value root = ops::custom_call(main, target, {a, b}, type);
  const auto entry = program.add(std::move(main), root);
  return evaluate(program.finish(entry), {Literal::from<double>({1}, {x}), Literal::scalar(tag)});
}

TEST(CustomCall, AnUnknownTargetIsAContinuousFunctionWithinOne) {
  const Type type = Type::array(DType::kF32, {101});
  const Literal base = mystery("a", 0.5, 1, type);
  EXPECT_EQ(base, mystery("a", 0.5, 1, type));
  double moved = 0;
  double perturbed = 0;
  for (std::int64_t i = 0; i < 101; ++i) {
    EXPECT_LE(std::fabs(element_as_double(base, i)), 1.0);
    perturbed = std::max(
        perturbed, std::fabs(element_as_double(base, i) - element_as_double(mystery("a", 0.5 + 1e-6, 1, type), i)));
    moved = std::max(moved, std::fabs(element_as_double(base, i) - element_as_double(mystery("a", 0.5, 2, type), i)));
  }
  EXPECT_LT(perturbed, 1e-5);
  EXPECT_GT(moved, 0.5) << "integers count exactly";
  EXPECT_FALSE(base == mystery("b", 0.5, 1, type));
  EXPECT_TRUE(std::isfinite(element_as_double(mystery("a", NAN, 1, type), 0)));
}

TEST(CustomCall, ShardingIsTheIdentityAndKeepsItsType) {
  EXPECT_THROW(mystery("Sharding", 0, 0, Type::scalar(DType::kF32)), Error);
}

}  // namespace
}  // namespace tessera
