// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/hlo_sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

HloSharding leaf(std::string_view text) {
  const auto leaves = parse_hlo_sharding(text);
  EXPECT_EQ(leaves.size(), 1U) << text;
  return leaves.front();
}

std::string normalized(std::string_view text) { return hlo_sharding_text(leaf(text)); }

std::string error_of(std::string_view text) {
  try {
    parse_hlo_sharding(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Sharding spec(const Mesh& mesh, std::string_view text) {
  const auto parsed = PartitionSpec::parse(text);
  return Sharding::from_spec(mesh, parsed, isize(parsed.entries()));
}

TEST(HloShardingText, EveryKindReadsAndPrintsBack) {
  for (const std::string text :
       {"{replicated}", "{manual}", "{unknown}", "{unreduced}", "{maximal device=3}", "{devices=[2,4]<=[8]}",
        "{devices=[4,2]<=[2,4]T(1,0)}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[2,3]0,4,2,3,1,5}",
        "{devices=[1,2,2,2]<=[8] last_tile_dims={manual, replicated}}",
        "{devices=[2,2]<=[4] last_tile_dims={unreduced}}", "{replicated shard_as 1}",
        "{devices=[2]<=[2] shard_like 7 metadata={op_name=\"a b\"}}"})
    EXPECT_EQ(normalized(text), text);
}

TEST(HloShardingText, ListAndIotaOfTheSameArrayAreEqual) {
  EXPECT_EQ(leaf("{devices=[4,2]0,4,1,5,2,6,3,7}"), leaf("{devices=[4,2]<=[2,4]T(1,0)}"));
  EXPECT_EQ(normalized("{devices=[4,2]0,4,1,5,2,6,3,7}"), "{devices=[4,2]<=[2,4]T(1,0)}");
  EXPECT_EQ(leaf("{devices=[2,3]0,1,2,3,4,5}"), leaf("{devices=[2,3]<=[6]}"));
  EXPECT_FALSE(leaf("{devices=[2,3]0,1,2,3,5,4}") == leaf("{devices=[2,3]<=[6]}"));
}

TEST(HloShardingText, IotaFormIsCanonical) {
  EXPECT_EQ(normalized("{devices=[60]<=[3,4,5]T(1,2,0)}"), "{devices=[60]<=[3,20]T(1,0)}");
  EXPECT_EQ(normalized("{devices=[2,3]<=[1,2,1,3]T(0,1,2,3)}"), "{devices=[2,3]<=[6]}");
  EXPECT_EQ(normalized("{devices=[6]<=[2,3]T(0,1)}"), "{devices=[6]<=[6]}");
}

TEST(HloShardingText, ReplicasAreSortedMergedAndDropped) {
  EXPECT_EQ(normalized("{devices=[2,2]1,0,3,2 last_tile_dim_replicate}"),
            "{devices=[2,2]<=[4] last_tile_dim_replicate}");
  EXPECT_EQ(normalized("{devices=[2,1]<=[2] last_tile_dim_replicate}"), "{devices=[2]<=[2]}");
  EXPECT_EQ(normalized("{devices=[1,1,6]<=[6] last_tile_dim_replicate}"), "{replicated}");
  EXPECT_EQ(normalized("{devices=[2,2,3]<=[12] last_tile_dims={replicated, replicated}}"),
            "{devices=[2,6]<=[12] last_tile_dim_replicate}");
}

TEST(HloShardingText, SubgroupsAreOrderedManualUnreducedReplicated) {
  EXPECT_EQ(normalized("{devices=[1,2,3]<=[6] last_tile_dims={replicated, manual}}"),
            "{devices=[1,3,2]<=[2,3]T(1,0) last_tile_dims={manual, replicated}}");
  EXPECT_EQ(normalized("{devices=[1,6]<=[6] last_tile_dims={manual}}"), "{manual}");
  EXPECT_EQ(normalized("{devices=[1,6]<=[6] last_tile_dims={unreduced}}"), "{unreduced}");
  EXPECT_EQ(normalized("{devices=[2,1,3,1]<=[6] last_tile_dims={manual, replicated, unreduced}}"),
            "{devices=[2,3]<=[6] last_tile_dim_replicate}");
}

TEST(HloShardingText, TuplesHaveOneEntryPerLeaf) {
  EXPECT_EQ(parse_hlo_sharding("{{replicated}, {devices=[2]<=[2]}}").size(), 2U);
  EXPECT_EQ(parse_hlo_sharding("{}").size(), 0U);
  EXPECT_EQ(parse_hlo_sharding("{devices=[1,1]<=[1]}").at(0).kind, HloSharding::Kind::kReplicated);
  EXPECT_EQ(parse_hlo_sharding("{{maximal device=0}}").size(), 1U);
}

TEST(HloShardingText, ErrorsQuoteTheText) {
  EXPECT_EQ(error_of("{devices=[2,2]0,1,2}"),
            "sharding: 3 devices listed for 4 tiles at column 15 of {devices=[2,2]0,1,2}");
  EXPECT_EQ(error_of("{devices=[2,2]0,1,2,2}"),
            "sharding: device 2 occurs twice at column 15 of {devices=[2,2]0,1,2,2}");
  EXPECT_EQ(error_of("{devices=[3]0,1,3}"), "sharding: device 3 is not one of 0..2 at column 13 of {devices=[3]0,1,3}");
  EXPECT_EQ(
      error_of("{replicatd}"),
      "sharding: unknown kind of sharding \"replicatd\"; did you mean \"replicated\"? at column 2 of {replicatd}");
  EXPECT_EQ(error_of("{devices=[2]<=[3]}"),
            "sharding: the iota has 3 devices, the tiles are 2 at column 15 of {devices=[2]<=[3]}");
  EXPECT_EQ(error_of("{devices=[4]<=[2,2]T(1,1)}"),
            "sharding: T(..) must order the 2 dims of the iota at column 21 of {devices=[4]<=[2,2]T(1,1)}");
  EXPECT_EQ(error_of("{replicated"),
            "sharding: expected \"}\" after the sharding, got the end of the text at column 12 of {replicated");
  EXPECT_EQ(error_of("{devices=[2,2]<=[4] last_tile_dims={shared}}").substr(0, 41),
            "sharding: unknown subgroup type \"shared\";");
}

TEST(HloShardingAxes, ASpecPrintsAsItsTileArray) {
  const Mesh mesh({{"data", 2}, {"model", 3}});
  EXPECT_EQ(hlo_sharding_text(spec(mesh, "data,-")), "{devices=[2,1,3]<=[6] last_tile_dim_replicate}");
  EXPECT_EQ(hlo_sharding_text(spec(mesh, "model,-")), "{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}");
  EXPECT_EQ(hlo_sharding_text(spec(mesh, "model,data")), "{devices=[3,2]<=[2,3]T(1,0)}");
  EXPECT_EQ(hlo_sharding_text(spec(mesh, "data+model")), "{devices=[6]<=[6]}");
  EXPECT_EQ(hlo_sharding_text(spec(mesh, "model+data")), "{devices=[6]<=[2,3]T(1,0)}");
  EXPECT_EQ(hlo_sharding_text(Sharding::replicated(mesh, 2)), "{replicated}");
  Sharding partial = spec(mesh, "data,-");
  partial.partial = {mesh.full_axis("model")};
  EXPECT_EQ(hlo_sharding_text(partial), "{devices=[2,1,3]<=[6] last_tile_dims={unreduced}}");
}

TEST(HloShardingAxes, ADeviceOrderThatIsNotAnIotaPrintsAsAList) {
  const Mesh mesh({{"x", 2}, {"y", 2}}, {0, 1, 3, 2});
  EXPECT_EQ(hlo_sharding_text(spec(mesh, "x,y")), "{devices=[2,2]0,1,3,2}");
  EXPECT_EQ(hlo_sharding_text(spec(mesh, "x")), "{devices=[2,2]<=[4] last_tile_dim_replicate}");
  const Mesh turned({{"x", 2}, {"y", 3}}, {0, 2, 4, 1, 3, 5});
  EXPECT_EQ(hlo_sharding_text(spec(turned, "x,y")), "{devices=[2,3]<=[3,2]T(1,0)}");
}

TEST(HloShardingAxes, NestingFactoringsShareOneMesh) {
  const auto mesh = common_mesh(
      {leaf("{devices=[2,4]<=[8]}"), leaf("{devices=[4,2]<=[8]}"), leaf("{devices=[4,2]<=[2,4]T(1,0)}")}, 8);
  ASSERT_TRUE(mesh.has_value());
  EXPECT_EQ(mesh->str(), "mesh<_0=2, _1=2, _2=2>");
  EXPECT_EQ(to_axes(leaf("{devices=[4,2]<=[2,4]T(1,0)}"), *mesh, 2)->str(), "{_1+_2,_0}");
  EXPECT_EQ(common_mesh({}, 6)->str(), "mesh<_0=6>");
}

TEST(HloShardingAxes, FactoringsThatDoNotNestGetSeparateMeshes) {
  const std::vector<std::pair<HloSharding, int>> texts = {{leaf("{devices=[2,3]<=[6]}"), 2},
                                                          {leaf("{devices=[3,2]<=[6]}"), 2}};
  EXPECT_FALSE(common_mesh({texts[0].first, texts[1].first}, 6).has_value());
  std::vector<Mesh> meshes;
  const auto axes = to_axes(texts, 6, meshes);
  ASSERT_EQ(meshes.size(), 2U);
  EXPECT_EQ(axes[0].str(), "{_0,_1}");
  EXPECT_EQ(axes[1].mesh.str(), "mesh<_0=3, _1=2>");
}

TEST(HloShardingAxes, AnArbitraryOrderIsAMeshWithThatOrder) {
  const auto odd = leaf("{devices=[2,3]5,0,3,1,4,2}");
  const auto mesh = common_mesh({leaf("{devices=[2,3]5,0,3,1,4,2}"), odd}, 6);
  ASSERT_TRUE(mesh.has_value());
  EXPECT_EQ(mesh->device_order(), (std::vector<std::int64_t>{5, 0, 3, 1, 4, 2}));
  EXPECT_EQ(hlo_sharding_text(*to_axes(odd, *mesh, 2)), hlo_sharding_text(odd));
}

TEST(HloShardingAxes, KnownMeshesComeFirstAndMayBeSplit) {
  std::vector<Mesh> meshes = {Mesh({{"data", 2}, {"model", 4}})};
  const auto axes = to_axes({{leaf("{devices=[4,2]<=[8]}"), 2}}, 8, meshes);
  EXPECT_EQ(meshes.size(), 1U);
  EXPECT_EQ(axes[0].str(), "{data+model:(1)2,model:(2)2}");
}

TEST(HloShardingAxes, AShardingOverOtherDevicesThanTheModuleIsAnError) {
  std::vector<Mesh> meshes;
  EXPECT_THROW(to_axes({{leaf("{devices=[2]<=[2]}"), 1}}, 4, meshes), Error);
  EXPECT_THROW(to_axes({{leaf("{devices=[2,2]<=[4]}"), 1}}, 4, meshes), Error);
}

// Returns a random sharding over complete axes and sub-axes, in any order on any dim.
Sharding random_sharding(const Mesh& mesh, int ndim, std::mt19937& random) {
  Sharding out = Sharding::replicated(mesh, ndim);
  std::vector<AxisRef> parts;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const auto size = mesh.axes()[static_cast<std::size_t>(axis)].size;
    if (size == 1) continue;
    std::int64_t leading = 1;
    if (random() % 3 == 0)
      for (std::int64_t k = 2; k < size; ++k)
        if (size % k == 0) leading = k;
    if (leading > 1) parts.push_back({axis, 1, leading});
    parts.push_back({axis, leading, size / leading});
  }
  std::shuffle(parts.begin(), parts.end(), random);
  for (const auto& part : parts) {
    const auto where = random() % (static_cast<unsigned>(ndim) + 3);
    if (where < static_cast<unsigned>(ndim))
      out.dims[where].axes.push_back(part);
    else if (where == static_cast<unsigned>(ndim))
      out.partial.push_back(part);
    else if (where == static_cast<unsigned>(ndim) + 1)
      out.manual.push_back(part);
  }
  for (auto& dim : out.dims) {
    dim.open = random() % 4 == 0;
    if (random() % 5 == 0) dim.priority = static_cast<int>(random() % 3);
  }
  std::sort(out.partial.begin(), out.partial.end());
  std::sort(out.manual.begin(), out.manual.end());
  if (!out.partial.empty()) out.reduction = static_cast<Reduction>(random() % 6);
  return out;
}

std::vector<Mesh> sample_meshes() {
  return {Mesh({{"x", 2}, {"y", 3}}),
          Mesh({{"x", 3}, {"y", 2}}),
          Mesh({{"a", 2}, {"b", 2}, {"c", 2}}),
          Mesh({{"x", 6}}),
          Mesh({{"x", 2}, {"one", 1}, {"y", 4}}),
          Mesh({{"odd name", 4}, {"y", 3}}, {}, "m 2"),
          Mesh({{"x", 2}, {"y", 3}}, {5, 0, 3, 1, 4, 2}),
          Mesh({{"x", 2}, {"y", 2}}, {0, 2, 1, 3})};
}

TEST(SdySharding, EveryShardingReadsBackEqual) {
  std::mt19937 random(7);
  for (const auto& mesh : sample_meshes())
    for (int i = 0; i < 60; ++i) {
      const auto sharding = random_sharding(mesh, static_cast<int>(random() % 4), random);
      const auto text = sdy_sharding_text(sharding);
      const auto read = parse_sdy_shardings(text, {mesh});
      ASSERT_EQ(read.size(), 1U);
      EXPECT_TRUE(read[0] == sharding) << text << " against " << sdy_sharding_text(read[0]);
    }
}

TEST(HloShardingAxes, TextOfAnyShardingReadsBackWithTheSameDevices) {
  std::mt19937 random(11);
  for (const auto& mesh : sample_meshes())
    for (int i = 0; i < 60; ++i) {
      auto sharding = random_sharding(mesh, static_cast<int>(random() % 4), random);
      sharding.reduction = Reduction::kSum;
      const auto text = hlo_sharding_text(sharding);
      EXPECT_EQ(hlo_sharding_text(leaf(text)), text);
      if (leaf(text).kind != HloSharding::Kind::kTiled) continue;
      const auto axes = to_axes(leaf(text), mesh, sharding.ndim());
      ASSERT_TRUE(axes.has_value()) << text << " of " << sharding.str() << " on " << mesh.str();
      EXPECT_EQ(hlo_sharding_text(*axes), text);
    }
}

TEST(SdySharding, MeshesReadBackEqual) {
  const auto meshes = sample_meshes();
  const auto read = parse_sdy_meshes(sdy_meshes_text({meshes[0], meshes[5], meshes[6]}));
  EXPECT_EQ(read.size(), 3U);
  EXPECT_TRUE(read[0] == meshes[0] && read[1] == meshes[5] && read[2] == meshes[6]);
  EXPECT_EQ(read[1].name(), "m 2");
}

TEST(SdySharding, ReadsTheOutputOfJax) {
  const auto meshes =
      parse_sdy_meshes(R"({mesh = #sdy.mesh<[\"x\"=2, \"y\"=4]>, maximal_mesh_3 = #sdy.mesh<[], device_ids=[3]>})");
  ASSERT_EQ(meshes.size(), 1U);
  EXPECT_EQ(meshes[0].str(), "mesh<x=2, y=4>");
  const auto leaves = parse_sdy_shardings(
      R"(#sdy.sharding_per_value<[<@mesh, [{\"x\", \"y\":(1)2, ?}p1, {}], replicated={\"y\":(2)2}>, <@maximal_mesh_3, []>]>)",
      meshes);
  ASSERT_EQ(leaves.size(), 2U);
  EXPECT_EQ(leaves[0].str(), "{x+y:(1)2?@p1,-}");
  EXPECT_EQ(leaves[1].str(), "{maximal device=3}");
}

TEST(SdySharding, ErrorsNameTheMeshAndTheAxis) {
  const std::vector<Mesh> meshes = {Mesh({{"data", 2}, {"model", 4}})};
  const auto error = [&](std::string_view text) -> std::string {
    try {
      parse_sdy_shardings(text, meshes);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error(R"(#sdy.sharding<@mesh, [{"modle"}]>)"),
            "sharding: mesh has no axis \"modle\"; axes are data, model; did you mean \"model\"?");
  EXPECT_EQ(error(R"(#sdy.sharding<@mash, [{}]>)").substr(0, 55),
            "sharding: unknown mesh \"mash\"; did you mean \"mesh\"? at ");
  EXPECT_EQ(error(R"(#sdy.sharding<@mesh, [{"data"}, {"data"}]>)").substr(0, 38),
            "sharding: axis \"data\" is used twice at");
  EXPECT_EQ(error(R"(#sdy.sharding<@mesh, [{"model":(3)2}]>)").substr(0, 62),
            "sharding: \"model\":(3)2 is not a part of an axis of size 4 at c");
}

}  // namespace
}  // namespace tessera
