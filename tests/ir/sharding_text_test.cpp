// SPDX-License-Identifier: Apache-2.0
// Shardings in programs: HLO's text if it can express them completely, and Shardy's in addition if it cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tessera/base/error.h"
#include "tessera/ir/builder.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

Program read(std::string_view text) { return parse_program(text, op_table(), {"in.hlo"}); }

// Returns a program whose parameters have the given shardings.
Program with_shardings(const std::vector<std::pair<Type, Shardings>>& values, std::vector<Mesh> meshes,
                       std::int64_t partitions) {
  ProgramBuilder builder("m");
  Builder main = builder.computation("main");
  Value last;
  for (std::size_t i = 0; i < values.size(); ++i)
    last = ops::parameter(main, static_cast<std::int64_t>(i), values[i].first, "p" + std::to_string(i),
                          make_shardings(values[i].second));
  const auto id = builder.add(std::move(main), last);
  builder.program().meshes = std::move(meshes);
  builder.program().num_partitions = partitions;
  return builder.finish(id);
}

void expect_round_trip(const Program& program) {
  verify(program);
  const auto text = print_program(program);
  const Program again = read(text);
  EXPECT_EQ(difference(program, again), "") << text;
  EXPECT_EQ(print_program(again), text);
}

Sharding spec(const Mesh& mesh, std::string_view text) {
  const auto parsed = PartitionSpec::parse(text);
  return Sharding::from_spec(mesh, parsed, static_cast<int>(parsed.entries().size()));
}

TEST(ProgramShardings, AreFoundOnOneRefinedMesh) {
  const Program program = read(R"(HloModule m, num_partitions=8
    ENTRY e {
      x = f32[8,8] parameter(0), sharding={devices=[4,2]<=[8]}
      y = f32[8,8] parameter(1), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
      z = f32[8,8] parameter(2), sharding={devices=[1,8]0,4,1,5,2,6,3,7}
      ROOT t = (f32[8,8], f32[8,8]) tuple(x, y), sharding={{devices=[4,2]<=[8]}, {replicated}}
    })");
  ASSERT_EQ(program.meshes.size(), 1U);
  EXPECT_EQ(program.meshes[0].str(), "mesh<_0=2, _1=2, _2=2>");
  const auto& entry = program.entry_computation();
  EXPECT_EQ(entry[0].sharding->front().str(), "{_0+_1,_2}");
  EXPECT_EQ(entry[1].sharding->front().str(), "{_0,-}");
  EXPECT_EQ(entry[2].sharding->front().str(), "{-,_1+_2+_0}");
  EXPECT_EQ(entry[3].sharding->size(), 2U);
  const auto text = print_program(program);
  EXPECT_EQ(text.find("sdy"), std::string::npos) << text;
  expect_round_trip(program);
}

TEST(ProgramShardings, OneShardingOnATupleAppliesToEveryLeaf) {
  const Program program = read(R"(HloModule m, num_partitions=2
    ENTRY e { ROOT x = (f32[4], (s32[], token[])) parameter(0), sharding={replicated} })");
  EXPECT_EQ(program.entry_computation()[0].sharding->size(), 3U);
  expect_round_trip(program);
}

TEST(ProgramShardings, WithoutAHeaderEntryShardingsGiveTheDeviceCount) {
  EXPECT_EQ(read("HloModule m\nENTRY e { x = f32[4] parameter(0), sharding={devices=[3]<=[3]} }").num_partitions, 3);
  EXPECT_EQ(read("HloModule m\nENTRY e { x = f32[4] parameter(0), sharding={replicated} }").num_partitions, 1);
}

TEST(ProgramShardings, ShardyAttributesTakePrecedenceOverHlos) {
  const Program program = read(
      R"(HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"data\"=2, \"model\"=2]>}}
    ENTRY e {
      x = f32[8,8] parameter(0), sharding={replicated}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"model\", ?}, {}]>"}
      ROOT y = f32[8,8] copy(x), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
    })");
  const auto& entry = program.entry_computation();
  EXPECT_EQ(entry[0].sharding->front().str(), "{model?,-}");
  EXPECT_EQ(entry[1].sharding->front().str(), "{data,-}");
  EXPECT_EQ(entry[0].notes, nullptr);
  expect_round_trip(program);
}

