// SPDX-License-Identifier: Apache-2.0
// Pictures of shardings.
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/sharding/visualize.h"

namespace tessera {
namespace {

const Mesh kMesh({{"data", 2}, {"model", 3}});

TEST(Visualize, ShowsTheDevicesOfEachTile) {
  const Type type = Type::array(DType::kF32, {4, 6});
  EXPECT_EQ(visualize_sharding(type, Sharding::from_spec(kMesh, {"data", {}}, 2), {.cell_width = 7, .cell_height = 1}),
            "┌───────┐\n│ 0,1,2 │\n├───────┤\n│ 3,4,5 │\n└───────┘\n");
  EXPECT_EQ(visualize_sharding(Type::array(DType::kF32, {6}), Sharding::from_spec(kMesh, {"model"}, 1),
                               {.cell_width = 5, .cell_height = 1}),
            "┌─────┬─────┬─────┐\n│ 0,3 │ 1,4 │ 2,5 │\n└─────┴─────┴─────┘\n");
  EXPECT_EQ(
      visualize_sharding(Type::array(DType::kF32, {3, 1, 6}), Sharding::from_spec(kMesh, {"data", {}, "model"}, 3),
                         {.cell_width = 3, .cell_height = 1}),
      "[0:2]\n┌───┬───┬───┐\n│ 0 │ 1 │ 2 │\n└───┴───┴───┘\n"
      "[2:3]\n┌───┬───┬───┐\n│ 3 │ 4 │ 5 │\n└───┴───┴───┘\n");
  const std::string four_dims =
      visualize_sharding(Type::array(DType::kF32, {4, 5, 1, 6}),
                         Sharding::from_spec(kMesh, {"data", "model", {}, {}}, 4), {.cell_width = 3, .cell_height = 1});
  EXPECT_TRUE(four_dims.starts_with("[0:2, 0:2]\n┌───┐\n│ 0 │\n└───┘\n[0:2, 2:4]\n┌───┐\n│ 1 │")) << four_dims;
  EXPECT_THROW(visualize_sharding(Type::array(DType::kF32, {128, 1, 1}),
                                  Sharding::from_spec(Mesh({{"x", 128}}), {"x", {}, {}}, 3)),
               Error);
}

TEST(Visualize, EmptyTilesAreMarked) {
  const Type type = Type::array(DType::kF32, {4});  // over three devices: two, two, none
  const auto sharding = Sharding::from_spec(kMesh, {"model"}, 1);
  EXPECT_EQ(visualize_sharding(type, sharding, {.cell_width = 5, .cell_height = 1}),
            "┌─────────────┬─────────────┬─────────────┐\n│     0,3     │     1,4     │ 2,5 (empty) │\n"
            "└─────────────┴─────────────┴─────────────┘\n");
  const std::string svg = sharding_svg(type, sharding);
  EXPECT_NE(svg.find("fill=\"none\""), std::string::npos);
  EXPECT_EQ(svg.find("fill=\"none\""), svg.rfind("fill=\"none\""));
}

TEST(Visualize, AnSvgIsAsWideAsItsTitle) {
  const std::string svg = sharding_svg(Type::array(DType::kF32, {6}), Sharding::replicated(kMesh, 1));
  const int width = std::stoi(svg.substr(svg.find("width=\"") + 7));
  const auto start = svg.find('>', svg.find("<text")) + 1;
  EXPECT_GE(width, 8 * static_cast<int>(svg.find('<', start) - start));
}

TEST(Visualize, AnSvgHasARectangleWithDevicesForEachTile) {
  const std::string svg =
      sharding_svg(Type::array(DType::kF32, {3, 6}), Sharding::from_spec(kMesh, {"data", "model"}, 2));
  std::size_t rectangles = 0;
  for (auto place = svg.find("<rect"); place != std::string::npos; place = svg.find("<rect", place + 1)) ++rectangles;
  EXPECT_EQ(rectangles, 6U);
  for (const char* text : {">0<", ">5<", ">0:2<", ">2:3<", ">4:6<", ">f32[3,6] {data,model}<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.substr(0, 5) + svg.substr(svg.size() - 7), "<svg </svg>\n");
}

TEST(Visualize, AScalarIsOneTile) {
  EXPECT_EQ(visualize_sharding(Type::array(DType::kF32, {}), Sharding::replicated(kMesh, 0), {.cell_height = 1}),
            "┌─────────────┐\n│ 0,1,2,3,4,5 │\n└─────────────┘\n");
}

TEST(Visualize, TheTextOfAShardingNeedsNoType) {
  const VisualizeOptions small{.cell_width = 3, .cell_height = 1};
  EXPECT_EQ(visualize_sharding("{devices=[2,2]0,1,2,3}", small),
            "┌───┬───┐\n│ 0 │ 1 │\n├───┼───┤\n│ 2 │ 3 │\n└───┴───┘\n");
  EXPECT_EQ(
      visualize_sharding("{devices=[1,3,2]<=[2,3]T(1,0) last_tile_dim_replicate}", {.cell_width = 5, .cell_height = 1}),
      "┌─────┬─────┬─────┐\n│ 0,3 │ 1,4 │ 2,5 │\n└─────┴─────┴─────┘\n");
  EXPECT_EQ(visualize_sharding("{replicated}", {.cell_width = 5, .cell_height = 1}), "┌─────┐\n│ all │\n└─────┘\n");
  EXPECT_EQ(visualize_sharding("{maximal device=3}", small), "┌───┐\n│ 3 │\n└───┘\n");
  EXPECT_THROW(visualize_sharding("{manual}"), Error);
  EXPECT_THROW(visualize_sharding("{{replicated}, {replicated}}"), Error);
  EXPECT_THROW(visualize_sharding("devices"), Error);
}

TEST(Visualize, ATileHasTheColourOfItsFirstDevice) {
  const VisualizeOptions options{.color = true, .cell_width = 3, .cell_height = 1};
  EXPECT_EQ(visualize_sharding("{devices=[2]1,0}", options),
            "┌───┬───┐\n│\x1b[42m 1 \x1b[0m│\x1b[41m 0 \x1b[0m│\n└───┴───┘\n");
  const std::string uneven =
      visualize_sharding(Type::array(DType::kF32, {2}), Sharding::from_spec(kMesh, {"model"}, 1), options);
  EXPECT_EQ(uneven.find("\x1b[43m"), std::string::npos) << uneven;  // the third tile is empty
}

TEST(Visualize, ShapesAndShardingsAreReadFromTexts) {
  const auto text = [](const ShardedType& read) { return read.type.str() + read.sharding.str(); };
  EXPECT_EQ(text(read_sharded_type("bf16[8,16]", "{-,a+b}", "a=2,b=3")), "bf16[8,16]{-,a+b}");
  EXPECT_EQ(text(read_sharded_type("8, 16", "b,a", "a=2,b=3")), "f32[8,16]{b,a}");
  EXPECT_EQ(read_sharded_type("8,16", "{devices=[3,2]<=[6]}", "").sharding.tiles(0), 3);
  EXPECT_EQ(text(read_sharded_type("", "{replicated}", "")), "f32[]{}");
  EXPECT_THROW(read_sharded_type("8x16", "a,b", "a=2,b=3"), Error);
  EXPECT_THROW(read_sharded_type("8,16", "a,b", ""), Error);
  EXPECT_THROW(read_sharded_type("8", "{devices=[3,2]<=[6]}", ""), Error);
}

}  // namespace
}  // namespace tessera
