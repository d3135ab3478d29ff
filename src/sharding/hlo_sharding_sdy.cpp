// SPDX-License-Identifier: Apache-2.0
// Reads and writes Shardy's texts of shardings and meshes, which contain names, sub-axes, open dims and priorities.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/base/text_cursor.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tile_digits.h"

namespace tessera {
namespace {

// ---- writing --------------------------------------------------------------------------------------------------------

bool is_plain_symbol(std::string_view name) {
  TextCursor cursor(name);
  return !name.empty() && cursor.peek_identifier() == name && name.find('-') == std::string_view::npos;
}

std::string symbol_text(const std::string& name) { return is_plain_symbol(name) ? name : quote(name); }

std::string axis_text(const Mesh& mesh, const AxisRef& ref) {
  const auto& axis = at(mesh.axes(), ref.axis);
  std::string text = quote(axis.name);
  if (ref.pre != 1 || ref.size != axis.size) text += fmt::format(":({}){}", ref.pre, ref.size);
  return text;
}

std::vector<std::string> axes_texts(const Mesh& mesh, const std::vector<AxisRef>& axes) {
  std::vector<std::string> out;
  for (const auto& axis : axes) out.push_back(axis_text(mesh, axis));
  return out;
}

// `<@mesh, [{"x", ?}p1, {}], unreduced={"y"}>`
std::string body_text(const Sharding& sharding) {
  const std::string mesh = "<@" + symbol_text(sharding.mesh.name());
  switch (sharding.kind) {
    case Sharding::Kind::kMaximal: return fmt::format("{}, maximal={}>", mesh, sharding.device);
    case Sharding::Kind::kManual: return mesh + ", manual>";
    case Sharding::Kind::kUnknown: return mesh + ", unknown>";
    case Sharding::Kind::kTiled: break;
  }
  std::vector<std::string> dims;
  for (const auto& dim : sharding.dims) {
    auto parts = axes_texts(sharding.mesh, dim.axes);
    if (dim.open) parts.emplace_back("?");
    dims.push_back(fmt::format("{{{}}}", fmt::join(parts, ", ")));
    if (dim.priority) dims.back() += fmt::format("p{}", *dim.priority);
  }
  std::string out = fmt::format("{}, [{}]", mesh, fmt::join(dims, ", "));
  if (sharding.is_partial() || sharding.reduction != Reduction::kSum)
    out += fmt::format(", unreduced={}{{{}}}",
                       sharding.reduction == Reduction::kSum ? "" : reduction_name(sharding.reduction),
                       fmt::join(axes_texts(sharding.mesh, sharding.partial), ", "));
  if (!sharding.manual.empty())
    out += fmt::format(", manual={{{}}}", fmt::join(axes_texts(sharding.mesh, sharding.manual), ", "));
  return out + ">";
}

// ---- reading --------------------------------------------------------------------------------------------------------

// Some writers escape the quotes twice: `[{\"x\"}]`.
std::string without_escaped_quotes(std::string_view text) {
  const auto first = text.find('"');
  if (first == std::string_view::npos || first == 0 || text[first - 1] != '\\') return std::string(text);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '"') continue;
    out += text[i];
  }
  return out;
}

std::string read_symbol(TextCursor& in, std::string_view what) {
  return in.peek() == '"' ? in.quoted(what) : std::string(in.identifier(what));
}

class ShardingReader {
 public:
  ShardingReader(TextCursor& in, const std::vector<Mesh>& meshes) : in_(in), meshes_(meshes) {}

  // Reads `<@mesh, [..], ..>` or `<mesh<["x"=2]>, ..>`.
  Sharding read() {
    in_.expect("<", "before the sharding");
    if (in_.take("@")) {
      if (read_named_mesh()) return std::move(out_);
    } else {
      if (!in_.take_word("mesh")) in_.fail_expected("@ and a mesh");
      out_.mesh = *read_mesh_body("mesh");
    }
    in_.expect(",", "after the mesh");
    if (in_.take("[")) {
      if (!in_.take("]")) {
        do {
          read_dim();
        } while (in_.take(","));
        in_.expect("]", "after the dims");
      }
      while (in_.take(",")) read_axes_group();
    } else {
      read_other_kind();
    }
    in_.expect(">", "after the sharding");
    std::sort(out_.partial.begin(), out_.partial.end());
    std::sort(out_.manual.begin(), out_.manual.end());
    return std::move(out_);
  }

