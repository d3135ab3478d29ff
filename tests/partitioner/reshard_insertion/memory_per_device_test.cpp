// SPDX-License-Identifier: Apache-2.0
// The memory that a device needs: the order of instructions, and the values kept from one consumer to the next.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "partitioner/reshard_insertion/annotated_programs.h"

namespace tessera {
namespace {

using namespace annotated_programs;  // NOLINT(google-build-using-namespace)

// e is first in the text but is read last: if it is computed just before its consumer, it is not in memory together
// with f, from which i is computed.
TEST(MemoryPerDevice, InstructionsAreOrderedForTheLeastMemory) {
  const Program program = parse_program(
      "HloModule m\nENTRY main { v = f32[1,7] parameter(0) u = f32[1,7] parameter(1) w = f32[7,5000] parameter(2)\n"
      "q = f32[5000,1] parameter(3)\n"
      "e = f32[1,5000] dot(v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "f = f32[1,5000] dot(u, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "z = f32[1,1] dot(f, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "s = f32[] reshape(z) i = s32[] convert(s) o = s32[] constant(0)\n"
      "ROOT r = f32[1,3] dynamic-slice(e, o, i), dynamic_slice_sizes={1,3} }",
      op_table());
  PartitionOptions sparing{.keep_shardings = true};
  sparing.collectives.save_memory = true;
  const auto peak = [](const Partitioned& parts) { return program_stats(parts.program).peak_bytes_per_device; };
  const Partitioned parts = partition(program, sparing);
  EXPECT_LE(peak(parts) + 5000 * 4, peak(partition(program)));
  const CheckReport report = check_partitioned(program, parts);
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
}

std::int64_t sparing_peak(const Program& program) {
  PartitionOptions options{.keep_shardings = true};
  options.collectives.save_memory = true;
  const Partitioned parts = partition(program, options);
  const CheckReport report = check_partitioned(program, parts);
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  return program_stats(parts.program).peak_bytes_per_device;
}

// The sums of both loops start from one zero value. If each loop has a separate zero, it can accumulate its sum in
// place.
TEST(MemoryPerDevice, AZeroIsNotKeptFromOneLoopToTheNext) {
  const std::string state = "(s32[], f32[1000], f32[1000])";
  std::string text = "HloModule m\n";
  for (const std::string n : {"1", "2"})
    text += fmt::format(
        "body{0} {{ p = {1} parameter(0) i = s32[] get-tuple-element(p), index=0 s = f32[1000] get-tuple-element(p), "
        "index=1\n"
        "x = f32[1000] get-tuple-element(p), index=2 one = s32[] constant(1) j = s32[] add(i, one) t = f32[1000] "
        "tanh(x)\n"
        "u = f32[1000] add(s, t) ROOT r = {1} tuple(j, u, x) }}\n"
        "cond{0} {{ p = {1} parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)\n"
        "ROOT c = pred[] compare(i, n), direction=LT }}\n",
        n, state);
  text += fmt::format(
      "ENTRY main {{ x = f32[1000] parameter(0) none = s32[] constant(0) nil = f32[] constant(0)\n"
      "zero = f32[1000] broadcast(nil), dimensions={{}} a = {0} tuple(none, zero, x)\n"
      "b = {0} while(a), condition=cond1, body=body1 s = f32[1000] get-tuple-element(b), index=1\n"
      "c = {0} tuple(none, zero, s) d = {0} while(c), condition=cond2, body=body2\n"
      "t = f32[1000] get-tuple-element(d), index=1\n"
      "ROOT r = f32[500] slice(t), slice={{[0:500]}} }}",
      state);
  const std::int64_t outside = 4000 + 2000;
  EXPECT_LT(sparing_peak(parse_program(text, op_table())), outside + 3 * 4000);
}

// Gathered parts of 4000 bytes each are written into the result one by one.
TEST(MemoryPerDevice, GatheredPartsAreConcatenatedOneByOne) {
  const Program program = annotated(
      kFree +
          "ENTRY main { x = f32[500,2] parameter(0) y = f32[500,2] parameter(1) z = f32[500,2] parameter(2)\n"
          "w = f32[1500,1] parameter(3) gx = f32[500,2] copy(x) gy = f32[500,2] copy(y) gz = f32[500,2] copy(z)\n"
          "c = f32[1500,2] concatenate(gx, gy, gz), dimensions={0}\n"
          "ROOT d = f32[2,1] dot(c, w), lhs_contracting_dims={0}, rhs_contracting_dims={0} }",
      Mesh::parse("a=2"),
      {{"x", "a,-"}, {"y", "a,-"}, {"z", "a,-"}, {"gx", "-,-"}, {"gy", "-,-"}, {"gz", "-,-"}, {"w", "-,-"}});
  const std::int64_t parameters = 3 * 2000 + 6000;
  EXPECT_LT(sparing_peak(program), parameters + 12000 + 4096 + 1000);
}

}  // namespace
}  // namespace tessera
