// SPDX-License-Identifier: Apache-2.0
// Pictures of shardings for terminals:
//
//   ┌────────────┬────────────┐
//   │    0, 1    │    2, 3    │
//   └────────────┴────────────┘
#include <algorithm>

#include "execution/execute.h"
#include "sharding/tile_grid.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera {
namespace {

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

std::string picture(const TileGrid& grid, const VisualizeOptions& options) {
  int width = options.cell_width;
  for (const auto& row : grid.labels)
    for (const auto& label : row) width = std::max(width, isize(label) + 2);
  const std::size_t columns = grid.labels.front().size();
  std::string out = border("┌", "┬", "┐", columns, width);
  for (std::size_t row = 0; row < grid.labels.size(); ++row) {
    for (int line = 0; line < options.cell_height; ++line) {
      out += "│";
      for (std::size_t c = 0; c < columns; ++c) {
        const bool middle = line == options.cell_height / 2;
        const std::string& label = grid.labels[row][c];
        out += cell_text(middle ? label : "", width, static_cast<int>(row * columns + c), options.color) + "│";
      }
      out += "\n";
    }
    out +=
        row + 1 == grid.labels.size() ? border("└", "┴", "┘", columns, width) : border("├", "┼", "┤", columns, width);
  }
  return out;
}

}  // namespace

std::string visualize_sharding(const Type& type, const Sharding& sharding, const VisualizeOptions& options) {
  std::string out;
  for (const TileGrid& grid : tile_grids(type, sharding)) {
    if (!grid.title.empty()) out += grid.title + "\n";
    out += picture(grid, options);
  }
  return out;
}

std::string visualize_sharding(const Tensor& tensor, const VisualizeOptions& options) {
  return visualize_sharding(tensor.type(), storage_of(*tensor.impl().node), options);
}

}  // namespace tessera
