// SPDX-License-Identifier: Apache-2.0
// Executables: results, donation, memory, control flow, the compile cache, errors.
#include "tessera/runtime/executable/executable.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "runtime/close.h"
#include "support/error_of.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/evaluate.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::close;
using testing::random_arguments;
using testing::read;

constexpr const char* kUpdate =
    R"(HloModule update, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY %main (w: f32[64,3], m: f32[64,3], g: f32[64,3]) -> (f32[64,3], f32[64,3], f32[64,3]) {
  %w = f32[64,3] parameter(0)
  %m = f32[64,3] parameter(1)
  %g = f32[64,3] parameter(2)
  %c = f32[] constant(0.5)
  %decay = f32[64,3] broadcast(%c), dimensions={}
  %scaled = f32[64,3] multiply(%m, %decay)
  %m2 = f32[64,3] add(%scaled, %g)
  %step = f32[64,3] multiply(%m2, %decay)
  %w2 = f32[64,3] subtract(%w, %step)
  %sum = f32[64,3] add(%w, %g)
  ROOT %out = (f32[64,3], f32[64,3], f32[64,3]) tuple(%w2, %m2, %sum)
})";

TEST(Executable, ArraysWithoutElementsAreSupported) {
  const Program program = read(R"(HloModule none
ENTRY %main (x: f32[0,5], r: f32[0]) -> f32[0,5] {
  %x = f32[0,5] parameter(0)
  %r = f32[0] parameter(1)
  %n = f32[0] negate(%r)
  %b = f32[0,5] broadcast(%n), dimensions={0}
  ROOT %y = f32[0,5] add(%x, %b)
})");
  const auto world = make_single_rank_world();
  EXPECT_TRUE(close(run_program(program, *world, random_arguments(program, 1)),
                    evaluate(program, random_arguments(program, 1))));
}

