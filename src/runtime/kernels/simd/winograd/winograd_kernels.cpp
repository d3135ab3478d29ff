// SPDX-License-Identifier: Apache-2.0
// Convolutions with windows of three by three elements by Winograd's algorithm: 36 products for 16 results instead of
// 144. For each of the 36 places of a tile, a matrix product sums over the features:
//
//   forward           M[p][o, t] = sum over i of U[p][o, i] V[p][i, t]      U: weights, V: image, t: tiles
//   weights gradient  S[p][o, i] = sum over t of Y[p][o, t] V[p][i, t]      Y: map
#include "kernels/simd/registration.h"
#include "kernels/simd/winograd/winograd_tiles.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

// Results, weights and transformed tiles of one block that should stay in the second-level and the last-level cache,
// in floats.
constexpr std::int64_t kNear = 160 << 10;
constexpr std::int64_t kFar = 2 << 20;

// The panels of `features` rows of a product.
struct Panels {
  std::int64_t height, count;
  explicit Panels(std::int64_t features)
      : height(part_of(features, kTileRows, 1)), count((features + height - 1) / height) {}
};

// Tiles that are processed at a time: all, or a multiple of a group that takes at most `room` floats.
std::int64_t groups_at_once(const Tiling& tiling, std::int64_t floats_of_tile, std::int64_t near_room) {
  if (tiling.tiles() * floats_of_tile <= kFar) return tiling.groups();
  const std::int64_t groups = near_room / (floats_of_tile * tiling.most());
  return groups < 2 ? 2 : groups;
}

// ---- forward ----------------------------------------------------------------------------------------------------------------

struct ForwardPlan {
  Tiling tiling;
  Panels panels;
  std::int64_t at_once;  // groups
  std::int64_t stride;   // of a row of tiles
  std::int64_t panel_floats;
  bool keeps_weights;

  explicit ForwardPlan(const WinogradArgs& args)
      : tiling(args),
        panels(args.out.features),
        at_once(groups_at_once(tiling, kProducts * args.in.features, kNear)),
        panel_floats(round_up(kProducts * args.in.features * panels.height + kLanes, kLanes)),
        keeps_weights(at_once < tiling.groups()) {
    const std::int64_t most = at_once * tiling.most();
    stride = round_up(most < tiling.tiles() ? most : tiling.tiles(), kTileColumns) + kLanes;
  }
  [[nodiscard]] std::int64_t weights() const { return (keeps_weights ? panels.count : 1) * panel_floats; }
  [[nodiscard]] std::int64_t image(const WinogradArgs& args) const { return kProducts * args.in.features * stride; }
  [[nodiscard]] std::int64_t map() const { return kProducts * panels.height * stride; }
};

// Writes out[place][i][row] for the output features of a panel.
void transform_weights(const WinogradArgs& args, std::int64_t first, std::int64_t height, float* out) {
  const std::int64_t inputs = args.in.features;
  const std::int64_t count = first + height <= args.out.features ? height : args.out.features - first;
  alignas(64) float elements[kWindow][kWindow][kLanes] = {};
  for (std::int64_t i = 0; i < inputs; ++i) {
    const float* from = args.weights + first * args.weights_out + i * args.weights_in;
    for (std::int64_t o = 0; o < count; ++o, from += args.weights_out)
#pragma GCC unroll 3
      for (std::int64_t y = 0; y < kWindow; ++y)
#pragma GCC unroll 3
        for (std::int64_t x = 0; x < kWindow; ++x) elements[y][x][o] = from[y * args.weights_y + x * args.weights_x];
    Vector halves[kWindow][kPlaces];
#pragma GCC unroll 3
    for (std::int64_t x = 0; x < kWindow; ++x) {
      const Vector column[kWindow] = {load(elements[0][x]), load(elements[1][x]), load(elements[2][x])};
      weights_to_places(column, halves[x]);
    }
#pragma GCC unroll 6
    for (std::int64_t p = 0; p < kPlaces; ++p) {
      const Vector row[kWindow] = {halves[0][p], halves[1][p], halves[2][p]};
      Vector places[kPlaces];
      weights_to_places(row, places);
#pragma GCC unroll 6
      for (std::int64_t q = 0; q < kPlaces; ++q) {
        // A vector may write past its row: later rows are written after it.
        float* const to = out + ((p * kPlaces + q) * inputs + i) * height;
        if (i + 1 < inputs || height == kLanes)
          store(to, places[q]);
        else
          for (std::int64_t o = 0; o < height; ++o) to[o] = places[q][o];
      }
    }
  }
}

void multiply_panel(const ForwardPlan& plan, const float* weights, const float* image, std::int64_t inputs,
                    std::int64_t tiles, float* map) {
  const auto multiply = kTileOfRows[static_cast<std::size_t>(plan.panels.height) - 1];
  for (std::int64_t p = 0; p < kProducts; ++p)
    for (std::int64_t t = 0; t < tiles; t += kTileColumns)
      multiply({.rows = weights + p * inputs * plan.panels.height,
                .columns = image + p * inputs * plan.stride + t,
                .depth = inputs,
                .out = map + p * plan.panels.height * plan.stride + t,
                .stride = plan.stride,
                .columns_stride = plan.stride});
}

