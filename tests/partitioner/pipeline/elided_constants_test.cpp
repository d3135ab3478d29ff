// SPDX-License-Identifier: Apache-2.0
// Constants with elided elements, `{...}`, in partitioned programs: those that remain stay elided and replicated, and both sides of
// a check draw the same values for them.
#include "tessera/ops/elided_constants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/check/check.h"

namespace tessera {
namespace {

Program read(const std::string& body) { return parse_program("HloModule m, num_partitions=3\n" + body, op_table()); }

// Returns the elided constants: `f32[7,5] e/c`.
std::set<std::string> elided_in(const Program& program) {
  std::set<std::string> out;
  with_elided_constants(program, [&](const Type& type, const std::string& origin) {
    out.insert(type.str() + " " + origin);
    return Literal(type);
  });
  return out;
}

struct Case {
  const char* what;
  const char* text;
};

// Tiles are uneven on 3 devices.
constexpr Case kCases[] = {
    {"sharded along each dim and both",
     R"(ENTRY e {
  x = f32[7,5] parameter(0), sharding={devices=[3,1]<=[3]}
  a = f32[7,5] constant({...}), sharding={devices=[3,1]<=[3]}
  b = f32[7,5] constant({...}), sharding={devices=[1,3]<=[3]}
  s = f32[7,5] add(x, a)
  ROOT p = f32[7,5] multiply(s, b), sharding={devices=[1,3]<=[3]} })"},
    {"read by a product that shards what it sums over",
     R"(ENTRY e {
  x = f32[4,7] parameter(0), sharding={devices=[1,3]<=[3]}
  w = f32[7,5] constant({...})
  ROOT y = f32[4,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} })"},
    {"of every kind of element",
     R"(ENTRY e {
  x = s32[7] parameter(0), sharding={devices=[3]<=[3]}
  i = s32[7] constant({...})
  m = pred[7] constant({...})
  h = bf16[7] constant({...})
  c = c64[7] constant({...})
  u = u4[7] constant({...})
  q = f8e4m3fn[7] constant({...})
  s = s32[7] add(x, i)
  p = s32[7] select(m, s, x)
  f = f32[7] convert(h)
  d = f32[7] convert(q)
  k = f32[7] add(f, d)
  v = u8[7] convert(u)
  n = c64[7] negate(c)
  ROOT t = (s32[7], f32[7], c64[7], u8[7]) tuple(p, k, n, v), sharding={{devices=[3]<=[3]}, {devices=[3]<=[3]}, {devices=[3]<=[3]}, {devices=[3]<=[3]}} })"},
    {"a tuple, of which one element is known",
     R"(ENTRY e {
  x = f32[7] parameter(0), sharding={devices=[3]<=[3]}
  t = (f32[7], f32[7], f32[7]) constant(({...}, {1, 2, 3, 4, 5, 6, 7}, {...}))
  a = f32[7] get-tuple-element(t), index=0
  b = f32[7] get-tuple-element(t), index=1
  c = f32[7] get-tuple-element(t), index=2
  p = f32[7] multiply(x, a)
  q = f32[7] multiply(p, b)
  ROOT r = f32[7] multiply(q, c), sharding={devices=[3]<=[3]} })"},
    {"one name in two computations that are called, and in a fusion",
     R"(f { x = f32[7] parameter(0) c = f32[7] constant({...}) ROOT y = f32[7] multiply(x, c) }
g { x = f32[7] parameter(0) c = f32[7] constant({...}) ROOT y = f32[7] add(x, c) }
h { x = f32[7] parameter(0) c = f32[7] constant({...}) ROOT y = f32[7] subtract(x, c) }
ENTRY e {
  x = f32[7] parameter(0), sharding={devices=[3]<=[3]}
  a = f32[7] call(x), to_apply=f
  b = f32[7] call(a), to_apply=f
  c = f32[7] call(b), to_apply=g
  ROOT d = f32[7] fusion(c), kind=kLoop, calls=h })"},
    {"in a loop, and the number of its rounds",
     R"(cond {
  s = (s32[], f32[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({...})
  ROOT go = pred[] compare(i, n), direction=LT }
body {
  s = (s32[], f32[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[7] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[7] constant({...})
  y = f32[7] multiply(x, c)
  ROOT t = (s32[], f32[7]) tuple(j, y) }
ENTRY e {
  x = f32[7] parameter(0), sharding={devices=[3]<=[3]}
  zero = s32[] constant(-9)
  init = (s32[], f32[7]) tuple(zero, x)
  loop = (s32[], f32[7]) while(init), condition=cond, body=body
  ROOT y = f32[7] get-tuple-element(loop), index=1 })"},
    {"in the branches, and which of them is taken",
     R"(f { x = f32[7] parameter(0) c = f32[7] constant({...}) ROOT y = f32[7] multiply(x, c) }
g { x = f32[7] parameter(0) c = f32[7] constant({...}) ROOT y = f32[7] multiply(x, c) }
ENTRY e {
  x = f32[7] parameter(0), sharding={devices=[3]<=[3]}
  p = pred[] constant({...})
  ROOT y = f32[7] conditional(p, x, x), true_computation=f, false_computation=g })"},
    {"where a reduction starts, and in what it computes",
     R"(add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
odd { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] constant({...}) m = f32[] multiply(b, c) ROOT s = f32[] add(a, m) }
ENTRY e {
  x = f32[7,5] parameter(0), sharding={devices=[3,1]<=[3]}
  i = f32[] constant({...})
  y = f32[5] reduce(x, i), dimensions={0}, to_apply=add
  zero = f32[] constant(0)
  z = f32[5] reduce(x, zero), dimensions={0}, to_apply=odd
  w = f32[7] reduce(x, i), dimensions={1}, to_apply=odd
  ROOT t = (f32[5], f32[5], f32[7]) tuple(y, z, w) })"},
    {"around values: paddings, places and limits",
     R"(ENTRY e {
  x = f32[7,5] parameter(0), sharding={devices=[3,1]<=[3]}
  v = f32[] constant({...})
  i = s32[] constant({...})
  p = f32[9,5] pad(x, v), padding=1_1x0_0
  d = f32[1,5] dynamic-slice(p, i, i), dynamic_slice_sizes={1,5}
  w = f32[3,4] reduce-window(x, v), window={size=3x2 stride=2x1}, to_apply={ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
  ROOT t = (f32[9,5], f32[1,5], f32[3,4]) tuple(p, d, w) })"},
    {"indices and tables",
     R"(ENTRY e {
  ids = s32[6] parameter(0), sharding={devices=[3]<=[3]}
  table = f32[11,4] constant({...}), sharding={devices=[3,1]<=[3]}
  rows = f32[6,4] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
  x = f32[11,4] parameter(1), sharding={devices=[3,1]<=[3]}
  places = s32[5] constant({...})
  some = f32[5,4] gather(x, places), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
  ROOT t = (f32[6,4], f32[5,4]) tuple(rows, some) })"},
};