TEST(ProgramShardings, NamedMeshesArePrintedOnceAndAxesOnlyIfHloDoesNotDetermineThem) {
  const Mesh mesh({{"data", 2}, {"model", 3}});
  const Type type = Type::array(DType::kF32, {6, 6});
  Sharding open = spec(mesh, "data,-");
  open.dims[1].open = true;
  const Program program = with_shardings({{type, {spec(mesh, "data,model")}}, {type, {open}}}, {mesh}, 6);
  EXPECT_EQ(
      print_program(program),
      R"(HloModule m, entry_computation_layout={(f32[6,6]{1,0}, f32[6,6]{1,0})->f32[6,6]{1,0}}, num_partitions=6, frontend_attributes={tessera.meshes="{mesh = #sdy.mesh<[\"data\"=2, \"model\"=3]>}"}

ENTRY %main (p0: f32[6,6], p1: f32[6,6]) -> f32[6,6] {
  %p0 = f32[6,6]{1,0} parameter(0), sharding={devices=[2,3]<=[6]}
  ROOT %p1 = f32[6,6]{1,0} parameter(1), sharding={devices=[2,1,3]<=[6] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"data\"}, {?}]>"}
}
)");
  expect_round_trip(program);
}

TEST(ProgramShardings, SuffixesAreKept) {
  const Program program = read(R"(HloModule m, num_partitions=2
    ENTRY e { x = f32[4] parameter(0), sharding={devices=[2]<=[2] shard_as 3}
              ROOT t = (f32[4]) tuple(x), sharding={{replicated metadata={op_name="a"}}} })");
  const auto text = print_program(program);
  EXPECT_NE(text.find("sharding={devices=[2]<=[2] shard_as 3}\n"), std::string::npos) << text;
  EXPECT_NE(text.find("sharding={{replicated metadata={op_name=\"a\"}}}\n"), std::string::npos) << text;
  expect_round_trip(program);
}

// Returns a random sharding: axes and sub-axes on dims, partial, manual, open, with priorities; or another kind.
Sharding random_sharding(const Mesh& mesh, int ndim, std::mt19937& random) {
  const auto kind = random() % 12;
  if (kind == 0) return Sharding::maximal(mesh, static_cast<std::int64_t>(random()) % mesh.device_count());
  if (kind == 1) return Sharding::manual_everywhere(mesh);
  Sharding out = Sharding::replicated(mesh, ndim);
  if (kind == 2) {
    out.dims.clear();
    out.kind = Sharding::Kind::kUnknown;
    return out;
  }
  std::vector<AxisRef> parts;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const auto size = mesh.axes()[static_cast<std::size_t>(axis)].size;
    const std::int64_t leading = size % 2 == 0 && random() % 3 == 0 ? 2 : 1;
    if (leading > 1) parts.push_back({axis, 1, leading});
    if (size / leading > 1) parts.push_back({axis, leading, size / leading});
  }
  std::shuffle(parts.begin(), parts.end(), random);
  const auto dims = static_cast<unsigned>(ndim);
  for (const auto& part : parts) {
    const auto where = random() % (dims + 3);
    if (where < dims) out.dims[where].axes.push_back(part);
    if (where == dims) out.partial.push_back(part);
    if (where == dims + 1 && random() % 2 == 0) out.manual.push_back(part);
  }
  for (auto& dim : out.dims) {
    dim.open = random() % 4 == 0;
    if (random() % 5 == 0) dim.priority = static_cast<int>(random() % 3);
  }
  std::sort(out.partial.begin(), out.partial.end());
  std::sort(out.manual.begin(), out.manual.end());
  if (!out.partial.empty() && random() % 2 == 0) out.reduction = static_cast<Reduction>(random() % 6);
  return out;
}

std::vector<Mesh> meshes_over(std::int64_t devices) {
  if (devices == 6)
    return {Mesh({{"x", 2}, {"y", 3}}), Mesh({{"a", 3}, {"b", 2}}), Mesh({{"x", 2}, {"y", 3}}, {5, 0, 3, 1, 4, 2}),
            Mesh({{"_0", 6}}), Mesh({{"x", 2}, {"y", 3}}, {0, 2, 4, 1, 3, 5}, "odd \"name\"")};
  return {Mesh({{"_0", 2}, {"_1", 2}, {"_2", 2}}), Mesh({{"x", 2}, {"one", 1}, {"y", 4}}), Mesh({{"x", 8}}),
          Mesh({{"x", 4}, {"y", 2}}, {0, 1, 2, 3, 7, 6, 5, 4})};
}

TEST(ProgramShardings, EveryShardingReadsBackEqual) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 150; ++trial) {
    const std::int64_t devices = trial % 2 == 0 ? 6 : 8;
    auto meshes = meshes_over(devices);
    std::shuffle(meshes.begin(), meshes.end(), random);
    meshes.resize(1 + random() % 2);
    std::vector<std::pair<Type, Shardings>> values;
    for (int i = 0; i < 4; ++i) {
      const auto ndim = static_cast<int>(random() % 4);
      const Type array = Type::array(DType::kF32, Dims(static_cast<std::size_t>(ndim), 24));
      const auto any = [&] { return random_sharding(meshes[random() % meshes.size()], ndim, random); };
      const auto leaves = random() % 3;
      if (leaves == 0)
        values.push_back({array, {any()}});
      else
        values.push_back(
            {Type::tuple(std::vector<Type>(leaves, array)), leaves == 1 ? Shardings{any()} : Shardings{any(), any()}});
    }
    const bool listed = random() % 4 != 0;  // else only the shardings name their meshes
    expect_round_trip(with_shardings(values, listed ? meshes : std::vector<Mesh>{}, devices));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tessera
