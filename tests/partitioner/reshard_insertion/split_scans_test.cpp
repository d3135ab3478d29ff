// SPDX-License-Identifier: Apache-2.0
// Cumulative ops along a sharded dim: only the totals of the tiles are exchanged.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partitioner/reshard_insertion/checked_bytes.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

using testing::checked_bytes;

std::string module_of(const std::string& combine, const std::string& init, const std::string& pad, int devices) {
  return fmt::format(
      R"(HloModule m, num_partitions={0}
f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] {1}(a, b) }}
ENTRY e {{
  x = f32[24,5] parameter(0), sharding={{devices=[{0},1]<=[{0}]}}
  i = f32[] constant({2})
  n = f32[24,5] negate(x)
  s = f32[24,5] reduce-window(n, i), window={{size=24x1 pad={3}x0_0}}, to_apply=f
  ROOT r = f32[24,5] sine(s), sharding={{devices=[{0},1]<=[{0}]}}
}})",
      devices, combine, init, pad);
}

// One row of 5 from each other device, in either direction, for all accumulations.
TEST(SplitScans, OnlyTileTotalsAreExchanged) {
  for (const int devices : {2, 3, 4, 5, 6, 7, 8})
    for (const auto& [combine, init] :
         std::vector<std::pair<std::string, std::string>>{{"add", "0"}, {"maximum", "-inf"}, {"multiply", "1"}})
      for (const std::string pad : {"23_0", "0_23"})
        EXPECT_LE(checked_bytes(module_of(combine, init, pad, devices)), (devices - 1) * 5 * 4)
            << combine << pad << devices;
}

// An initial value of 2 would be added once per tile, and a window of 23 leaves out elements. Both cases stay correct.
TEST(SplitScans, OtherWindowsAreNotSplit) {
  const std::int64_t split = checked_bytes(module_of("add", "0", "23_0", 3));
  EXPECT_GT(checked_bytes(module_of("add", "2", "23_0", 3)), split);
  std::string shorter = module_of("add", "0", "22_0", 3);
  shorter.replace(shorter.find("size=24"), 7, "size=23");
  EXPECT_GT(checked_bytes(shorter), split);
}

// Receives the first k of each tile with their positions; no device holds a complete line of 997.
TEST(SplitTopK, OnlyTheFirstElementsOfEachTileAreExchanged) {
  for (const int devices : {2, 3, 4, 5, 7, 8})
    for (const int k : {1, 3})
      for (const std::string largest : {"true", "false"}) {
        const std::string text = fmt::format(
            "HloModule m, num_partitions={0}\n"
            "ENTRY main {{ x = f32[3,997] parameter(0), sharding={{devices=[1,{0}]<=[{0}]}}\n"
            "ROOT t = (f32[3,{1}], s32[3,{1}]) topk(x), k={1}, largest={2} }}\n",
            devices, k, largest);
        EXPECT_LE(checked_bytes(text), 3 * k * 8 * (devices - 1)) << text;
      }
}

// 4 of 6 elements from each of two tiles are more bytes than the line.
TEST(SplitTopK, TheLineIsGatheredIfThatIsLess) {
  EXPECT_LE(checked_bytes("HloModule m, num_partitions=2\n"
                          "ENTRY main { x = f32[3,12] parameter(0), sharding={devices=[1,2]<=[2]}\n"
                          "ROOT t = (f32[3,4], s32[3,4]) topk(x), k=4, largest=true }\n"),
            3 * 6 * 4);
}

TEST(SplitTopK, ControlDependenciesOfASplitTopKAreKept) {
  const Program program = parse_program(R"(HloModule m, num_partitions=4
ENTRY main {
  x = f32[101] parameter(0), sharding={devices=[4]<=[4]}
  p = f32[101] custom-call(x), custom_call_target="before", custom_call_has_side_effect=true
  t = (f32[2], s32[2]) topk(x), k=2, largest=true, control-predecessors={p}
  q = f32[101] custom-call(x), custom_call_target="behind", custom_call_has_side_effect=true, control-predecessors={t}
  ROOT out = ((f32[2], s32[2]), f32[101]) tuple(t, q)
})",
                                        op_table());
  const Program made = partition(program).program;
  const Computation& entry = made.entry_computation();
  std::vector<Id> selections;
  Id before = -1;
  Id after = -1;
  for (Id id = 0; id < entry.size(); ++id) {
    if (entry[id].op->name == "topk") selections.push_back(id);
    if (entry[id].name == "p") before = id;
    if (entry[id].name == "q") after = id;
  }
  ASSERT_EQ(selections.size(), 2U) << print_program(made);
  const auto waits = [&](Id one, Id other) {
    const auto& all = entry[one].control_predecessors;
    return std::find(all.begin(), all.end(), other) != all.end();
  };
  EXPECT_TRUE(waits(selections.front(), before)) << print_program(made);
  EXPECT_TRUE(waits(after, selections.back())) << print_program(made);
}

}  // namespace
}  // namespace tessera
