// SPDX-License-Identifier: Apache-2.0
// Pictures of shardings for documents.
#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/sharding/visualize.h"
#include "tile_grid.h"

namespace tessera {
namespace {

constexpr int kCellHeight = 48;
constexpr int kMargin = 64;  // room for the intervals of the dims
constexpr int kLine = 20;

// Returns the colour of a device. The hues advance by the golden angle, so that neighbours differ. Empty tiles have no
// colour.
std::string colour(int device) {
  if (device == kNoDevice) return "none";
  constexpr double kGoldenAngle = 137.508;
  return fmt::format("hsl({:.0f},60%,80%)", std::fmod(device * kGoldenAngle, 360.0));
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string text_at(int x, int y, const std::string& text, int size = 14) {
  return fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"middle\">{}</text>\n", x, y, size,
                     escaped(text));
}

std::string interval_text(const Interval& interval) {
  return interval.limit == interval.start ? "" : fmt::format("{}:{}", interval.start, interval.limit);
}

std::string grid_svg(const TileGrid& grid, int cell_width, int top) {
  std::string out;
  const int rows = isize(grid.labels), columns = isize(grid.labels.front());
  if (!grid.title.empty()) out += text_at(kMargin / 2, top + kLine, grid.title);
  for (int c = 0; c < columns; ++c)
    out += text_at(kMargin + c * cell_width + cell_width / 2, top + kLine, interval_text(at(grid.columns, c)), 11);
  for (int r = 0; r < rows; ++r) {
    const int y = top + kLine + kLine / 2 + r * kCellHeight;
    out += text_at(kMargin / 2, y + kCellHeight / 2 + 4, interval_text(at(grid.rows, r)), 11);
    for (int c = 0; c < columns; ++c) {
      const int x = kMargin + c * cell_width;
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#333\"/>\n", x, y,
                         cell_width, kCellHeight, colour(at(at(grid.first_devices, r), c)));
      out += text_at(x + cell_width / 2, y + kCellHeight / 2 + 5, at(at(grid.labels, r), c));
    }
  }
  return out;
}

}  // namespace

std::string sharding_svg(const Type& type, const Sharding& sharding) {
  const auto grids = tile_grids(type, sharding);
  int longest = 0;
  for (const auto& grid : grids)
    for (const auto& row : grid.labels)
      for (const auto& label : row) longest = std::max(longest, isize(label));
  constexpr int kCharacter = 9;
  const int cell_width = std::max(72, longest * kCharacter + 16);
  const int height = isize(grids.front().labels) * kCellHeight + 2 * kLine;
  const std::string title = fmt::format("{} {}", type.str(), sharding.str());
  const int width =
      std::max(kMargin + isize(grids.front().labels.front()) * cell_width, isize(title) * kCharacter) + kLine;
  std::string body = text_at(width / 2, kLine, title);
  for (int g = 0; g < isize(grids); ++g) body += grid_svg(at(grids, g), cell_width, kLine + g * height);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\">\n{2}</svg>\n",
      width, kLine + isize(grids) * height + kLine, body);
}

}  // namespace tessera
