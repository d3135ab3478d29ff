// SPDX-License-Identifier: Apache-2.0
// Convolutions with windows of one element as one product over all images, although the images are not adjacent:
//
//   forward               map[n][o, s] = sum over i of weights[o, i] image[n][i, s]     columns: images and places
//   gradient of weights   weights[o, i] = sum over n, s of map[n][o, s] image[n][i, s]  depth: images and places
#include "kernels/simd/products/sgemm_block.h"
#include "kernels/simd/products/sgemm_packing.h"
#include "kernels/simd/registration.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

constexpr std::int64_t kMostDepth = 400;
constexpr std::int64_t kMostRows = 1008;
constexpr std::int64_t kMostColumns = 1536;
constexpr std::int64_t kNearColumns = 480;  // that are multiplied with one panel of rows

std::int64_t lesser(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Calls f(image, place, count, offset) for the parts of [from, from + count) that are in one image.
template <class F>
void for_each_part(std::int64_t from, std::int64_t count, std::int64_t places, F&& f) {
  for (std::int64_t offset = 0; offset < count;) {
    const std::int64_t image = (from + offset) / places;
    const std::int64_t place = (from + offset) % places;
    const std::int64_t part = lesser(count - offset, places - place);
    f(image, place, part, offset);
    offset += part;
  }
}

// ---- forward ----------------------------------------------------------------------------------------------------------------

// Packs the columns of a few panels for `depth` features of the image. Reads are long runs.
void pack_columns(const PointwiseArgs& args, std::int64_t from, std::int64_t count, std::int64_t feature,
                  std::int64_t depth, float* out) {
  const std::int64_t rest = count % kTileColumns;
  if (rest > 0)
    for (std::int64_t i = 0; i < depth * kTileColumns; ++i) out[(count - rest) * depth + i] = 0;
  for_each_part(from, count, args.places,
                [&](std::int64_t image, std::int64_t place, std::int64_t part, std::int64_t offset) {
                  const float* line = args.image + image * args.in_image + feature * args.in_feature + place;
                  for (std::int64_t k = 0; k < depth; ++k, line += args.in_feature)
                    for (std::int64_t i = 0; i < part;) {
                      const std::int64_t column = (offset + i) % kTileColumns;
                      float* const to = out + (offset + i - column) * depth + k * kTileColumns + column;
                      const std::int64_t run = lesser(part - i, kTileColumns - column);
                      std::int64_t j = 0;
                      for (; j + kLanes <= run; j += kLanes) store(to + j, load(line + i + j));
                      for (; j < run; ++j) to[j] = line[i + j];
                      i += run;
                    }
                });
}

// Computes a tile whose columns are in several images or not complete.
void multiply_parts(const PointwiseArgs& args, Tile tile, std::int64_t rows, std::int64_t row, std::int64_t from,
                    std::int64_t count) {
  alignas(64) float all[kTileRows * kTileColumns];
  tile.out = all;
  tile.stride = kTileColumns;
  const bool adds = std::exchange(tile.adds, false);
  kTileOfRows[static_cast<std::size_t>(rows) - 1](tile);
  for_each_part(from, count, args.places,
                [&](std::int64_t image, std::int64_t place, std::int64_t part, std::int64_t offset) {
                  for (std::int64_t r = 0; r < rows; ++r) {
                    float* const out = args.map + image * args.out_image + (row + r) * args.out_feature + place;
                    const float* const sums = all + r * kTileColumns + offset;
                    std::int64_t i = 0;
                    for (; i + kLanes <= part; i += kLanes)
                      store(out + i, adds ? load(out + i) + load(sums + i) : load(sums + i));
                    for (; i < part; ++i) out[i] = adds ? out[i] + sums[i] : sums[i];
                  }
                });
}

struct PointwiseBlocks {
  std::int64_t rows, columns, depth;
  explicit PointwiseBlocks(const PointwiseArgs& args)
      : rows(part_of(args.outputs, kMostRows, kTileRows)),
        columns(part_of(args.images * args.places, kMostColumns, kTileColumns)),
        depth(part_of(args.inputs, kMostDepth, 1)) {}
  [[nodiscard]] std::int64_t left() const { return round_up(rows * depth + kLanes, kLanes); }
  [[nodiscard]] std::int64_t right() const { return columns * depth; }
};

// Multiplies packed rows from `row` on with packed columns from `column` on.
void multiply_rows(const PointwiseArgs& args, const float* left, const float* right, std::int64_t row,
                   std::int64_t rows, std::int64_t column, std::int64_t columns, std::int64_t depth, bool adds) {
  for (std::int64_t start = 0; start < columns; start += kNearColumns)
    for (std::int64_t i = 0; i < rows; i += kTileRows) {
      const std::int64_t height = lesser(kTileRows, rows - i);
      for (std::int64_t j = start; j < lesser(start + kNearColumns, columns); j += kTileColumns) {
        const std::int64_t width = lesser(kTileColumns, columns - j);
        const std::int64_t image = (column + j) / args.places;
        const std::int64_t place = (column + j) % args.places;
        Tile tile{.rows = left + i * depth, .columns = right + j * depth, .depth = depth};
        tile.adds = adds;
        if (width < kTileColumns || place + width > args.places) {
          multiply_parts(args, tile, height, row + i, column + j, width);
          continue;
        }
        tile.out = args.map + image * args.out_image + (row + i) * args.out_feature + place;
        tile.stride = args.out_feature;
        kTileOfRows[static_cast<std::size_t>(height) - 1](tile);
      }
    }
}

void pointwise(const PointwiseArgs& args) {
  const PointwiseBlocks block(args);
  float* const left = args.workspace;
  float* const right = left + block.left();
  const std::int64_t all = args.images * args.places;
  for (std::int64_t n = 0; n < all; n += block.columns)
    for (std::int64_t k = 0; k < args.inputs; k += block.depth) {
      const std::int64_t columns = lesser(block.columns, all - n);
      const std::int64_t depth = lesser(block.depth, args.inputs - k);
      constexpr std::int64_t kTogether = 8 * kTileColumns;
      for (std::int64_t j = 0; j < columns; j += kTogether)
        pack_columns(args, n + j, lesser(kTogether, columns - j), k, depth, right + j * depth);
      for (std::int64_t m = 0; m < args.outputs; m += block.rows) {
        const std::int64_t rows = lesser(block.rows, args.outputs - m);
        const float* const weights = args.weights + m * args.weights_out + k * args.weights_in;
        pack<kTileRows>(Lines<float>{weights, args.weights_out, args.weights_in}, rows, false, depth, left);
        multiply_rows(args, left, right, m, rows, n, columns, depth, k > 0);
      }
    }
}

std::int64_t pointwise_workspace(const PointwiseArgs& args) {
  const PointwiseBlocks block(args);
  return static_cast<std::int64_t>(sizeof(float)) * (block.left() + block.right());
}

// ---- gradient of the weights -------------------------------------------------------------------------------------------------

struct PointwiseGradientBlocks {
  std::int64_t rows, columns, depth;
  explicit PointwiseGradientBlocks(const PointwiseArgs& args)
      : rows(part_of(args.outputs, kMostRows, kTileRows)),
        columns(part_of(args.inputs, kMostColumns, kTileColumns)),
        depth(part_of(args.images * args.places, kMostDepth, kLanes)) {}
  [[nodiscard]] std::int64_t left() const { return round_up(rows * depth + kLanes, kLanes); }
  [[nodiscard]] std::int64_t right() const { return columns * depth + kLanes; }
};

// Packs `count` features from `feature` on, at the places [from, from + depth) of all images.
template <std::int64_t kWidth>
void pack_places(const float* data, std::int64_t image_stride, std::int64_t feature_stride, std::int64_t places,
                 std::int64_t feature, std::int64_t count, bool pads, std::int64_t from, std::int64_t depth,
                 float* out) {
  for (std::int64_t i = 0; i < count; i += kWidth) {
    const std::int64_t present = lesser(kWidth, count - i);
    const std::int64_t width = pads ? kWidth : present;
    for_each_part(from, depth, places,
                  [&](std::int64_t image, std::int64_t place, std::int64_t part, std::int64_t offset) {
                    const Lines<float> lines{data + image * image_stride + (feature + i) * feature_stride + place,
                                             feature_stride, 1};
                    float* const to = out + i * depth + offset * width;
                    if (width == kWidth)
                      pack_turned(lines, present, width, part, to);
                    else
                      pack_plain(lines, present, width, 0, part, to);
                  });
  }
}

void pointwise_gradient(const PointwiseArgs& args) {
  const PointwiseGradientBlocks block(args);
  float* const left = args.workspace;
  float* const right = left + block.left();
  const std::int64_t all = args.images * args.places;
  for (std::int64_t n = 0; n < args.inputs; n += block.columns)
    for (std::int64_t k = 0; k < all; k += block.depth) {
      const std::int64_t columns = lesser(block.columns, args.inputs - n);
      const std::int64_t depth = lesser(block.depth, all - k);
      pack_places<kTileColumns>(args.image, args.in_image, args.in_feature, args.places, n, columns, true, k, depth,
                                right);
      for (std::int64_t m = 0; m < args.outputs; m += block.rows) {
        const std::int64_t rows = lesser(block.rows, args.outputs - m);
        pack_places<kTileRows>(args.map, args.out_image, args.out_feature, args.places, m, rows, false, k, depth, left);
        float* const out = args.weights_gradient + m * args.weights_out + n;
        multiply_block(left, right, rows, columns,
                       {.depth = depth, .out = out, .stride = args.weights_out, .adds = k > 0});
      }
    }
}

std::int64_t pointwise_gradient_workspace(const PointwiseArgs& args) {
  const PointwiseGradientBlocks block(args);
  return static_cast<std::int64_t>(sizeof(float)) * (block.left() + block.right());
}

}  // namespace

void add_pointwise(KernelSet& set) {
  set.pointwise = pointwise;
  set.pointwise_workspace = pointwise_workspace;
  set.pointwise_gradient = pointwise_gradient;
  set.pointwise_gradient_workspace = pointwise_gradient_workspace;
}

}  // namespace tessera::kernels::TESSERA_ISA