TEST(Executable, SmallBf16UpdatesAreNotLostInLargeValues) {
  const Program program = read(R"(HloModule small
%sum (a: bf16[], b: bf16[]) -> bf16[] {
  %a = bf16[] parameter(0)
  %b = bf16[] parameter(1)
  ROOT %r = bf16[] add(%a, %b)
}
ENTRY %main (x: bf16[8], i: s32[100,1], u: bf16[100]) -> bf16[8] {
  %x = bf16[8] parameter(0)
  %i = s32[100,1] parameter(1)
  %u = bf16[100] parameter(2)
  %zero = bf16[] constant(0)
  %zeros = bf16[8] broadcast(%zero), dimensions={}
  %s = bf16[8] scatter(%zeros, %i, %u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum
  ROOT %y = bf16[8] add(%x, %s)
})");
  const std::vector<Literal> arguments{Literal::from<BFloat16>({8}, std::vector<BFloat16>(8, BFloat16(1000.0F))),
                                       Literal::from<std::int32_t>({100, 1}, std::vector<std::int32_t>(100, 3)),
                                       Literal::from<BFloat16>({100}, std::vector<BFloat16>(100, BFloat16(1.0F)))};
  const auto world = make_single_rank_world();
  const Literal out = run_program(program, *world, arguments);
  EXPECT_EQ(static_cast<float>(out.data<BFloat16>()[3]), 1104.0F);  // 1100 rounded to bf16
}

TEST(Executable, DonatedArgumentsGiveTheirMemoryToTheResults) {
  const auto world = make_single_rank_world();
  const Program program = read(kUpdate);
  const auto values = random_arguments(program, 3);
  const auto executable = compile(program, *world);
  EXPECT_EQ(executable->donations(), (std::vector<int>{0, 1, -1}));
  EXPECT_EQ(executable->memory().aliased, 2 * 64 * 3 * 4);
  EXPECT_LE(executable->memory().arena, 32 * 1024);  // temporaries of a tile
  std::vector<DeviceArray> arguments = to_device(values);
  const std::byte* w = arguments[0].bytes().data();
  const std::byte* m = arguments[1].bytes().data();
  const auto results = executable->run(std::move(arguments));
  EXPECT_EQ(results[0].bytes().data(), w);
  EXPECT_EQ(results[1].bytes().data(), m);
  const auto expected = evaluate(program, values).elements();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(close(results[i].to_literal(), expected[i])) << i;
}

std::ptrdiff_t thread_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

// Without TESSERA_NUM_THREADS a rank uses one thread. A new thread, for which no OpenMP limit was set, compiles and
// runs.
TEST(Executable, ConvolutionsUseNoMoreThreadsThanTheRankHas) {
  const Program program = read(
      "HloModule m\nENTRY main { x = f32[2,32,28,28] parameter(0) w = f32[32,32,3,3] parameter(1)\n"
      "ROOT y = f32[2,32,28,28] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01 }");
  std::thread rank([&] {
    const auto world = make_single_rank_world();
    const auto before = thread_count();
    compile(program, *world)->run(to_device(random_arguments(program, 3)));
    EXPECT_EQ(thread_count(), before);
  });
  rank.join();
}

TEST(Executable, AnArgumentWithAnotherHolderIsNotOverwritten) {
  const auto world = make_single_rank_world();
  const Program program = read(kUpdate);
  const auto values = random_arguments(program, 3);
  const std::vector<DeviceArray> kept = to_device(values);
  metrics().clear_all();
  const auto results = compile(program, *world)->run(kept);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(kept[i].to_literal(), values[i]);
  EXPECT_TRUE(close(results[0].to_literal(), evaluate(program, values).elements()[0]));
  EXPECT_EQ(metrics().counter_value("DonationCopy"), 2);
}

TEST(Executable, AnArrayPassedTwiceIsNotOverwritten) {
  const auto world = make_single_rank_world();
  const Program program = read(kUpdate);
  auto values = random_arguments(program, 3);
  values[1] = values[0];
  const DeviceArray one = DeviceArray::from_literal(values[0]);
  const auto results = compile(program, *world)->run({one, one, DeviceArray::from_literal(values[2])});
  const auto expected = evaluate(program, values).elements();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(close(results[i].to_literal(), expected[i])) << i;
}

TEST(Executable, LaterStepsAllocateNothing) {
  const auto world = make_single_rank_world();
  const Program program = read(kUpdate);
  const auto executable = compile(program, *world);
  const auto values = random_arguments(program, 3);
  auto state = to_device(values);
  std::int64_t before = 0;
  for (int step = 0; step < 6; ++step) {
    if (step == 2) before = memory_info().used + memory_info().pooled;
    const DeviceArray gradient = state[2];
    state.pop_back();
    state.push_back(gradient);
    state = executable->run(std::move(state));
  }
  EXPECT_LE(memory_info().used + memory_info().pooled, before);
}

TEST(Executable, CrosswiseAliasesAndReturnedParametersGiveRightResults) {
  const auto world = make_single_rank_world();
  for (const std::string alias : {"", ", input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, may-alias) }",
                                  ", input_output_alias={ {0}: (0, {}, may-alias), {2}: (1, {}, may-alias) }"}) {
    const Program program = read("HloModule swap" + alias + R"(
ENTRY %main (a: f32[5], b: f32[5]) -> (f32[5], f32[5], f32[5], f32[5]) {
  %a = f32[5] parameter(0)
  %b = f32[5] parameter(1)
  %s = f32[5] add(%a, %b)
  %k = f32[5] constant({1, 2, 3, 4, 5})
  ROOT %out = (f32[5], f32[5], f32[5], f32[5]) tuple(%b, %a, %s, %k)
})");
    const auto values = random_arguments(program, 9);
    EXPECT_EQ(run_program(program, *world, values), evaluate(program, values)) << alias;
  }
}

constexpr const char* kLoop = R"(HloModule loop
%cond (s: (s32[], f32[4,3], f32[3])) -> pred[] {
  %s = (s32[], f32[4,3], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(5)
  ROOT %more = pred[] compare(%i, %n), direction=LT
}
%body (t: (s32[], f32[4,3], f32[3])) -> (s32[], f32[4,3], f32[3]) {
  %t = (s32[], f32[4,3], f32[3]) parameter(0)
  %j = s32[] get-tuple-element(%t), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%j, %one)
  %x = f32[4,3] get-tuple-element(%t), index=1
  %v = f32[3] get-tuple-element(%t), index=2
  %spread = f32[4,3] broadcast(%v), dimensions={1}
  %y = f32[4,3] add(%x, %spread)
  %half = f32[] constant(0.5)
  %halves = f32[3] broadcast(%half), dimensions={}
  %w = f32[3] multiply(%v, %halves)
  ROOT %r = (s32[], f32[4,3], f32[3]) tuple(%next, %y, %w)
}
ENTRY %main (x: f32[4,3], v: f32[3]) -> (s32[], f32[4,3], f32[3]) {
  %x = f32[4,3] parameter(0)
  %v = f32[3] parameter(1)
  %zero = s32[] constant(0)
  %init = (s32[], f32[4,3], f32[3]) tuple(%zero, %x, %v)
  ROOT %while = (s32[], f32[4,3], f32[3]) while(%init), condition=%cond, body=%body
})";