TEST(ElidedConstants, ComputeTheSameWhenPartitioned) {
  for (const Case& one : kCases) {
    const Program program = read(one.text);
    const CheckReport report = check_partition(program);
    EXPECT_TRUE(report.passed) << one.what << "\n" << fmt::format("{}", fmt::join(report.failures, "\n"));
    EXPECT_EQ(report.drawn_constants, elided_constants(program)) << one.what;
  }
}

TEST(ElidedConstants, ComputeTheSameInTheTypesOfTheModule) {
  const auto run = [](const Program& program, const std::vector<std::vector<Literal>>& arguments) {
    return evaluate_lockstep(program, arguments);
  };
  for (const Case& one : kCases) {
    const CheckReport report = check_partition(read(one.text), {.run = run});
    EXPECT_TRUE(report.passed) << one.what << "\n" << fmt::format("{}", fmt::join(report.failures, "\n"));
  }
}

// A slice of unknown elements would not be identifiable: the complete constant stays, with its type.
TEST(ElidedConstants, StayReplicated) {
  for (const Case& one : kCases) {
    const Program program = read(one.text);
    const Program local = partition(program).program;
    const auto before = elided_in(program);
    for (const std::string& constant : elided_in(local)) EXPECT_TRUE(before.contains(constant)) << one.what << constant;
    EXPECT_TRUE(has_elided_constants(local)) << one.what;
    const std::string text = print_program(local);
    EXPECT_EQ(difference(local, parse_program(text, op_table())), "") << one.what << "\n" << text;
  }
}

// Otherwise a copy of one constant could get the values of another, and the check would miss faults or report false
// ones.
TEST(ElidedConstants, HaveDifferentValues) {
  const Program twins = read(R"(ENTRY e {
  x = f32[7] parameter(0), sharding={devices=[3]<=[3]}
  a = f32[7] constant({...})
  b = f32[7] constant({...})
  s = f32[7] add(x, a)
  ROOT y = f32[7] subtract(s, b) })");
  const Program one = read(R"(ENTRY e {
  x = f32[7] parameter(0), sharding={devices=[3]<=[3]}
  a = f32[7] constant({...})
  b = f32[7] constant({...})
  s = f32[7] add(x, a)
  ROOT y = f32[7] subtract(s, a) })");
  EXPECT_TRUE(check_partition(twins).passed);
  EXPECT_FALSE(check_partitioned(twins, partition(one, {.keep_shardings = true})).passed);
  const Program swapped = read(R"(ENTRY e {
  x = f32[7] parameter(0), sharding={devices=[3]<=[3]}
  a = f32[7] constant({...}), frontend_attributes={tessera.elided="e/b"}
  b = f32[7] constant({...}), frontend_attributes={tessera.elided="e/a"}
  s = f32[7] add(x, a)
  ROOT y = f32[7] subtract(s, b) })");
  EXPECT_FALSE(check_partitioned(twins, partition(swapped, {.keep_shardings = true})).passed);
}

TEST(ElidedConstants, CollectivePassesKeepThem) {
  const Program program = parse_program(R"(HloModule m, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[8] parameter(0)
  i = u32[] partition-id()
  t = s32[2] constant({...})
  o = s32[1] dynamic-slice(t, i), dynamic_slice_sizes={1}
  p = s32[] reshape(o)
  r = f32[8] all-reduce(x), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, to_apply=add
  z = f32[] constant({...})
  c = f32[8] broadcast(z), dimensions={}
  m = f32[8] multiply(r, c)
  ROOT d = f32[4] dynamic-slice(m, p), dynamic_slice_sizes={4} })",
                                        op_table());
  EXPECT_EQ(elided_constants(optimize_collectives(program)), elided_constants(program));
}

}  // namespace
}  // namespace tessera
