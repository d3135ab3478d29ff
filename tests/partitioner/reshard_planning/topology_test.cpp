// SPDX-License-Identifier: Apache-2.0
// If links differ, the modelled time selects plans: few bytes cross the slow axis, and few messages pay for latency.
#include "tessera/sharding/topology.h"

#include <gtest/gtest.h>

#include "partitioner/reshard_planning/reshard_cases.h"
#include "support/temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::testing {
namespace {

const Mesh kMesh = Mesh::parse("x=2,y=4");
const Type kArray = Type::array(DType::kF32, {8, 16});  // 512 bytes

Sharding spec(std::string_view text, const std::string& partial = "") {
  Sharding out = Sharding::from_spec(kMesh, PartitionSpec::parse(text), 2);
  if (!partial.empty()) out.partial = {kMesh.full_axis(partial)};
  return out;
}

// 1 GB/s over x, 10 GB/s over y.
Topology slow_x() { return Topology::parse(R"({"axes": {"x": {"gigabytes_per_second": 1}}})"); }
Topology late(double microseconds) {
  return Topology::parse(fmt::format(R"({{"other": {{"latency_us": {}}}}})", microseconds));
}

TEST(Topology, ReadsLatencyAndBandwidthByAxis) {
  const Topology read =
      Topology::parse(R"({"axes": {"data": {"latency_us": 30, "gigabytes_per_second": 1.5}, "model": {}},
                                            "other": {"latency_us": 2}})");
  EXPECT_DOUBLE_EQ(read.link("data").latency_seconds, 30e-6);
  EXPECT_DOUBLE_EQ(read.link("data").bytes_per_second, 1.5e9);
  EXPECT_EQ(read.link("model"), read.other());
  EXPECT_DOUBLE_EQ(read.link("any").latency_seconds, 2e-6);
  const Link both = read.slowest({"model", "data"});
  EXPECT_DOUBLE_EQ(both.latency_seconds, 30e-6);
  EXPECT_DOUBLE_EQ(both.bytes_per_second, 1.5e9);
  EXPECT_FALSE(read.is_uniform());
  EXPECT_TRUE(Topology().is_uniform());
  EXPECT_TRUE(Topology::parse(R"({"other": {"gigabytes_per_second": 3}, "axes": {"x": {}}})").is_uniform());
  EXPECT_FALSE(late(1).is_uniform());
  EXPECT_FALSE(slow_x().is_uniform());
}

TEST(Topology, ErrorsNameTheFault) {
  const auto error = [](std::string_view text) { return error_of([&] { Topology::parse(text, "net.json"); }); };
  EXPECT_NE(error(R"({"axis": {}})").find("did you mean \"axes\"?"), std::string::npos) << error(R"({"axis": {}})");
  EXPECT_NE(error(R"({"other": {"latency_ms": 1}})").find("did you mean \"latency_us\"?"), std::string::npos);
  EXPECT_EQ(error(R"({"axes": {"x": {"gigabytes_per_second": 0}}})"),
            "net.json: axis \"x\": gigabytes_per_second must be above 0, got 0");
  EXPECT_EQ(error(R"({"other": {"latency_us": -1}})"), "net.json: other: latency_us must be 0 or more, got -1");
  EXPECT_EQ(error_of([] { Topology::parse(R"({"axes": {"modle": {}}})").check({Mesh::parse("data=2,model=3")}); }),
            "the topology names the axis \"modle\", which no mesh has; did you mean \"model\"?");
}

TEST(Topology, FewBytesCrossTheSlowAxis) {
  // A single gather would run at the speed of x for all bytes. With three steps each device receives only a new eighth
  // over x.
  EXPECT_EQ(plan_reshard(kArray, spec("x+y,-"), spec("-,-")).str(), "all_gather{x+y}(0) 448 B");
  EXPECT_EQ(plan_reshard(kArray, spec("x+y,-"), spec("-,-"), slow_x()).str(),
            "all_to_all{y}(0->1) 48 B; all_gather{x}(0) 64 B; all_gather{y}(1) 384 B");
  EXPECT_NEAR(plan_reshard(kArray, spec("x+y,-"), spec("-,-"), slow_x()).seconds(), (48 + 384) / 10e9 + 64 / 1e9,
              1e-15);
}

TEST(Topology, LatencyMakesOneLargeStepBetterThanThreeSmallOnes) {
  EXPECT_EQ(plan_reshard(kArray, spec("-,-", "y"), spec("-,-")).str(),
            "slice{x}(0); all_reduce{y} 384 B; all_gather{x}(0) 256 B");
  EXPECT_EQ(plan_reshard(kArray, spec("-,-", "y"), spec("-,-"), late(10)).str(), "all_reduce{y} 768 B");
  EXPECT_NEAR(plan_reshard(kArray, spec("-,-", "y"), spec("-,-"), late(10)).seconds(), 60e-6 + 768 / 10e9, 1e-12);
}

TEST(Topology, EqualLinksWithoutLatencyChangeNoPlan) {
  const Topology equal = Topology::parse(R"({"other": {"gigabytes_per_second": 0.5}})");
  const Mesh mesh = Mesh::parse("x=2,y=3");
  const auto all = all_shardings(mesh, 2, true);
  for (const Sharding& from : all)
    for (const Sharding& to : all) {
      const Type global = Type::array(DType::kF32, {7, 6});
      ASSERT_EQ(plan_reshard(global, from, to, equal).str(), plan_reshard(global, from, to).str());
    }
}