  // Reads `<["x"=2, "y"=4], device_ids=[..]>`; null for a maximal mesh (no axes, one device), which defines no axes.
  std::optional<Mesh> read_mesh_body(const std::string& name) {
    in_.expect("<", "before the axes");
    in_.expect("[", "before the axes");
    std::vector<MeshAxis> axes;
    if (!in_.take("]")) {
      do {
        auto axis = in_.quoted("the name of an axis in quotes");
        in_.expect("=", "after the name of an axis");
        axes.push_back({std::move(axis), in_.integer("the size of an axis")});
      } while (in_.take(","));
      in_.expect("]", "after the axes");
    }
    std::vector<std::int64_t> order;
    if (in_.take(",")) {
      if (!in_.take_word("device_ids")) in_.fail_expected("device_ids");
      in_.expect("=", "after device_ids");
      in_.expect("[", "before the device numbers");
      if (!in_.take("]")) {
        do {
          order.push_back(in_.integer("a device number"));
        } while (in_.take(","));
        in_.expect("]", "after the device numbers");
      }
    }
    in_.expect(">", "after the mesh");
    if (axes.empty() && !order.empty()) return std::nullopt;
    std::int64_t count = 1;
    for (const auto& axis : axes) {
      require(axis.size <= kMostDevices && count * axis.size <= kMostDevices, "mesh @{} has more than 2^20 devices",
              name);
      count *= std::max<std::int64_t>(axis.size, 1);
    }
    return Mesh(std::move(axes), std::move(order), name);
  }

 private:
  // Returns true if the mesh is Shardy's maximal one, which completes the sharding.
  bool read_named_mesh() {
    in_.skip_blanks();
    const auto place = in_.position();
    const auto name = read_symbol(in_, "the name of a mesh");
    const auto found =
        std::find_if(meshes_.begin(), meshes_.end(), [&](const Mesh& mesh) { return mesh.name() == name; });
    if (found != meshes_.end()) {
      out_.mesh = *found;
      return false;
    }
    constexpr std::string_view kMaximal = "maximal_mesh_";
    if (name.starts_with(kMaximal)) {
      TextCursor number(std::string_view(name).substr(kMaximal.size()));
      out_ =
          Sharding::maximal(meshes_.empty() ? Mesh() : meshes_.front(), number.integer("the device of a maximal mesh"));
      in_.expect(",", "after the mesh");
      in_.expect("[", "after a maximal mesh");
      in_.expect("]", "after a maximal mesh");
      in_.expect(">", "after the sharding");
      return true;
    }
    std::vector<std::string> known;
    for (const auto& mesh : meshes_) known.push_back(mesh.name());
    in_.fail_at(place, fmt::format("unknown mesh \"{}\"{}", name, suggest_name(name, known)));
  }

  AxisRef read_axis() {
    in_.skip_blanks();
    const auto place = in_.position();
    const auto name = in_.quoted("an axis in quotes");
    AxisRef ref = out_.mesh.full_axis(name);
    const auto axis_size = ref.size;
    if (in_.take(":(")) {
      ref.pre = in_.integer("the prefix of the sub-axis");
      in_.expect(")", "after the prefix of the sub-axis");
      ref.size = in_.integer("the size of the sub-axis");
      if (ref.pre < 1 || ref.size < 1 || ref.pre > axis_size || ref.size > axis_size ||
          axis_size % (ref.pre * ref.size) != 0)
        in_.fail_at(place, fmt::format("\"{}\":({}){} is not a part of an axis of size {}", name, ref.pre, ref.size,
                                       axis_size));
    }
    if (overlaps_any(used_, ref)) in_.fail_at(place, fmt::format("axis \"{}\" is used twice", name));
    used_.push_back(ref);
    return ref;
  }

  void read_dim() {
    auto& dim = out_.dims.emplace_back();
    in_.expect("{", "before a dim");
    while (!in_.take("}")) {
      if (in_.take("?")) {
        dim.open = true;
        in_.expect("}", "after ?");
        break;
      }
      dim.axes.push_back(read_axis());
      if (!in_.next_is("}")) in_.expect(",", "between axes");
    }
    const auto word = in_.peek_identifier();
    if (word.empty() || word.front() != 'p') return;
    in_.take("p");
    const auto place = in_.position();
    const auto priority = in_.integer("a priority");
    if (priority < 0 || priority > 1'000'000) in_.fail_at(place, "a priority is between 0 and 1000000");
    dim.priority = static_cast<int>(priority);
  }

  // Reads `replicated={..}` (ignored), `unreduced=max{..}`, `manual={..}`.
  void read_axes_group() {
    in_.skip_blanks();
    const auto place = in_.position();
    const auto word = std::string(in_.identifier("replicated, unreduced or manual"));
    if (word != "replicated" && word != "unreduced" && word != "manual")
      in_.fail_at(place, fmt::format("expected replicated, unreduced or manual, got \"{}\"", word));
    in_.expect("=", fmt::format("after {}", word));
    if (word == "unreduced") read_reduction();
    std::vector<AxisRef> axes;
    in_.expect("{", "before the axes");
    while (!in_.take("}")) {
      axes.push_back(read_axis());
      if (!in_.next_is("}")) in_.expect(",", "between axes");
    }
    if (word == "unreduced")
      out_.partial = std::move(axes);
    else if (word == "manual")
      out_.manual = std::move(axes);
  }

