// SPDX-License-Identifier: Apache-2.0
// Collectives without a channel have groups of replicas. In a program with one replica they change nothing.
#include "tessera/base/json_object.h"
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

constexpr const char* kSum = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n";

// Both all-reduces are identities, so the result is 2 * sin(x).
std::string module_of(const std::string& header, const std::string& sharding) {
  return fmt::format(
      "HloModule m{}\n{}ENTRY e {{ x = f32[6] parameter(0){} s = f32[6] sine(x)\n"
      "  r = f32[6] all-reduce(s), replica_groups={{}}, to_apply=sum\n"
      "  q = f32[6] all-reduce(r), replica_groups={{{{0}}}}, to_apply=sum\n"
      "  ROOT y = f32[6] add(q, s) }}",
      header, kSum, sharding);
}
const std::string kGlobal = module_of(", num_partitions=2", ", sharding={devices=[2]<=[2]}");
const std::string kPerDevice = module_of(", num_partitions=2, frontend_attributes={tessera.partitioned=\"true\"}", "");
const std::string kPlain =
    "HloModule m\nENTRY e { x = f32[6] parameter(0) s = f32[6] sine(x) ROOT y = f32[6] add(s, s) }";

TEST_F(TesseraCommand, CollectivesOfTheOnlyReplicaAreIdentitiesOnEveryEngine) {
  const auto expected = run("run " + file("plain.hlo", kPlain) + " --engine reference --seed 5");
  ASSERT_EQ(expected.code, 0) << expected.error;
  const auto global = file("global.hlo", kGlobal);
  for (const std::string how : {"--engine reference", "--virtual-ranks 2"}) {
    const auto out = run("run " + global + " --seed 5 " + how);
    EXPECT_EQ(out.code, 0) << how << out.error;
    EXPECT_EQ(out.out, expected.out) << how;
  }
  const auto local = run("run " + file("local.hlo", kPerDevice) + " --seed 5 --virtual-ranks 2");
  EXPECT_EQ(local.code, 0) << local.error;
  EXPECT_EQ(local.out, expected.out);
}

TEST_F(TesseraCommand, CollectivesOfTheOnlyReplicaAreNotCounted) {
  const auto local = file("local.hlo", kPerDevice);
  for (const std::string how : {"", " --as-written"}) {
    const auto stats = run("stats " + local + how);
    EXPECT_NE(stats.out.find("collectives             none\ntotal_collective_bytes  0\n"), std::string::npos)
        << how << stats.out;
  }
  const auto optimized = run("optimize " + local);
  EXPECT_EQ(optimized.code, 0) << optimized.error;
  EXPECT_EQ(optimized.out.find("all-reduce("), std::string::npos) << optimized.out;
}

// Groups of replicas with replica_count=2 are devices.
TEST_F(TesseraCommand, CollectivesOfTwoReplicasExchange) {
  const auto local = file("local.hlo", R"(HloModule m, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[6] parameter(0) ROOT r = f32[6] all-reduce(x), replica_groups={}, to_apply=sum })");
  const auto stats = run("stats " + local);
  EXPECT_NE(stats.out.find("  all-reduce                1          24\ntotal_collective_bytes  24\n"),
            std::string::npos)
      << stats.out;
}

// With a channel, a group of replicas is the group of all their partitions.
TEST_F(TesseraCommand, GroupsOfReplicasContainTheirPartitions) {
  const auto bytes = [&](int replicas, const std::string& groups) {
    const auto stats =
        run("stats " +
            file("replicas.hlo", fmt::format(R"(HloModule m, num_partitions=2, replica_count={}
{}ENTRY e {{ x = f32[4] parameter(0) r = f32[4] all-reduce(x), channel_id=1, replica_groups={}, to_apply=sum
  g = f32[{}] all-gather(x), channel_id=2, replica_groups={}, dimensions={{0}}
  ROOT t = (f32[4], f32[{}]) tuple(r, g) }})",
                                             replicas, kSum, groups, groups == "{{0},{1}}" || replicas == 1 ? 8 : 16,
                                             groups, groups == "{{0},{1}}" || replicas == 1 ? 8 : 16)));
    EXPECT_EQ(stats.code, 0) << stats.error;
    const auto found = stats.out.find("total_collective_bytes  ");
    return stats.out.substr(found + 24, stats.out.find('\n', found) - found - 24);
  };
  EXPECT_EQ(bytes(1, "{{0}}"), "32");  // 2 devices: 16 + 16
  EXPECT_EQ(bytes(2, "{{0},{1}}"), "32");
  EXPECT_EQ(bytes(2, "{{0,1}}"), "72");  // 4 devices: 24 + 48
}

TEST_F(TesseraCommand, SeededInputsOfAPerDeviceProgramMustBeEqual) {
  allow_mpirun();
  const auto module =
      file("local.hlo", R"(HloModule m, num_partitions=2, frontend_attributes={tessera.partitioned="true"}
ENTRY e { x = f32[4] parameter(0), sharding={replicated} ROOT y = f32[4] sine(x) })");
  const auto out = run(fmt::format("run '{0}' --seed 1 : -np 1 '{1}' run '{0}' --seed 2", module, TESSERA_COMMAND),
                       fmt::format("'{}' -np 1", TESSERA_MPIEXEC));
  EXPECT_NE(out.code, 0);
  EXPECT_NE(out.error.find("parameter %x f32[4] is not the same on all ranks"), std::string::npos) << out.error;
}

TEST_F(TesseraCommand, SumsOfStatsThatAreTooLargeAreLowerBounds) {
  const auto module = file("loop.hlo", R"(HloModule m, num_partitions=2
more { s = (s64[], f32[6]) parameter(0) i = s64[] get-tuple-element(s), index=0
  n = s64[] constant(9223372036854775807) ROOT go = pred[] compare(i, n), direction=LT }
round { s = (s64[], f32[6]) parameter(0) i = s64[] get-tuple-element(s), index=0
  x = f32[6] get-tuple-element(s), index=1 one = s64[] constant(1) next = s64[] add(i, one)
  p = f32[6] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}
  ROOT out = (s64[], f32[6]) tuple(next, p) }
ENTRY e { x = f32[6] parameter(0) zero = s64[] constant(0) init = (s64[], f32[6]) tuple(zero, x)
  end = (s64[], f32[6]) while(init), condition=more, body=round
  ROOT y = f32[6] get-tuple-element(end), index=1 })");
  const auto stats = run("stats " + module);
  EXPECT_NE(stats.out.find("  collective-permute        1 at least 9223372036854775807  run about 9.22e+18 times\n"
                           "total_collective_bytes  at least 9223372036854775807\n"),
            std::string::npos)
      << stats.out << stats.error;
  const JsonObject json = JsonObject::parse(run("stats --json - " + module).out, "stats");
  JsonObject collectives;
  JsonObject permute;
  ASSERT_TRUE(json.read("collectives", collectives) && collectives.read("collective-permute", permute));
  EXPECT_EQ(permute.text("bytes_exact"), "false");
  EXPECT_EQ(json.text("total_collective_bytes_exact"), "false");
  EXPECT_FALSE(json.has("peak_bytes_per_device_exact"));
}

}  // namespace
}  // namespace tessera::command_tests
