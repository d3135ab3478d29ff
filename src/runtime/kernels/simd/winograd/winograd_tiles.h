// SPDX-License-Identifier: Apache-2.0
// How Winograd's algorithm divides images into tiles of four by four results, and how it reads and writes them.
//
// The tiles of all images are numbered by image, row and column. A group is at most kLanes of them that one vector
// holds: some complete rows of tiles, or a part of one row.
#pragma once

#include "kernels/simd/kernel_set.h"
#include "kernels/simd/winograd/winograd_transforms.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

struct Group {
  std::int64_t row = 0, rows = 0;     // rows of tiles, counted over all images
  std::int64_t first = 0, tiles = 0;  // columns of tiles
  [[nodiscard]] std::int64_t count() const { return rows * tiles; }
};

struct Tiling {
  std::int64_t down = 0, across = 0;   // tiles of an image
  std::int64_t rows = 0;               // of all images
  std::int64_t chunk = 0, chunks = 0;  // the tiles of a group in a row; the groups of a row
  std::int64_t together = 0;           // rows of a group

  explicit Tiling(const WinogradArgs& args)
      : down((args.out.height + kResults - 1) / kResults),
        across((args.out.width + kResults - 1) / kResults),
        rows(args.images * down),
        chunk(part_of(across, kLanes, 1)),
        chunks((across + chunk - 1) / chunk),
        together(chunks > 1 ? 1 : kLanes / across) {}
  [[nodiscard]] std::int64_t tiles() const { return rows * across; }
  [[nodiscard]] std::int64_t groups() const { return chunks > 1 ? rows * chunks : (rows + together - 1) / together; }
  [[nodiscard]] std::int64_t most() const { return together * chunk; }  // tiles of a group
  [[nodiscard]] Group group(std::int64_t number) const {
    if (chunks > 1) {
      const std::int64_t first = number % chunks * chunk;
      return {number / chunks, 1, first, first + chunk <= across ? chunk : across - first};
    }
    const std::int64_t row = number * together;
    return {row, row + together <= rows ? together : rows - row, 0, across};
  }
};

// Copies with vectors, of which the last may overlap the one before it.
inline void copy_run(float* to, const float* from, std::int64_t count) {
  if (count < kLanes) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (std::int64_t i = 0; i < count - kLanes; i += kLanes) store(to + i, load(from + i));
  store(to + count - kLanes, load(from + count - kLanes));
}

// kSize places of each tile along both dims: 6 of the image, or 4 of the map.
template <std::int64_t kSize>
class TileReader {
 public:
  // Columns of a row of a group, with room for complete vectors.
  static constexpr std::int64_t kColumns = 5 * kLanes;

  TileReader(const Tiling& tiling, const WinogradSide& side, const float* data, std::int64_t low_y, std::int64_t low_x)
      : tiling_(tiling), side_(side), data_(data), low_y_(low_y), low_x_(low_x) {}

  void start(const Group& group) {
    group_ = group;
    for (auto& row : rows_)
      for (float& x : row) x = 0;
    const std::int64_t left = group.first * kResults - low_x_;
    const std::int64_t width = (group.tiles - 1) * kResults + kSize;
    from_ = left < 0 ? 0 : left;
    skipped_ = from_ - left;
    const std::int64_t end = left + width < side_.width ? left + width : side_.width;
    length_ = end > from_ ? end - from_ : 0;
    vectors_ = (width + kLanes - 1) / kLanes;
  }

  /// Writes the transformed places of all tiles of the group, for one feature: out[place * stride], a vector of tiles.
  void transform(std::int64_t feature, float* out, std::int64_t stride) {
    if (group_.rows == 1) {
      transform_rows(feature, group_.row);
      return transform_columns(places_[0], kColumns, places_[0] + kResults, kColumns, out, stride);
    }
    for (std::int64_t row = 0; row < group_.rows; ++row) {
      transform_rows(feature, group_.row + row);
      const std::int64_t place = row * group_.tiles * kResults;
      for (std::int64_t p = 0; p < kPlaces; ++p)
        for (std::int64_t v = 0; v < group_.tiles * kResults; v += kLanes) {
          store(main_[p] + place + v, load(places_[p] + v));
          if constexpr (kSize > kResults) store(next_[p] + place + v, load(places_[p] + v + kResults));
        }
    }
    transform_columns(main_[0], kColumns, next_[0], kColumns, out, stride);
  }

