// SPDX-License-Identifier: Apache-2.0
// Rematerialization within a memory budget: the same values in less memory, and only what is needed is computed again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/close.h"
#include "support/error_of.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/base/options.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

using testing::program_of;
using testing::random_arguments;

constexpr std::int64_t kRows = 67;
constexpr std::int64_t kWidth = 12;

Value product(Value a, Value b) { return ops::dot(a, b, {{}, {1}, {}, {0}}); }

// The loss and the gradients of layers x + f(x A) B with inner values that are five times as large as x.
Program residual_layers(int layers) {
  std::vector<Type> types = {Type::array(DType::kF32, {kRows, kWidth})};
  for (int i = 0; i < layers; ++i) {
    types.push_back(Type::array(DType::kF32, {kWidth, 5 * kWidth}));
    types.push_back(Type::array(DType::kF32, {5 * kWidth, kWidth}));
  }
  return program_of(types, [&](Builder& b, auto& v) {
    Value x = v[0];
    for (std::size_t i = 1; i < v.size(); i += 2) {
      const Value inner = ops::tanh(product(x, v[i]));
      x = ops::add(x, product(ops::multiply(inner, ops::exp(ops::negate(inner))), v[i + 1]));
    }
    const Value loss = ops::reduce(ops::multiply(x, x), Reduction::kSum, {0, 1});
    std::vector<Value> results = gradients(b, loss, v);
    results.push_back(loss);
    return ops::tuple(b, results);
  });
}

Program lowered(const Program& program) { return lower(program, 1, {}); }

double flops(const Program& program) {
  double sum = 0;
  for (const Instruction& instruction : program.entry_computation().instructions)
    if (!instruction.type.is_tuple() && instruction.op->role == Role::kPlain)
      sum += flops_of(view_of(program, program.entry_computation(), instruction));
  return sum;
}

class Rematerialize : public ::testing::Test {
 protected:
  Literal run(const Program& program) { return run_program(program, *world_, random_arguments(program, 3)); }
  std::shared_ptr<ProcessGroup> world_ = make_single_rank_world();
};

TEST_F(Rematerialize, KeepsBudgetsAndValues) {
  for (const int layers : {3, 7}) {
    const Program program = lowered(residual_layers(layers));
    const Literal expected = run(program);
    const std::int64_t peak = peak_bytes(program);
    const std::int64_t arena = make_schedule(program)->arena_bytes;
    double before = flops(program);
    for (const double share : {0.9, 0.75, 0.6}) {
      const auto budget = peak - static_cast<std::int64_t>((1 - share) * static_cast<double>(arena));
      const Program smaller = rematerialize(program, budget);
      EXPECT_LE(peak_bytes(smaller), budget) << layers << " layers, " << share;
      EXPECT_TRUE(testing::close(run(smaller), expected)) << layers << " layers, " << share;
      EXPECT_GE(flops(smaller), before);
      EXPECT_LT(flops(smaller), 1.34 * flops(program)) << "at most one more forward pass";
      before = flops(smaller);
    }
  }
}

TEST_F(Rematerialize, DoesNothingIfTheProgramFits) {
  const Program program = lowered(residual_layers(3));
  EXPECT_EQ(rematerialize(program, peak_bytes(program)).entry_computation().size(), program.entry_computation().size());
}

TEST_F(Rematerialize, NeedsTheLeastMemoryIfTheBudgetIsTooSmall) {
  const Program program = lowered(residual_layers(7));
  const Program least = rematerialize(program, 1);
  EXPECT_LT(make_schedule(least)->arena_bytes, make_schedule(program)->arena_bytes * 6 / 10);
  EXPECT_TRUE(testing::close(run(least), run(program)));
}

// A small budget recomputes elementwise values: these cost less time for each byte than products.
TEST_F(Rematerialize, InexpensiveValuesAreComputedAgainFirst) {
  const Program program = lowered(residual_layers(7));
  const std::int64_t value = kRows * 5 * kWidth * 4;
  const Program smaller = rematerialize(program, peak_bytes(program) - value);
  EXPECT_LE(peak_bytes(smaller), peak_bytes(program) - value);
  EXPECT_LT(flops(smaller), 1.02 * flops(program));
}

