// SPDX-License-Identifier: Apache-2.0
// Plans of random programs are valid (verify_schedule tracks the content of every buffer), with and without fusion,
// views and reordering.
#include <gtest/gtest.h>

#include <random>

#include "../../src/schedule/memory_plan.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

// Returns values of [6,4] and [24], combined by elementwise ops, views, reshapes, dots, tuples and barriers.
Program random_program(unsigned seed) {
  std::mt19937 random(seed);
  ProgramBuilder program("random");
  Builder main = program.computation("main");
  const Type matrix = Type::array(DType::kF32, {6, 4});
  std::vector<Value> values;
  for (int i = 0; i < 3; ++i) values.push_back(ops::parameter(main, i, matrix));
  const auto pick = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < 30; ++i) {
    const Value a = pick();
    const Value b = pick();
    switch (random() % 9) {
      case 0: values.push_back(ops::add(a, b)); break;
      case 1: values.push_back(ops::tanh(a)); break;
      case 2: values.push_back(ops::reshape(ops::negate(ops::reshape(a, {24})), {6, 4})); break;
      case 3: values.push_back(ops::broadcast(ops::reduce(a, Reduction::kSum, {1}), {6, 4}, {0})); break;
      case 4: values.push_back(ops::dot(ops::dot(a, b, {{}, {1}, {}, {1}}), b, {{}, {1}, {}, {0}})); break;
      case 5: values.push_back(ops::reshape(ops::transpose(a, {1, 0}), {6, 4})); break;
      case 6:
        values.push_back(ops::multiply(a, ops::broadcast(ops::reshape(ops::slice_dim(b, 0, 2, 3), {4}), {6, 4}, {1})));
        break;
      case 7: values.push_back(ops::opt_barrier({a, b})[random() % 2]); break;
      default: values.push_back(ops::copy(a)); break;
    }
  }
  std::vector<Value> results;
  for (int i = 0; i < 4; ++i) results.push_back(pick());
  const ComputationId entry = program.add(std::move(main), ops::tuple(*results[0].builder, results));
  Program out = program.finish(entry);
  if (seed % 2 == 0) out.aliases = {{{0}, 0, {}, false}, {{2}, 2, {}, false}};
  return out;
}

TEST(PlanProperty, BuffersOfRandomProgramsHoldTheValuesThatAreRead) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = random_program(seed);
    for (int bits = 0; bits < 8; ++bits) {
      ScheduleOptions options{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      const auto plan = make_schedule(program, options);
      EXPECT_NO_THROW(verify_schedule(program, *plan)) << bits;
    }
  }
}

TEST(PlanProperty, TheVerifierDetectsOverlappingBuffers) {
  int caught = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Program program = random_program(seed);
    Schedule plan = *make_schedule(program, {true, false, false});
    for (Buffer& buffer : plan.buffers)
      if (buffer.place == Place::kArena) buffer.offset = 0;
    try {
      verify_schedule(program, plan);
    } catch (const InternalError&) {
      ++caught;
    }
  }
  EXPECT_GT(caught, 35);
}

TEST(PlanProperty, IntervalsThatShareAStepNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<schedule::BufferLife> intervals;
    for (int i = 0; i < 80; ++i) {
      const auto first = static_cast<std::int32_t>(random() % 50);
      intervals.push_back(
          {static_cast<std::int64_t>(random() % 1000), first, first + static_cast<std::int32_t>(random() % 10)});
    }
    const auto plan = schedule::place_buffers(intervals);
    std::int64_t end = 0;
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % kBufferAlignment, 0);
      end = std::max(end, plan.offsets[i] + intervals[i].bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = intervals[i].first <= intervals[j].last && intervals[j].first <= intervals[i].last;
        const bool overlap = intervals[i].bytes > 0 && intervals[j].bytes > 0 &&
                             plan.offsets[i] < plan.offsets[j] + intervals[j].bytes &&
                             plan.offsets[j] < plan.offsets[i] + intervals[i].bytes;
        EXPECT_FALSE(together && overlap) << i << " " << j;
      }
    }
    EXPECT_LE(end, plan.total);
    EXPECT_LT(plan.total - end, kBufferAlignment);
  }
}

}  // namespace
}  // namespace tessera
