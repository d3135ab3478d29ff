// SPDX-License-Identifier: Apache-2.0
// The bytes that a program moves between a device and its memory.
#include "plan/memory_traffic.h"

#include <gtest/gtest.h>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"

namespace tessera::trainer {
namespace {

std::int64_t traffic_of(const std::string& body) {
  return memory_traffic(parse_program("HloModule m\nENTRY e {\n" + body + "}\n", op_table()));
}

TEST(MemoryTraffic, AProductReadsItsOperandsAndWritesItsResult) {
  EXPECT_EQ(traffic_of("x = f32[3,5] parameter(0)\ny = f32[5,7] parameter(1)\n"
                       "ROOT d = f32[3,7] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"),
            4 * (15 + 35 + 21));
}

TEST(MemoryTraffic, OfAGroupOnlyTheLastResultIsWritten) {
  EXPECT_EQ(traffic_of("x = f32[11] parameter(0)\na = f32[11] exponential(x)\nb = f32[11] negate(a)\n"
                       "ROOT c = f32[11] add(a, b)\n"),
            4 * 11);
}

TEST(MemoryTraffic, AValueThatAProductReadsIsWrittenAndRead) {
  EXPECT_EQ(traffic_of("x = f32[3,5] parameter(0)\ny = f32[5,7] parameter(1)\na = f32[3,5] exponential(x)\n"
                       "b = f32[3,5] negate(a)\n"
                       "d = f32[3,7] dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                       "ROOT t = (f32[3,5], f32[3,7]) tuple(b, d)\n"),
            4 * (15 + 15) + 4 * (15 + 35 + 21));  // a, b; the product
}

TEST(MemoryTraffic, MovesOfElementsCostNothing) {
  EXPECT_EQ(traffic_of("x = f32[3,5] parameter(0)\nt = f32[5,3] transpose(x), dimensions={1,0}\n"
                       "ROOT r = f32[15] reshape(t)\n"),
            0);
}

}  // namespace
}  // namespace tessera::trainer