 private:
  // Transforms along the columns, for one row of tiles.
  void transform_rows(std::int64_t feature, std::int64_t row) {
    const float* const plane = data_ + row / tiling_.down * side_.image_stride + feature * side_.feature_stride;
    const std::int64_t top = row % tiling_.down * kResults - low_y_;
    const float* from[kSize];
    for (std::int64_t i = 0; i < kSize; ++i) {
      const std::int64_t y = top + i;
      if (y < 0 || y >= side_.height) {
        from[i] = zeros_;
        continue;
      }
      copy_run(rows_[i] + skipped_, plane + y * side_.row_stride + from_, length_);
      from[i] = rows_[i];
    }
    for (std::int64_t v = 0; v < vectors_ * kLanes; v += kLanes) {
      Vector given[kSize];
#pragma GCC unroll 6
      for (std::int64_t i = 0; i < kSize; ++i) given[i] = load(from[i] + v);
      Vector places[kPlaces];
      apply(given, places);
#pragma GCC unroll 6
      for (std::int64_t p = 0; p < kPlaces; ++p) store(places_[p] + v, places[p]);
    }
  }

  static void transform_columns(const float* main, std::int64_t main_stride, const float* next,
                                std::int64_t next_stride, float* out, std::int64_t stride) {
    for (std::int64_t p = 0; p < kPlaces; ++p, main += main_stride, next += next_stride) {
      Vector given[kSize];
      every_fourth<kResults>(main, given);
      if constexpr (kSize > kResults) every_fourth<kSize - kResults>(next, given + kResults);
      Vector places[kPlaces];
      apply(given, places);
#pragma GCC unroll 6
      for (std::int64_t q = 0; q < kPlaces; ++q) store(out + (p * kPlaces + q) * stride, places[q]);
    }
  }

  static void apply(const Vector (&given)[kSize], Vector (&places)[kPlaces]) {
    if constexpr (kSize == kPlaces)
      to_places(given, places);
    else
      results_to_places(given, places);
  }

  const Tiling& tiling_;
  const WinogradSide& side_;
  const float* data_;
  std::int64_t low_y_, low_x_;
  Group group_;
  std::int64_t from_ = 0, skipped_ = 0, length_ = 0, vectors_ = 0;
  alignas(64) float zeros_[kColumns] = {};
  alignas(64) float rows_[kSize][kColumns] = {};
  // Room for the vectors that are read kResults further, and that are written past the last row.
  alignas(64) float places_[kPlaces + 1][kColumns] = {};
  alignas(64) float main_[kPlaces + 1][kColumns] = {};
  alignas(64) float next_[kPlaces + 1][kColumns] = {};
};

// Writes results of the tiles of a group, for one feature.
class TileWriter {
 public:
  TileWriter(const Tiling& tiling, const WinogradSide& side, float* data) : tiling_(tiling), side_(side), data_(data) {}

  /// `from[place * stride]` is a vector of tiles.
  void write(const Group& group, std::int64_t feature, const float* from, std::int64_t stride) {
    Vector halves[kPlaces][kResults];
    for (std::int64_t p = 0; p < kPlaces; ++p) {
      Vector given[kPlaces];
#pragma GCC unroll 6
      for (std::int64_t q = 0; q < kPlaces; ++q) given[q] = load(from + (p * kPlaces + q) * stride);
      to_results(given, halves[p]);
    }
    Vector results[kResults][kResults];
#pragma GCC unroll 4
    for (std::int64_t x = 0; x < kResults; ++x) {
      Vector given[kPlaces];
#pragma GCC unroll 6
      for (std::int64_t p = 0; p < kPlaces; ++p) given[p] = halves[p][x];
      Vector column[kResults];
      to_results(given, column);
#pragma GCC unroll 4
      for (std::int64_t y = 0; y < kResults; ++y) results[y][x] = column[y];
    }
    for (std::int64_t y = 0; y < kResults; ++y) store_every_fourth(results[y], rows_[y]);
    copy_out(group, feature);
  }

 private:
  void copy_out(const Group& group, std::int64_t feature) {
    const std::int64_t left = group.first * kResults;
    const std::int64_t width = group.tiles * kResults;
    const std::int64_t length = left + width <= side_.width ? width : side_.width - left;
    for (std::int64_t row = 0; row < group.rows; ++row) {
      const std::int64_t number = group.row + row;
      float* const plane = data_ + number / tiling_.down * side_.image_stride + feature * side_.feature_stride;
      const std::int64_t top = number % tiling_.down * kResults;
      for (std::int64_t y = 0; y < kResults && top + y < side_.height; ++y)
        copy_run(plane + (top + y) * side_.row_stride + left, rows_[y] + row * width, length);
    }
  }

  const Tiling& tiling_;
  const WinogradSide& side_;
  float* data_;
  alignas(64) float rows_[kResults][4 * kLanes] = {};
};

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