// Large values of random numbers and small sums are read early, and late through a view (a transpose).
TEST_F(Rematerialize, KeepsTheValuesOfRandomNumbersAndViews) {
  const Type wide = Type::array(DType::kF32, {kRows, 5 * kWidth});
  const Type column = Type::array(DType::kF32, {kRows});
  const Program program =
      lowered(program_of({column, Type::array(DType::kU32, {2})}, [&](Builder& b, const std::vector<Value>& v) {
        std::vector<Value> large;
        Value x = v[0];
        for (int i = 0; i < 6; ++i) {
          const Value noise = ops::random_uniform(v[1], wide.dims(), DType::kF32);
          const Value y = ops::multiply(ops::broadcast(ops::tanh(x), wide.dims(), {0}), noise);
          large.push_back(y);
          x = ops::add(x, ops::reduce(ops::multiply(y, y), Reduction::kSum, {1}));
        }
        Value sum = product(ops::transpose(large.back(), {1, 0}), large.back());
        for (std::size_t i = large.size() - 1; i-- > 0;)
          sum = ops::add(product(ops::transpose(large[i], {1, 0}), large[i]), ops::tanh(sum));
        return ops::tuple(b, {sum, x});
      }));
  const Program smaller = rematerialize(program, 1);
  EXPECT_LT(make_schedule(smaller)->arena_bytes, make_schedule(program)->arena_bytes * 7 / 10);
  EXPECT_TRUE(testing::close(run(smaller), run(program)));
}

// Layers without a residual connection all look alike: there is no step that needs less memory than the others.
TEST_F(Rematerialize, ChainsOfEqualLayersNeedAboutTheSquareRoot) {
  constexpr int kLayers = 25;
  std::vector<Type> types = {Type::array(DType::kF32, {kRows, kWidth})};
  types.insert(types.end(), kLayers, Type::array(DType::kF32, {kWidth, kWidth}));
  const Program program = lowered(program_of(types, [&](Builder& b, const std::vector<Value>& v) {
    Value x = v[0];
    for (std::size_t i = 1; i < v.size(); ++i) x = ops::tanh(product(x, v[i]));
    return ops::tuple(b, gradients(b, ops::reduce(x, Reduction::kSum, {0, 1}), v));
  }));
  const Program smaller = rematerialize(program, 1);
  EXPECT_LT(make_schedule(smaller)->arena_bytes, make_schedule(program)->arena_bytes * 6 / 10);
  EXPECT_TRUE(testing::close(run(smaller), run(program)));
}

// Two losses, one after the other: both phases have a peak.
TEST_F(Rematerialize, EachPhaseOfAProgramHasAPeak) {
  const Program one = residual_layers(5);
  std::vector<Type> types = one.entry_computation().parameter_types();
  const Program two = lowered(program_of(types, [&](Builder& b, const std::vector<Value>& v) {
    std::vector<Value> results;
    for (int phase = 0; phase < 2; ++phase) {
      Value x = phase == 0 ? v[0] : ops::opt_barrier({ops::negate(v[0]), results[0]}).front();
      for (std::size_t i = 1; i < v.size(); i += 2) {
        const Value inner = ops::tanh(product(x, v[i]));
        x = ops::add(x, product(ops::multiply(inner, inner), v[i + 1]));
      }
      results.push_back(gradients(b, ops::reduce(ops::multiply(x, x), Reduction::kSum, {0, 1}), {v[1]})[0]);
    }
    return ops::tuple(b, results);
  }));
  const Program smaller = rematerialize(two, 1);
  EXPECT_LT(make_schedule(smaller)->arena_bytes, make_schedule(two)->arena_bytes * 8 / 10);
  EXPECT_TRUE(testing::close(run(smaller), run(two)));
}