void winograd(const WinogradArgs& args) {
  const ForwardPlan plan(args);
  float* const weights = args.workspace;
  float* const image = weights + plan.weights();
  float* const map = image + plan.image(args);
  const std::int64_t inputs = args.in.features;
  TileReader<kPlaces> reader(plan.tiling, args.in, args.image, args.low_y, args.low_x);
  TileWriter writer(plan.tiling, args.out, args.map);
  for (std::int64_t start = 0; start < plan.tiling.groups(); start += plan.at_once) {
    const std::int64_t end = start + plan.at_once < plan.tiling.groups() ? start + plan.at_once : plan.tiling.groups();
    std::int64_t tiles = 0;
    for (std::int64_t g = start; g < end; ++g) {
      const Group group = plan.tiling.group(g);
      reader.start(group);
      for (std::int64_t i = 0; i < inputs; ++i)
        reader.transform(i, image + i * plan.stride + tiles, inputs * plan.stride);
      tiles += group.count();
    }
    for (std::int64_t panel = 0; panel < plan.panels.count; ++panel) {
      const std::int64_t first = panel * plan.panels.height;
      float* const here = weights + (plan.keeps_weights ? panel * plan.panel_floats : 0);
      if (start == 0 || !plan.keeps_weights) transform_weights(args, first, plan.panels.height, here);
      multiply_panel(plan, here, image, inputs, tiles, map);
      const std::int64_t last =
          first + plan.panels.height < args.out.features ? first + plan.panels.height : args.out.features;
      std::int64_t place = 0;
      for (std::int64_t g = start; g < end; ++g) {
        const Group group = plan.tiling.group(g);
        for (std::int64_t o = first; o < last; ++o)
          writer.write(group, o, map + (o - first) * plan.stride + place, plan.panels.height * plan.stride);
        place += group.count();
      }
    }
  }
}

std::int64_t winograd_workspace(const WinogradArgs& args) {
  const ForwardPlan plan(args);
  return static_cast<std::int64_t>(sizeof(float)) * (plan.weights() + plan.image(args) + plan.map());
}

// ---- gradient of the weights -------------------------------------------------------------------------------------------------

struct GradientPlan {
  Tiling tiling;
  Panels rows;                             // output features
  std::int64_t columns;                    // panels of input features
  std::int64_t at_once;                    // groups
  std::int64_t most;                       // tiles
  std::int64_t row_floats, column_floats;  // of a panel
  bool keeps_sums;

  explicit GradientPlan(const WinogradArgs& args)
      : tiling(args),
        rows(args.out.features),
        columns((args.in.features + kTileColumns - 1) / kTileColumns),
        at_once(groups_at_once(tiling, kProducts * (args.in.features + args.out.features), 2 * kNear)),
        keeps_sums(at_once < tiling.groups()) {
    most = at_once * tiling.most();
    if (most > tiling.tiles()) most = tiling.tiles();
    row_floats = round_up(most * rows.height + kLanes, kLanes);
    column_floats = most * kTileColumns;
  }
  [[nodiscard]] std::int64_t width() const { return columns * kTileColumns; }
  [[nodiscard]] std::int64_t sums_of_panel() const { return kProducts * rows.height * width(); }
  [[nodiscard]] std::int64_t sums() const { return (keeps_sums ? rows.count : 1) * sums_of_panel(); }
  [[nodiscard]] std::int64_t left() const { return kProducts * rows.count * row_floats; }
  [[nodiscard]] std::int64_t right() const { return kProducts * columns * column_floats; }
  static constexpr std::int64_t kTurned = kProducts * kLanes * kLanes;
};

// Transforms `count` features, of which a panel has `width`, and writes tile t of the group at to[t * width].
template <std::int64_t kSize>
void transform_turned(TileReader<kSize>& reader, std::int64_t first, std::int64_t count, std::int64_t tiles,
                      float* turned, float* to, std::int64_t width, std::int64_t place_stride) {
  for (std::int64_t f = 0; f < count; ++f) reader.transform(first + f, turned + f * kLanes, kLanes * kLanes);
  for (std::int64_t p = 0; p < kProducts; ++p) {
    Vector square[kLanes];
#pragma GCC unroll 16
    for (std::int64_t f = 0; f < kLanes; ++f) square[f] = load(turned + (p * kLanes + f) * kLanes);
    transpose(square);
    float* const out = to + p * place_stride;
    for (std::int64_t t = 0; t < tiles; ++t) store(out + t * width, square[t]);
  }
}