// Returns the time that a plan made for other links takes.
double seconds_on(const Topology& topology, const ReshardPlan& plan) {
  double sum = 0;
  for (const ReshardStep& step : plan.steps) {
    if (step.collectives == 0) continue;
    std::vector<std::string> names;
    for (const AxisRef& axis : step.axes) names.push_back(at(step.after.mesh.axes(), axis.axis).name);
    std::int64_t group = axes_size(step.axes);
    if (names.empty())
      for (const MeshAxis& axis : step.after.mesh.axes()) names.push_back(axis.name);
    sum += exchange_seconds(topology.slowest(names), step.collectives * messages_of(step.kind, group), step.bytes);
  }
  return sum;
}

TEST(Topology, NoPlanIsSlowerThanThatOfLeastBytesAndAllGiveTheRightValues) {
  const Mesh mesh = Mesh::parse("x=2,y=3");
  const auto all = all_shardings(mesh, 2, true);
  const Topology topologies[] = {
      Topology::parse(R"({"axes": {"x": {"gigabytes_per_second": 0.01}}})"),
      Topology::parse(R"({"axes": {"y": {"latency_us": 5, "gigabytes_per_second": 0.1}}, "other": {"latency_us": 1}})"),
      late(1000),
  };
  int faster = 0;
  std::size_t number = 0;
  for (const Topology& topology : topologies)
    for (const Dims& dims : {Dims{12, 6}, Dims{7, 5}})
      for (const Sharding& from : all)
        for (const Sharding& to : all) {
          const Type global = Type::array(DType::kF32, dims);
          const double seconds = plan_reshard(global, from, to, topology).seconds();
          const double other = seconds_on(topology, plan_reshard(global, from, to));
          ASSERT_LE(seconds, other * (1 + 1e-9))
              << from.str() << " -> " << to.str() << ": " << plan_reshard(global, from, to, topology).str()
              << " against " << plan_reshard(global, from, to).str();
          faster += seconds < other * (1 - 1e-9) ? 1 : 0;
          if (++number % 7 != 0) continue;
          ASSERT_EQ(check_reshard(global, from, to, topology), "");
        }
  EXPECT_GT(faster, 50);
}

// ---- programs -----------------------------------------------------------------------------------------------------------

Program gathered() {
  return parse_program(R"(HloModule m, num_partitions=8
ENTRY %main (x: f32[8,16]) -> f32[8,16] {
  %x = f32[8,16] parameter(0)
  ROOT %y = f32[8,16] negate(%x)
})",
                       op_table(), {.meshes = {kMesh}});
}

TEST(Topology, ChoosesThePlansOfAProgramAndTheirTimes) {
  const Program program = annotate(gathered(), kMesh, "x", "x+y,-");
  const Partitioned by_bytes = partition(program);
  ASSERT_EQ(by_bytes.notes.size(), 1U);
  EXPECT_EQ(by_bytes.notes[0].axes, "x+y");
  EXPECT_NEAR(by_bytes.notes[0].milliseconds, 448 / 10e9 * 1e3, 1e-12);
  const Partitioned by_time = partition(program, {.machine = MachineModel::with_links(slow_x())});
  ASSERT_EQ(by_time.notes.size(), 3U);
  EXPECT_NEAR(by_time.notes[0].milliseconds, 48 / 10e9 * 1e3, 1e-12);
  EXPECT_NEAR(by_time.notes[1].milliseconds, 64 / 1e9 * 1e3, 1e-12);
  EXPECT_NEAR(by_time.notes[2].milliseconds, 384 / 10e9 * 1e3, 1e-12);
  EXPECT_EQ(error_of([&] {
              partition(program, {.machine = MachineModel::with_links(Topology::parse(R"({"axes": {"rack": {}}})"))});
            }),
            "the topology names the axis \"rack\", which no mesh has; known: x, y");
}

// Two operands have different shardings, one over the slow axis and one over the fast axis: the one that can be
// resharded over the fast axis is.
TEST(Topology, DecidesWhichOperandIsResharded) {
  const auto axes_moved = [](const char* slow) {
    Program program = parse_program(R"(HloModule m, num_partitions=6
ENTRY %main (a: f32[12,6], b: f32[12,6]) -> f32[12,6] {
  %a = f32[12,6] parameter(0)
  %b = f32[12,6] parameter(1)
  ROOT %y = f32[12,6] add(%a, %b)
})",
                                    op_table(), {.meshes = {Mesh::parse("x=2,y=3")}});
    const Mesh mesh = program.meshes.front();
    program = annotate(annotate(program, mesh, "a", "x,-"), mesh, "b", "y,-");
    const Topology topology =
        Topology::parse(fmt::format(R"({{"axes": {{"{}": {{"gigabytes_per_second": 0.001}}}}}})", slow));
    double milliseconds = 0;
    for (const CollectiveNote& note : partition(program, {.machine = MachineModel::with_links(topology)}).notes)
      milliseconds += note.milliseconds;
    double least_bytes = 0;
    const Partitioned plain = partition(program);
    for (const CollectiveNote& note : collective_notes(plain.program, topology)) least_bytes += note.milliseconds;
    return std::pair(milliseconds, least_bytes);
  };
  for (const char* slow : {"x", "y"}) {
    const auto [by_time, by_bytes] = axes_moved(slow);
    EXPECT_LE(by_time, by_bytes) << slow;
  }
  const auto [x_time, x_bytes] = axes_moved("x");
  const auto [y_time, y_bytes] = axes_moved("y");
  EXPECT_TRUE(x_time < x_bytes || y_time < y_bytes) << "the topology changed nothing";
}

}  // namespace
}  // namespace tessera::testing