  void read_reduction() {
    in_.skip_blanks();
    const auto place = in_.position();
    const auto word = in_.peek_identifier();
    if (word.empty()) return;
    in_.seek(place + word.size());
    std::vector<std::string> known;
    for (int r = 0; r <= static_cast<int>(Reduction::kOr); ++r) {
      const auto reduction = static_cast<Reduction>(r);
      known.emplace_back(reduction_name(reduction));
      if (reduction_name(reduction) != word) continue;
      out_.reduction = reduction;
      return;
    }
    in_.fail_at(place, fmt::format("unknown reduction \"{}\"{}", word, suggest_name(word, known)));
  }

  void read_other_kind() {
    if (in_.take_word("maximal")) {
      in_.expect("=", "after maximal");
      out_ = Sharding::maximal(out_.mesh, in_.integer("a device number"));
    } else if (in_.take_word("manual")) {
      out_.kind = Sharding::Kind::kManual;
    } else if (in_.take_word("unknown")) {
      out_.kind = Sharding::Kind::kUnknown;
    } else {
      in_.fail_expected("the dims in [..]");
    }
  }

  TextCursor& in_;
  const std::vector<Mesh>& meshes_;
  Sharding out_;
  std::vector<AxisRef> used_;
};

}  // namespace

bool is_sdy_spelling(const Shardings& leaves) {
  return std::all_of(leaves.begin(), leaves.end(), [](const Sharding& leaf) {
    return leaf.is_tiled() && leaf.manual.empty() && leaf.reduction == Reduction::kSum;
  });
}

std::string sdy_sharding_text(const Sharding& sharding) { return "#sdy.sharding" + body_text(sharding); }

std::string sdy_shardings_text(const Shardings& leaves) {
  std::vector<std::string> parts;
  for (const auto& leaf : leaves) parts.push_back(body_text(leaf));
  return fmt::format("#sdy.sharding_per_value<[{}]>", fmt::join(parts, ", "));
}

std::vector<Sharding> parse_sdy_shardings(std::string_view text, const std::vector<Mesh>& meshes) {
  const std::string plain = without_escaped_quotes(text);
  TextCursor in(plain);
  std::vector<Sharding> out;
  try {
    if (in.take("#sdy.sharding_per_value<")) {
      in.expect("[", "before the shardings");
      if (!in.take("]")) {
        do {
          in.take("#sdy.sharding");
          out.push_back(ShardingReader(in, meshes).read());
        } while (in.take(","));
        in.expect("]", "after the shardings");
      }
      in.expect(">", "after the shardings");
    } else {
      in.expect("#sdy.sharding", "before a sharding");
      out.push_back(ShardingReader(in, meshes).read());
    }
    if (!in.at_end()) in.fail_expected("the end of the sharding");
  } catch (Error& error) {
    throw error.prefix("sharding: ");
  }
  return out;
}

std::string sdy_meshes_text(const std::vector<Mesh>& meshes) {
  std::vector<std::string> parts;
  for (const auto& mesh : meshes) {
    std::vector<std::string> axes;
    for (const auto& axis : mesh.axes()) axes.push_back(fmt::format("{}={}", quote(axis.name), axis.size));
    std::string order;
    if (!mesh.device_order().empty()) order = fmt::format(", device_ids=[{}]", fmt::join(mesh.device_order(), ", "));
    parts.push_back(fmt::format("{} = #sdy.mesh<[{}]{}>", symbol_text(mesh.name()), fmt::join(axes, ", "), order));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::vector<Mesh> parse_sdy_meshes(std::string_view text) {
  const std::string plain = without_escaped_quotes(text);
  TextCursor in(plain);
  std::vector<Mesh> out;
  try {
    in.expect("{", "before the meshes");
    if (!in.take("}")) {
      do {
        const auto name = read_symbol(in, "the name of a mesh");
        in.expect("=", "after the name of a mesh");
        in.expect("#sdy.mesh", "before a mesh");
        if (auto mesh = ShardingReader(in, {}).read_mesh_body(name)) out.push_back(std::move(*mesh));
      } while (in.take(","));
      in.expect("}", "after the meshes");
    }
    if (!in.at_end()) in.fail_expected("the end of the meshes");
  } catch (Error& error) {
    throw error.prefix("meshes: ");
  }
  return out;
}

}  // namespace tessera
