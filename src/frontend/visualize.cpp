// SPDX-License-Identifier: Apache-2.0
// Pictures of shardings for terminals:
//
//   ┌────────────┬────────────┐
//   │    0, 1    │    2, 3    │
//   └────────────┴────────────┘
#include <algorithm>
#include <map>

#include "execute.h"
#include "tessera/base/text.h"
#include "tessera/frontend/mark_sharding.h"

namespace tessera {
namespace {

// The devices that hold tile (row, column).
std::vector<std::vector<std::string>> tile_labels(const Sharding& sharding, int ndim) {
  const auto rows = ndim == 2 ? sharding.tiles(0) : 1;
  const auto columns = ndim == 0 ? 1 : sharding.tiles(ndim - 1);
  std::vector<std::vector<std::vector<std::int64_t>>> devices(
      static_cast<std::size_t>(rows), std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(columns)));
  for (std::int64_t position = 0; position < sharding.mesh.device_count(); ++position) {
    const auto row = ndim == 2 ? sharding.mesh.coordinate(position, sharding.dims[0].axes) : 0;
    const auto column = ndim == 0 ? 0 : sharding.mesh.coordinate(position, at(sharding.dims, ndim - 1).axes);
    at(at(devices, row), column).push_back(sharding.mesh.device_at(position));
  }
  std::vector<std::vector<std::string>> labels;
  for (auto& row : devices) {
    auto& line = labels.emplace_back();
    for (auto& cell : row) {
      std::sort(cell.begin(), cell.end());
      line.push_back(join(cell, ","));
    }
  }
  return labels;
}

std::string repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

std::string border(std::string_view left, std::string_view middle, std::string_view right, std::size_t columns,
                   int width) {
  std::string out(left);
  for (std::size_t c = 0; c < columns; ++c) out += repeat("─", width) + std::string(c + 1 == columns ? right : middle);
  return out + "\n";
}

std::string cell_text(const std::string& label, int width, int color, bool in_color) {
  const int left = (width - isize(label)) / 2;
  std::string text = repeat(" ", left) + label + repeat(" ", width - left - isize(label));
  constexpr int kFirstBackground = 41;
  constexpr int kBackgrounds = 6;
  return in_color ? fmt::format("\x1b[{}m{}\x1b[0m", kFirstBackground + color % kBackgrounds, text) : text;
}

}  // namespace

std::string visualize_sharding(const Type& type, const Sharding& sharding, const VisualizeOptions& options) {
  require(type.is_array() && type.ndim() <= 2, "only tensors of at most 2 dims can be drawn, got {}", type);
  require(sharding.is_tiled(), "only tilings can be drawn, got {}", sharding);
  const auto labels = tile_labels(sharding, type.ndim());
  int width = options.cell_width;
  for (const auto& row : labels)
    for (const auto& label : row) width = std::max(width, isize(label) + 2);
  const std::size_t columns = labels.front().size();
  std::string out = border("┌", "┬", "┐", columns, width);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    for (int line = 0; line < options.cell_height; ++line) {
      out += "│";
      for (std::size_t c = 0; c < columns; ++c) {
        const bool middle = line == options.cell_height / 2;
        out += cell_text(middle ? labels[row][c] : "", width, static_cast<int>(row * columns + c), options.color) + "│";
      }
      out += "\n";
    }
    out += row + 1 == labels.size() ? border("└", "┴", "┘", columns, width) : border("├", "┼", "┤", columns, width);
  }
  return out;
}

std::string visualize_sharding(const Tensor& tensor, const VisualizeOptions& options) {
  return visualize_sharding(tensor.type(), storage_of(*tensor.impl().node), options);
}

}  // namespace tessera