// Reads through tuples, barriers and an unchanged leaf of a loop are those of the value itself.
TEST_F(Rematerialize, FollowsTuplesBarriersAndLoops) {
  const std::string text = R"(HloModule m
keep { s = (s32[], f32[67,60]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[67,60] get-tuple-element(s), index=1
  ROOT r = (s32[], f32[67,60]) tuple(next, x) }
more { s = (s32[], f32[67,60]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY main {
  p = f32[67,60] parameter(0)
  zero = s32[] constant(0)
  a = f32[67,60] tanh(p)
  b = f32[67,60] exponential(a)
  c = f32[67,60] sine(b)
  d = f32[67,60] cosine(c)
  e = f32[67,67] dot(d, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ab = (f32[67,60], f32[67,60]) tuple(a, b)
  barrier = (f32[67,60], f32[67,60]) opt-barrier(ab)
  state = (s32[], f32[67,60]) tuple(zero, c)
  loop = (s32[], f32[67,60]) while(state), condition=more, body=keep
  f = f32[67,60] dot(e, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[67,60] dot(e, f), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  late_c = f32[67,60] get-tuple-element(loop), index=1
  late_a = f32[67,60] get-tuple-element(barrier), index=0
  late_b = f32[67,60] get-tuple-element(barrier), index=1
  h = f32[67,60] multiply(g, late_c)
  i = f32[67,67] dot(h, late_b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  j = f32[67,60] dot(i, late_a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[67,60], f32[67,67]) tuple(j, i)
})";
  const Program program = lowered(testing::read(text));
  const Program smaller = rematerialize(program, 1);
  EXPECT_LT(peak_bytes(smaller), peak_bytes(program));
  EXPECT_TRUE(testing::close(run(smaller), run(program)));
}

TEST_F(Rematerialize, TheOptionAppliesToEveryCompilation) {
  const Program program = residual_layers(5);
  const ExecutableMemory without = compile(program, *world_)->memory();
  const Literal expected = run(program);
  options().set("TESSERA_MEMORY_BUDGET", std::to_string(without.peak_bytes() - without.arena / 4));
  const ExecutableMemory within = compile(program, *world_)->memory();
  const Literal got = run(program);
  options().set("TESSERA_MEMORY_BUDGET", "");
  EXPECT_LE(within.peak_bytes(), without.peak_bytes() - without.arena / 4);
  EXPECT_TRUE(testing::close(got, expected));
}

int count_of(const Program& program, const OpDef& op) {
  const auto& all = program.entry_computation().instructions;
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const Instruction& i) { return i.op == &op; }));
}

// A product over many elements costs more time than writing its small result to a file.
TEST_F(Rematerialize, ExpensiveProductsMoveToAFile) {
  const Program program = lowered(testing::read(R"(HloModule m
ENTRY main {
  a = f32[67,8192] parameter(0)
  b = f32[8192,61] parameter(1)
  c = f32[61,3001] parameter(2)
  x = f32[67,61] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[67,3001] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[67,67] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT out = f32[67,61] dot(z, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"));
  const std::int64_t budget = peak_bytes(program) - std::int64_t{67} * 61 * 4;
  const Program recomputed = rematerialize(program, budget);
  EXPECT_GT(flops(recomputed), 1.5 * flops(program));
  const Program offloaded = rematerialize(program, budget, true);
  EXPECT_EQ(count_of(offloaded, rows::kMoveToHost), 1);
  EXPECT_EQ(count_of(offloaded, rows::kMoveToDevice), 1);
  EXPECT_EQ(flops(offloaded), flops(program));
  const auto schedule = make_schedule(offloaded);
  EXPECT_LE(schedule->peak_bytes(), budget);
  EXPECT_EQ(schedule->file_bytes, ceil_div(67 * 61 * 4, 64) * 64);
  verify_schedule(offloaded, *schedule);
  metrics().clear_all();
  EXPECT_TRUE(testing::close(run(offloaded), run(program)));
  EXPECT_EQ(metrics().counter_value("OffloadedBytes"), 67 * 61 * 4);
}

// Values that cannot be computed again without others in memory can be in a file, also those of tuples.
TEST_F(Rematerialize, WithAFileLessMemorySuffices) {
  const Program program = lowered(residual_layers(7));
  const Program recomputed = rematerialize(program, 1);
  const Program offloaded = rematerialize(program, 1, true);
  EXPECT_LT(make_schedule(offloaded)->arena_bytes, make_schedule(recomputed)->arena_bytes);
  EXPECT_TRUE(testing::close(run(offloaded), run(program)));
}

TEST_F(Rematerialize, EmptyValuesNeedNoFile) {
  const Program program = testing::read(R"(HloModule m
ENTRY main {
  x = f32[0,7] parameter(0)
  y = f32[0,7] negate(x)
  f = f32[0,7] move-to-host(y)
  z = f32[0,7] move-to-device(f)
  ROOT out = f32[0,7] add(z, x)
})");
  EXPECT_EQ(run(program), evaluate(program, random_arguments(program, 3)));
}

TEST_F(Rematerialize, TheFolderOfTheFileMustExist) {
  const Program program = residual_layers(7);
  const auto run_on_new_rank = [&](ProcessGroup& world) {
    options().set("TESSERA_OFFLOAD_DIR", "/there/is/no/such/folder");  // of this rank
    options().set("TESSERA_MEMORY_BUDGET", "1");
    run_program(program, world, random_arguments(program, 3));
  };
  EXPECT_THAT(testing::error_of([&] { run_virtual_ranks(1, run_on_new_rank); }),
              ::testing::MatchesRegex("rank 0 cannot reserve .* for offloaded values in /there/is/no/such/folder "
                                      ".TESSERA_OFFLOAD_DIR.: No such file or directory"));
}

// A value that is computed again reads a parameter that the program updates in place afterwards.
TEST_F(Rematerialize, ReadsParametersBeforeTheirUpdates) {
  const Program program = lowered(testing::read(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  w = f32[130,61] parameter(0)
  x = f32[67,130] parameter(1)
  c = f32[61,3001] parameter(2)
  a = f32[67,61] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[67,3001] dot(a, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[67,67] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  b = f32[67,61] dot(z, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[61,61] dot(b, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  u = f32[130,61] dot(w, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[130,61] multiply(w, u)
  ROOT out = (f32[130,61], f32[67,61]) tuple(v, b)
})"));
  const std::int64_t budget = peak_bytes(program) - std::int64_t{67} * 61 * 4;
  const Program smaller = rematerialize(program, budget);
  EXPECT_EQ(count_of(smaller, rows::kDot), 7);
  EXPECT_LE(peak_bytes(smaller), budget);
  EXPECT_TRUE(testing::close(run(smaller), run(program)));
}

// The gathered weights are not kept while a large value is in memory, but gathered again from their shards.
TEST_F(Rematerialize, ValuesAreGatheredAgain) {
  const Program program = lower(testing::read(R"(HloModule m, num_partitions=2
ENTRY main {
  w = f32[65,61] parameter(0)
  x = f32[67,130] parameter(1)
  c = f32[61,3001] parameter(2)
  g = f32[130,61] all-gather(w), dimensions={0}, replica_groups={{0,1}}, use_global_device_ids=true, channel_id=1
  a = f32[67,61] dot(x, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[67,3001] dot(a, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[67,67] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  zx = f32[67,130] dot(z, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = f32[67,61] dot(zx, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"),
                                2, {});
  const std::int64_t budget = peak_bytes(program) - std::int64_t{130} * 61 * 4;
  const Program smaller = rematerialize(program, budget);
  EXPECT_EQ(count_of(smaller, rows::kAllGather), 2);
  EXPECT_LE(peak_bytes(smaller), budget);
  run_virtual_ranks(2, [&](ProcessGroup& world) {
    const auto arguments = random_arguments(program, 3 + world.rank());
    const Literal expected = run_program(program, world, arguments);
    EXPECT_TRUE(testing::close(run_program(smaller, world, arguments), expected));
  });
}

}  // namespace
}  // namespace tessera
