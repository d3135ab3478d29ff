// SPDX-License-Identifier: Apache-2.0
// Start indices far beyond the end of an operand are clamped for all types. Those of u64 from 2^63 on are not negative.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

struct Index {
  const char* type;
  const char* value;
};
constexpr Index kIndices[] = {{"u64", "9223372036854775808"},
                              {"u64", "18446744073709551606"},
                              {"u64", "4294967297"},
                              {"s64", "-9223372036854775808"},
                              {"s64", "9223372036854775797"},
                              {"u32", "4294967286"},
                              {"u32", "2147483648"},
                              {"s32", "-2147483648"},
                              {"u16", "65525"},
                              {"s16", "-32768"},
                              {"u8", "245"},
                              {"s8", "-128"},
                              {"u4", "8"}};
constexpr const char* kShardings[] = {"{replicated}", "{devices=[3,1]<=[3]}", "{devices=[1,3]<=[3]}"};

// %i is a constant. %j is computed at run time: the same value plus 0 to 7.
std::string module_of(const Index& index, const char* sharding, const std::string& body) {
  return fmt::format(R"(HloModule m, num_partitions=3
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
ENTRY e {{
  x = f32[7,5] parameter(0), sharding={1}
  one = f32[1,5] parameter(1)
  some = {0}[] parameter(2)
  more = {0}[3] parameter(3), sharding={{devices=[3]<=[3]}}
  low = {0}[] constant(0)
  high = {0}[] constant(7)
  few = {0}[] clamp(low, some, high)
  i = {0}[] constant({2})
  j = {0}[] add(i, few)
  lows = {0}[3] broadcast(low), dimensions={{}}
  highs = {0}[3] broadcast(high), dimensions={{}}
  fewer = {0}[3] clamp(lows, more, highs)
  all = {0}[3] broadcast(i), dimensions={{}}
  k = {0}[3] add(all, fewer)
  {3} }})",
                     index.type, sharding, index.value, body);
}

constexpr const char* kBodies[] = {
    "ROOT r = f32[1,5] dynamic-slice(x, i, low), dynamic_slice_sizes={1,5}",
    "ROOT r = f32[2,3] dynamic-slice(x, i, i), dynamic_slice_sizes={2,3}",
    "ROOT r = f32[1,1] dynamic-slice(x, j, i), dynamic_slice_sizes={1,1}",
    "ROOT r = f32[2,5] dynamic-slice(x, j, j), dynamic_slice_sizes={2,5}",
    "ROOT r = f32[7,5] dynamic-update-slice(x, one, i, low)",
    "ROOT r = f32[7,5] dynamic-update-slice(x, one, j, j)",
    "ROOT r = f32[3,5] gather(x, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, "
    "slice_sizes={1,5}",
    "ROOT r = f32[3,5] gather(x, all), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,5}",
    "row = f32[5] reshape(one) rows = f32[3,5] broadcast(row), dimensions={1} ROOT r = f32[7,5] scatter(x, k, rows), "
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
    "to_apply=add",
};

TEST(LargeIndices, ClampOnEverySharding) {
  const RunDevices own_types = [](const Program& program, const std::vector<std::vector<Literal>>& arguments) {
    return evaluate_lockstep(program, arguments);
  };
  for (const Index& index : kIndices)
    for (const char* sharding : kShardings)
      for (const char* body : kBodies) {
        const Program program = parse_program(module_of(index, sharding, body), op_table());
        for (const RunDevices& run : {RunDevices(), own_types}) {
          const CheckReport report = check_partition(program, {.run = run});
          EXPECT_TRUE(report.passed) << index.type << " " << index.value << " " << sharding << "\n"
                                     << body << "\n"
                                     << fmt::format("{}", fmt::join(report.failures, "\n"));
        }
      }
}

TEST(LargeIndices, SimplifyKeepsTheClampedPositionOfAConstantStart) {
  for (const Index& index : kIndices) {
    const Program program = parse_program(
        fmt::format("ENTRY e {{ x = f32[7] parameter(0) i = {}[] constant({}) ROOT r = f32[2] dynamic-slice(x, i), "
                    "dynamic_slice_sizes={{2}} }}",
                    index.type, index.value),
        op_table());
    const auto arguments = seeded_arguments(program, 1);
    EXPECT_EQ(evaluate(simplify(program), arguments), evaluate(program, arguments)) << index.type << " " << index.value;
  }
}

}  // namespace
}  // namespace tessera