TEST(Executable, LoopsAreExecutedAndTheirFlopsCounted) {
  const auto world = make_single_rank_world();
  const Program program = read(kLoop);
  const auto values = random_arguments(program, 4);
  EXPECT_TRUE(close(run_program(program, *world, values), evaluate(program, values)));
  const auto executable = compile(program, *world);
  executable->run(to_device(values));
  // 5 iterations with 12 and 3 floating-point elements. Integers and predicates do not count.
  EXPECT_EQ(executable->last_run().flops, 5 * (12 + 3));
}

TEST(Executable, ALoopThatContinuesAfterTheTripLimitIsAnError) {
  const Program program = read(kLoop);
  const auto values = random_arguments(program, 4);
  for (const std::string backend : {"CPU", "REFERENCE"})
    run_virtual_ranks(1, [&](ProcessGroup& world) {
      options().set("PJRT_DEVICE", backend);
      ExecutableOptions limited;
      limited.trip_limit = 5;  // its rounds
      EXPECT_TRUE(close(run_program(program, world, values, limited), evaluate(program, values))) << backend;
      limited.trip_limit = 4;
      EXPECT_EQ(testing::error_of([&] { run_program(program, world, values, limited); }),
                "while %while: still running after 4 rounds, the trip limit")
          << backend;
    });
}

TEST(Executable, ALoopThatSwapsItsStateStagesTheCopies) {
  const auto world = make_single_rank_world();
  const Program program = read(R"(HloModule fibonacci
%cond (s: (s32[], f32[2], f32[2])) -> pred[] {
  %s = (s32[], f32[2], f32[2]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(7)
  ROOT %more = pred[] compare(%i, %n), direction=LT
}
%body (t: (s32[], f32[2], f32[2])) -> (s32[], f32[2], f32[2]) {
  %t = (s32[], f32[2], f32[2]) parameter(0)
  %j = s32[] get-tuple-element(%t), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%j, %one)
  %x = f32[2] get-tuple-element(%t), index=1
  %y = f32[2] get-tuple-element(%t), index=2
  ROOT %r = (s32[], f32[2], f32[2]) tuple(%next, %y, %x)
}
ENTRY %main (x: f32[2], v: f32[2]) -> (s32[], f32[2], f32[2]) {
  %x = f32[2] parameter(0)
  %v = f32[2] parameter(1)
  %zero = s32[] constant(0)
  %init = (s32[], f32[2], f32[2]) tuple(%zero, %x, %v)
  ROOT %while = (s32[], f32[2], f32[2]) while(%init), condition=%cond, body=%body
})");
  const auto values = random_arguments(program, 4);
  EXPECT_EQ(run_program(program, *world, values), evaluate(program, values));
}

