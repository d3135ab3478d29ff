// SPDX-License-Identifier: Apache-2.0
// Pictures of shardings for terminals.
#include "tessera/sharding/visualize.h"

#include <algorithm>
#include <cctype>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tile_grid.h"

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

// An empty tile has no colour.
std::string cell_text(const std::string& label, int width, int device, bool in_color) {
  const int left = (width - isize(label)) / 2;
  std::string text = repeat(" ", left) + label + repeat(" ", width - left - isize(label));
  constexpr int kFirstBackground = 41;
  constexpr int kBackgrounds = 6;
  if (!in_color || device == kNoDevice) return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", kFirstBackground + device % kBackgrounds, text);
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
        out += cell_text(middle ? label : "", width, grid.first_devices[row][c], options.color) + "│";
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

namespace {

std::int64_t device_count_of(const HloSharding& leaf) {
  std::int64_t count = std::max<std::int64_t>(isize(leaf.devices), leaf.device + 1);
  return std::max<std::int64_t>(count, 1);
}

// The number of dims of the array: a list of devices may have subgroup dims after them.
int data_dims(const HloSharding& leaf) { return isize(leaf.tile_dims) - isize(leaf.subgroup_types); }

Sharding tiled_sharding(const HloSharding& leaf, std::string_view text) {
  const auto mesh = common_mesh({leaf}, device_count_of(leaf));
  const auto sharding = mesh ? to_axes(leaf, *mesh, data_dims(leaf)) : std::nullopt;
  require(sharding.has_value(), "sharding {} cannot be drawn", text);
  return *sharding;
}

HloSharding only_leaf(std::string_view text) {
  auto leaves = parse_hlo_sharding(text);
  require(leaves.size() == 1, "sharding {} is a tuple; give the sharding of one array", text);
  return std::move(leaves.front());
}

bool is_hlo_text(std::string_view text) {
  if (!text.starts_with('{')) return false;
  const std::string_view content = trim(text.substr(1));
  for (const std::string_view word : {"devices=", "replicated", "maximal", "manual", "unknown", "unreduced", "{"})
    if (content.starts_with(word)) return true;
  return false;
}

Type type_of_shape(std::string_view shape) {
  const auto open = shape.find('[');
  const bool is_typed = open != std::string_view::npos && shape.ends_with(']');
  const std::string_view sizes = is_typed ? shape.substr(open + 1, shape.size() - open - 2) : shape;
  const auto dtype = is_typed ? dtype_from_name(shape.substr(0, open)) : DType::kF32;
  Dims dims;
  for (const auto& size : split(sizes, ',')) {
    const std::string_view digits = trim(size);
    if (digits.empty() && sizes.empty()) break;
    const bool is_number =
        !digits.empty() && digits.size() < 16 &&
        std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    require(is_number, "shape \"{}\": expected f32[8,16] or 8,16", shape);
    dims.push_back(std::stoll(std::string(digits)));
  }
  return Type::array(dtype, std::move(dims));
}

}  // namespace

std::string visualize_sharding(std::string_view hlo_sharding, const VisualizeOptions& options) {
  const HloSharding leaf = only_leaf(hlo_sharding);
  if (leaf.kind == HloSharding::Kind::kReplicated || leaf.kind == HloSharding::Kind::kMaximal) {
    TileGrid grid;
    const bool is_all = leaf.kind == HloSharding::Kind::kReplicated;
    grid.labels = {{is_all ? "all" : std::to_string(leaf.device)}};
    grid.first_devices = {{is_all ? 0 : static_cast<int>(leaf.device)}};
    return picture(grid, options);
  }
  require(leaf.kind == HloSharding::Kind::kTiled, "only tilings can be drawn, got {}", hlo_sharding);
  const Dims dims(leaf.tile_dims.begin(), leaf.tile_dims.begin() + data_dims(leaf));
  return visualize_sharding(Type::array(DType::kF32, dims), tiled_sharding(leaf, hlo_sharding), options);
}

ShardedType read_sharded_type(std::string_view shape, std::string_view sharding, std::string_view mesh) {
  const Type type = type_of_shape(trim(shape));
  const std::string_view text = trim(sharding);
  if (!is_hlo_text(text)) {
    require(!mesh.empty(), "the spec {} needs a mesh, such as data=2,model=4", text);
    return {type, Sharding::from_spec(Mesh::parse(mesh), PartitionSpec::parse(text), type.ndim())};
  }
  const HloSharding leaf = only_leaf(text);
  const bool is_tiled = leaf.kind == HloSharding::Kind::kTiled;
  require(is_tiled || leaf.kind == HloSharding::Kind::kReplicated, "only tilings can be drawn, got {}", text);
  if (!is_tiled) return {type, Sharding::replicated(mesh.empty() ? Mesh() : Mesh::parse(mesh), type.ndim())};
  require(data_dims(leaf) == type.ndim(), "sharding {} is for {} dims, but {} has {}", text, data_dims(leaf), type,
          type.ndim());
  return {type, tiled_sharding(leaf, text)};
}

}  // namespace tessera
