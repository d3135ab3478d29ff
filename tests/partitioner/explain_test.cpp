// SPDX-License-Identifier: Apache-2.0
// What a partitioned program is said to cost.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/partition.h"

namespace tessera {
namespace {

// A loop that reduces f32[3] over 4 devices each round; `condition` says when it goes on, `step` by how much it counts.
Program loop(std::string_view condition, int step) {
  return parse_program(fmt::format(R"(HloModule m, num_partitions=4
%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}}
%more (s: (s32[], f32[3])) -> pred[] {{
  %s = (s32[], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %limit = s32[] constant(11)
  ROOT %go = pred[] compare({}
}}
%round (s: (s32[], f32[3])) -> (s32[], f32[3]) {{
  %s = (s32[], f32[3]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[3] get-tuple-element(%s), index=1
  %step = s32[] constant({})
  %next = s32[] add(%step, %i)
  %y = f32[3] all-reduce(%x), replica_groups={{{{0,1,2,3}}}}, to_apply=%sum
  ROOT %out = (s32[], f32[3]) tuple(%next, %y)
}}
ENTRY %main (x: f32[3]) -> (s32[], f32[3]) {{
  %x = f32[3] parameter(0)
  %start = s32[] constant(1)
  %init = (s32[], f32[3]) tuple(%start, %x)
  ROOT %end = (s32[], f32[3]) while(%init), condition=%more, body=%round
}})",
                                   condition, step),
                       op_table());
}

TEST(Stats, CountALoopAsOftenAsItsTextSays) {
  constexpr std::int64_t kBytes = 18;  // of one all-reduce of f32[3]: 2 * 12 * 3/4
  const auto bytes = [](std::string_view condition, int step) {
    return program_stats(loop(condition, step)).total_collective_bytes;
  };
  EXPECT_EQ(bytes("%i, %limit), direction=LT", 1), 10 * kBytes);
  EXPECT_EQ(bytes("%i, %limit), direction=LE", 3), 4 * kBytes);
  EXPECT_EQ(bytes("%limit, %i), direction=GT", 1), 10 * kBytes);
  EXPECT_EQ(bytes("%limit, %i), direction=GE", 5), 3 * kBytes);
  EXPECT_EQ(bytes("%i, %limit), direction=NE", 1), kBytes);  // not known: once
}

}  // namespace
}  // namespace tessera