// Writes the gradient of the weights of one panel of output features.
void write_gradient(const WinogradArgs& args, const GradientPlan& plan, std::int64_t first, const float* sums) {
  const std::int64_t place = plan.rows.height * plan.width();
  alignas(64) float elements[kWindow][kWindow][kLanes];
  for (std::int64_t o = first; o < first + plan.rows.height && o < args.out.features; ++o)
    for (std::int64_t i = 0; i < args.in.features; i += kLanes) {
      const float* const from = sums + (o - first) * plan.width() + i;
      Vector halves[kPlaces][kWindow];
#pragma GCC unroll 6
      for (std::int64_t p = 0; p < kPlaces; ++p) {
        Vector row[kPlaces];
#pragma GCC unroll 6
        for (std::int64_t q = 0; q < kPlaces; ++q) row[q] = load(from + (p * kPlaces + q) * place);
        to_weights(row, halves[p]);
      }
#pragma GCC unroll 3
      for (std::int64_t x = 0; x < kWindow; ++x) {
        Vector column[kPlaces];
#pragma GCC unroll 6
        for (std::int64_t p = 0; p < kPlaces; ++p) column[p] = halves[p][x];
        Vector weights[kWindow];
        to_weights(column, weights);
#pragma GCC unroll 3
        for (std::int64_t y = 0; y < kWindow; ++y) store(elements[y][x], weights[y]);
      }
      const std::int64_t count = i + kLanes <= args.in.features ? kLanes : args.in.features - i;
      float* to = args.weights_gradient + o * args.weights_out + i * args.weights_in;
      for (std::int64_t l = 0; l < count; ++l, to += args.weights_in)
#pragma GCC unroll 3
        for (std::int64_t y = 0; y < kWindow; ++y)
#pragma GCC unroll 3
          for (std::int64_t x = 0; x < kWindow; ++x) to[y * args.weights_y + x * args.weights_x] = elements[y][x][l];
    }
}

void winograd_gradient(const WinogradArgs& args) {
  const GradientPlan plan(args);
  float* const turned = args.workspace;
  float* const left = turned + GradientPlan::kTurned;
  float* const right = left + plan.left();
  float* const sums = right + plan.right();
  TileReader<kPlaces> images(plan.tiling, args.in, args.image, args.low_y, args.low_x);
  TileReader<kResults> maps(plan.tiling, args.out, args.map, 0, 0);
  const std::int64_t height = plan.rows.height;
  for (std::int64_t start = 0; start < plan.tiling.groups(); start += plan.at_once) {
    const std::int64_t end = start + plan.at_once < plan.tiling.groups() ? start + plan.at_once : plan.tiling.groups();
    std::int64_t tiles = 0;
    for (std::int64_t g = start; g < end; ++g) {
      const Group group = plan.tiling.group(g);
      images.start(group);
      maps.start(group);
      for (std::int64_t i = 0; i < args.in.features; i += kLanes)
        transform_turned(images, i, i + kLanes <= args.in.features ? kLanes : args.in.features - i, group.count(),
                         turned,
                         right + i / kTileColumns * plan.column_floats + tiles * kTileColumns + i % kTileColumns,
                         kTileColumns, plan.columns * plan.column_floats);
      for (std::int64_t panel = 0; panel < plan.rows.count; ++panel) {
        const std::int64_t first = panel * height;
        transform_turned(maps, first, first + height <= args.out.features ? height : args.out.features - first,
                         group.count(), turned, left + panel * plan.row_floats + tiles * height, height,
                         plan.rows.count * plan.row_floats);
      }
      tiles += group.count();
    }
    for (std::int64_t panel = 0; panel < plan.rows.count; ++panel) {
      float* const here = sums + (plan.keeps_sums ? panel * plan.sums_of_panel() : 0);
      const auto multiply = kTileOfRows[static_cast<std::size_t>(height) - 1];
      for (std::int64_t p = 0; p < kProducts; ++p)
        for (std::int64_t column = 0; column < plan.columns; ++column)
          multiply({.rows = left + (p * plan.rows.count + panel) * plan.row_floats,
                    .columns = right + (p * plan.columns + column) * plan.column_floats,
                    .depth = tiles,
                    .out = here + p * height * plan.width() + column * kTileColumns,
                    .stride = plan.width(),
                    .adds = start > 0});
      if (end == plan.tiling.groups()) write_gradient(args, plan, panel * height, here);
    }
  }
}

std::int64_t winograd_gradient_workspace(const WinogradArgs& args) {
  const GradientPlan plan(args);
  return static_cast<std::int64_t>(sizeof(float)) * (GradientPlan::kTurned + plan.left() + plan.right() + plan.sums());
}

}  // namespace

void add_winograd(KernelSet& set) {
  set.winograd = winograd;
  set.winograd_workspace = winograd_workspace;
  set.winograd_gradient = winograd_gradient;
  set.winograd_gradient_workspace = winograd_gradient_workspace;
}

}  // namespace tessera::kernels::TESSERA_ISA
