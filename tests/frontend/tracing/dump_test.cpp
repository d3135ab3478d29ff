// SPDX-License-Identifier: Apache-2.0
// Dumps of the traced operations: exact texts, and that a dump neither runs nor changes anything.
#include "tessera/frontend/tracing/dump.h"

#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "support/error_of.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"

namespace tessera {
namespace {

using testing::error_of;

Tensor named(std::string name, const std::vector<float>& values) {
  Tensor out = Tensor::from<float>({static_cast<std::int64_t>(values.size())}, values);
  out.set_name(std::move(name));
  return out;
}

TEST(Dump, IrHasTheLineFormatOfPyTorchXla) {
  const FreshRank rank;
  const Tensor x = named("x", {1, 2, 3}), w = named("w", {4, 5, 6});
  const Tensor product = x * 2.0;
  const Tensor y = product + w;
  EXPECT_EQ(dump_ir({y, product}),
            "IR {\n"
            "  %0 = f32[3] xla::device_data(), device=xla:0, name=x\n"
            "  %1 = f32[] prim::Constant(), value=2\n"
            "  %2 = f32[3] xla::broadcast(%1), dimensions={}\n"
            "  %3 = f32[3] xla::multiply(%0, %2), ROOT=1\n"
            "  %4 = f32[3] xla::device_data(), device=xla:0, name=w\n"
            "  %5 = f32[3] xla::add(%3, %4), ROOT=0\n"
            "}\n");
}

TEST(Dump, DotIsAGraphForGraphviz) {
  const FreshRank rank;
  const Tensor x = named("x", {1, 2, 3});
  EXPECT_EQ(dump_dot({-(x * x)}),
            "digraph G {\n"
            "  node [shape=box];\n"
            "  n0 [label=\"%0 xla::device_data\\nf32[3]\\ndevice=xla:0\\nname=x\"];\n"
            "  n1 [label=\"%1 xla::multiply\\nf32[3]\"];\n"
            "  n0 -> n1 [label=\"0\"];\n"
            "  n0 -> n1 [label=\"1\"];\n"
            "  n2 [label=\"%2 xla::negate\\nf32[3]\\nROOT=0\", peripheries=2];\n"
            "  n1 -> n2;\n"
            "}\n");
}

TEST(Dump, HloIsTheProgramAndNamesSourceLines) {
  const FreshRank rank;
  const Tensor x = named("x", {1, 2, 3});
  const int line = __LINE__ + 1;
  const std::string text = dump_hlo({sum(x)});
  EXPECT_TRUE(text.starts_with("HloModule graph, ")) << text;
  EXPECT_NE(text.find(fmt::format("source_file=\"dump_test.cpp\" source_line={}", line)), std::string::npos) << text;
  const Program read = parse_program(text, op_table());
  EXPECT_EQ(print_program(read), text);
  EXPECT_EQ(read.entry_computation().root_type().str(), "(f32[])");
}

// The text of a step can be given to other tools and read again.
TEST(Dump, TheTextOfAStepGivesTheSameProgram) {
  const FreshRank rank;
  Tensor w = named("w", {4, 5, 6});
  w.set_requires_grad();
  sum(tanh(named("x", {1, 2, 3}) * w)).backward();
  const Program step = plan_step().global;
  const Program read = parse_program(print_program(step), op_table());
  EXPECT_EQ(read.hash(), step.hash()) << print_program(step);
}

TEST(Dump, AttributesNameCalledComputations) {
  const FreshRank rank;
  const std::string text = dump_ir({sum(named("x", {1, 2, 3}))});
  EXPECT_NE(text.find(" xla::reduce(%0, %1), dimensions={0}, to_apply=%"), std::string::npos) << text;
  const Tensor one = named("one", {1});
  const std::string both = dump_ir({cond(
      sum(one) > 0.0, [&] { return one + 1.0; }, [&] { return one - 1.0; })});
  EXPECT_NE(both.find(", calls=%"), both.rfind(", calls=%")) << both;
}

TEST(Dump, DataAndDeferredVariablesAreInputs) {
  const FreshRank rank;
  const Tensor x = named("x", {1, 2, 3});
  const Tensor zeros = Tensor::zeros_like_variable(x, DType::kF32, "z");
  EXPECT_EQ(dump_ir({x, zeros, x}),
            "IR {\n"
            "  %0 = f32[3] xla::device_data(), device=xla:0, name=x, ROOT=0, ROOT=2\n"
            "  %1 = f32[3] xla::device_data(), device=xla:0, name=z, ROOT=1\n"
            "}\n");
  EXPECT_FALSE(zeros.is_materialized());
  EXPECT_EQ(dump_ir({}), "IR {\n}\n");
}

TEST(Dump, ShardingsAreShownUnlessTheyAreReplicated) {
  on_ranks(2, [](int) {
    const Tensor x = Tensor::from<float>({4}, {1, 2, 3, 4});
    const Tensor y = Tensor::from<float>({4}, {1, 2, 3, 4});
    mark_sharding(x, Mesh({{"data", 2}}), {"data"});
    EXPECT_EQ(dump_ir({x + y}),
              "IR {\n"
              "  %0 = f32[4] xla::device_data(), device=xla:0, sharding={devices=[2]<=[2]}\n"
              "  %1 = f32[4] xla::device_data(), device=xla:0\n"
              "  %2 = f32[4] xla::add(%0, %1), ROOT=0\n"
              "}\n");
  });
}

// The programs of two steps, of which the second is dumped in the middle, also with tensors that the step has not used.
TEST(Dump, NeitherRunsNorChangesTheStep) {
  const FreshRank rank;
  Tensor w = variable<float>({3}, {1, 2, 3});
  const Tensor late = named("late", {5, 6, 7});
  std::vector<std::string> dumps;
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = sum(square(w * named("x", {1, 2, 3})));
    if (step > 0) {
      const std::int64_t before = lazy_counters().executions;
      dumps.push_back(dump_ir({late, loss, w}) + dump_hlo({late, loss, w}) + dump_dot({late, loss, w}));
      EXPECT_EQ(dump_ir({late, loss, w}) + dump_hlo({late, loss, w}) + dump_dot({late, loss, w}), dumps.back());
      EXPECT_EQ(lazy_counters().executions, before);
      EXPECT_FALSE(loss.is_materialized());
    }
    loss.backward();
    w.assign(w.detach() - w.grad() + late);
    w.zero_grad();
    mark_step();
  }
  EXPECT_EQ(lazy_counters().compilations, 1);
  ASSERT_EQ(dumps.size(), 2U);
  EXPECT_EQ(dumps[0], dumps[1]);
}

TEST(Dump, WorksWhileAJobOnlyPlans) {
  const FreshRank rank;
  plan_for_devices(4);
  const Tensor x = Tensor::abstract(Type::array(DType::kF32, {8}), "x");
  mark_sharding(x, Mesh({{"data", 4}}), {"data"});
  EXPECT_NE(dump_ir({x * x}).find("name=x, sharding={devices=[4]<=[4]}"), std::string::npos);
}

TEST(Dump, ATensorWithoutAValueIsAnError) {
  const FreshRank rank;
  EXPECT_NE(error_of([] { (void)dump_ir({Tensor()}); }).find("a null tensor has no value"), std::string::npos);
  const Tensor x = named("x", {1});
  const auto dump_inside = [&] {
    (void)dump_ir({x});
    return x + 1.0;
  };
  EXPECT_NE(error_of([&] {
              (void)cond(sum(x) > 0.0, dump_inside, [&] { return x; });
            }).find("dump_ir is called inside of a function of cond, a loop or a transform"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