TEST(Executable, ConditionalsAndCallsRunTheirBranch) {
  const auto world = make_single_rank_world();
  const Program program = read(R"(HloModule branches
%double (a: f32[6]) -> f32[6] {
  %a = f32[6] parameter(0)
  ROOT %r = f32[6] add(%a, %a)
}
%square (b: f32[6]) -> f32[6] {
  %b = f32[6] parameter(0)
  ROOT %r = f32[6] multiply(%b, %b)
}
ENTRY %main (which: s32[], x: f32[6]) -> (f32[6], f32[6]) {
  %which = s32[] parameter(0)
  %x = f32[6] parameter(1)
  %c = f32[6] conditional(%which, %x, %x), branch_computations={%double, %square}
  %d = f32[6] call(%c), to_apply=%double
  ROOT %out = (f32[6], f32[6]) tuple(%c, %d)
})");
  const Literal x = testing::random_literal(Type::array(DType::kF32, {6}), 1);
  for (const std::int32_t which : {0, 1, 7, -1})
    EXPECT_EQ(run_program(program, *world, {Literal::scalar(which), x}), evaluate(program, {Literal::scalar(which), x}))
        << which;
}

TEST(Executable, AnEqualProgramCompilesOnce) {
  const auto world = make_single_rank_world();
  clear_compile_cache();
  metrics().clear_all();
  const auto first = compile(read(kUpdate), *world);
  EXPECT_EQ(compile(read(kUpdate), *world), first);
  EXPECT_NE(compile(read(kLoop), *world), first);
  EXPECT_EQ(metrics().counter_value("UncachedCompile"), 2);
  EXPECT_EQ(metrics().counter_value("CachedCompile"), 1);
  EXPECT_EQ(metrics().metric_data("CompileTime")->total_samples, 2);
}

TEST(Executable, OpsWithoutAKernelAreListed) {
  const auto world = make_single_rank_world();
  metrics().clear_all();
  const Program program = read(R"(HloModule rare
ENTRY %main (x: f32[5]) -> f32[5] {
  %x = f32[5] parameter(0)
  %a = f32[5] sinh(%x)
  %b = f32[5] add(%a, %x)
  ROOT %y = f32[5] cosh(%b)
})");
  const auto arguments = random_arguments(program, 1);
  EXPECT_EQ(executed_fallback_ops(), std::vector<std::string>{});
  EXPECT_TRUE(close(run_program(program, *world, arguments), evaluate(program, arguments)));
  EXPECT_EQ(executed_fallback_ops(), (std::vector<std::string>{"fallback::cosh", "fallback::sinh"}));
}

TEST(Executable, ErrorsNameTheWrongArgument) {
  const auto world = make_single_rank_world();
  const auto executable = compile(read(kUpdate), *world);
  const auto message = [&](std::vector<DeviceArray> arguments) -> std::string {
    try {
      executable->run(std::move(arguments));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "update: takes 3 arguments, got 0");
  const Type good = Type::array(DType::kF32, {64, 3});
  EXPECT_EQ(
      message({DeviceArray::zeros(good), DeviceArray::zeros(good), DeviceArray::zeros(Type::scalar(DType::kF32))}),
      "update: argument 2 must be f32[64,3], is f32[]");
}

TEST(Executable, RefusesAWorldOfTheWrongSizeAndAnUnknownBackend) {
  const auto world = make_single_rank_world();
  Program program = read(kUpdate);
  program.num_partitions = 4;
  try {
    compile(program, *world);
    FAIL() << "compiled for one rank";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "update is a program for 4 devices, the world has 1 ranks");
  }
}

}  // namespace
}  // namespace tessera
