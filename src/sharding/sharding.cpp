// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

// The axis of a name, or of an index if no axis has this name.
AxisRef named_or_numbered(const Mesh& mesh, std::string_view text) {
  const bool is_negative = text.size() > 1 && text[0] == '-';
  int index = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool is_number = end == text.data() + text.size() && (code == std::errc() || is_negative);
  if (!is_number || mesh.has_axis(text)) return mesh.full_axis(text);
  require(index >= 0 && index < mesh.axis_count(), "{} has no axis number {}; its axes are numbered 0 to {}", mesh,
          text, mesh.axis_count() - 1);
  return mesh.full_axis(index);
}

// Parses `x` or `x:(2)3` for a mesh.
AxisRef axis_from_text(const Mesh& mesh, std::string_view text) {
  const auto colon = text.find(":(");
  if (colon == std::string_view::npos) return named_or_numbered(mesh, text);
  AxisRef ref = named_or_numbered(mesh, text.substr(0, colon));
  const auto axis_size = ref.size;
  const auto close = text.find(')', colon);
  require(close != std::string_view::npos, "part of an axis is written axis:(prefix)size, got \"{}\"", text);
  const auto pre = text.substr(colon + 2, close - colon - 2);
  const auto size = text.substr(close + 1);
  const auto read = [&](std::string_view digits, std::int64_t& out) {
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    require(code == std::errc() && end == digits.data() + digits.size() && out >= 1,
            "part of an axis is written axis:(prefix)size, got \"{}\"", text);
  };
  read(pre, ref.pre);
  read(size, ref.size);
  require(ref.pre <= axis_size && ref.size <= axis_size && axis_size % (ref.pre * ref.size) == 0,
          "\"{}\" is not a part of axis {} of size {}", text, at(mesh.axes(), ref.axis).name, axis_size);
  return ref;
}

std::string axes_text(const Mesh& mesh, const std::vector<AxisRef>& axes, std::string_view separator) {
  std::vector<std::string> names;
  for (const auto& axis : axes) names.push_back(mesh.axis_text(axis));
  return fmt::format("{}", fmt::join(names, separator));
}

std::size_t hash_axes(std::size_t seed, const std::vector<AxisRef>& axes) {
  for (const auto& axis : axes) {
    seed = hash_mix(seed, static_cast<std::size_t>(axis.axis) + 3);
    seed = hash_mix(hash_mix(seed, static_cast<std::size_t>(axis.pre)), static_cast<std::size_t>(axis.size));
  }
  return hash_mix(seed, axes.size());
}

}  // namespace

std::string_view reduction_name(Reduction reduction) {
  constexpr std::string_view kNames[] = {"sum", "product", "min", "max", "and", "or"};
  return kNames[static_cast<int>(reduction)];
}

int parse_priority(std::string_view text) {
  int value = -1;
  const auto* last = text.data() + text.size();
  const bool is_number = text.size() > 1 && text[0] == 'p' && text[1] != '-' && [&] {
    const auto [end, code] = std::from_chars(text.data() + 1, last, value);
    return code == std::errc() && end == last;
  }();
  require(is_number && value <= 1'000'000, "a priority is written p0, p1, ... p1000000, got \"{}\"", text);
  return value;
}

PartitionSpec PartitionSpec::parse(std::string_view text) {
  std::vector<Entry> entries;
  text = trim(text);
  // Accept the form that --explain prints.
  if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
  for (const auto& part : split(trim(text), ',')) {
    SpecEntry axes;
    auto entry = trim(part);
    std::optional<int> priority;
    if (const auto mark = entry.find('@'); mark != std::string_view::npos) {
      priority = parse_priority(trim(entry.substr(mark + 1)));
      entry = trim(entry.substr(0, mark));
    }
    const bool open = entry.ends_with('?');
    if (open) entry = trim(entry.substr(0, entry.size() - 1));
    if (entry != "-" && !entry.empty())
      for (const auto& axis : split(entry, '+')) axes.emplace_back(trim(axis));
    entries.emplace_back(std::move(axes), open);
    entries.back().priority = priority;
  }
  return PartitionSpec(std::move(entries));
}

std::string PartitionSpec::str() const {
  std::vector<std::string> parts;
  for (const auto& entry : entries_) {
    parts.push_back(entry.axes.empty() ? (entry.open ? "?" : "-")
                                       : fmt::format("{}{}", fmt::join(entry.axes, "+"), entry.open ? "?" : ""));
    if (entry.priority) parts.back() += fmt::format("@p{}", *entry.priority);
  }
  return fmt::format("{{{}}}", fmt::join(parts, ","));
}

Sharding Sharding::replicated(const Mesh& mesh, int ndim) {
  Sharding out;
  out.mesh = mesh;
  out.dims.resize(static_cast<std::size_t>(ndim));
  return out;
}

Sharding Sharding::from_spec(const Mesh& mesh, const PartitionSpec& spec, int ndim) {
  const int entries = isize(spec.entries());
  require(entries == ndim, "partition spec {} has {} {}, the tensor has {} dim{}; give one entry per dim", spec,
          entries, entries == 1 ? "entry" : "entries", ndim, ndim == 1 ? "" : "s");
  Sharding out = replicated(mesh, ndim);
  std::vector<AxisRef> used;
  for (int d = 0; d < ndim; ++d) {
    at(out.dims, d).open = at(spec.entries(), d).open;
    at(out.dims, d).priority = at(spec.entries(), d).priority;
    for (const auto& name : at(spec.entries(), d).axes) {
      AxisRef ref;
      try {
        ref = axis_from_text(mesh, name);
      } catch (Error& error) {
        throw error.prefix(fmt::format("partition spec {}: ", spec.str()));
      }
      require(!overlaps_any(used, ref),
              "partition spec {} uses axis \"{}\" of {} twice; an axis may shard only one dim", spec, name, mesh);
      used.push_back(ref);
      if (ref.size > 1) at(out.dims, d).axes.push_back(ref);
    }
  }
  return out;
}

Sharding Sharding::maximal(const Mesh& mesh, std::int64_t device) {
  require(device >= 0 && device < mesh.device_count(), "maximal device {} is not one of 0..{}", device,
          mesh.device_count() - 1);
  Sharding out;
  out.kind = Kind::kMaximal;
  out.mesh = mesh;
  out.device = device;
  return out;
}

Sharding Sharding::manual_everywhere(const Mesh& mesh) {
  Sharding out;
  out.kind = Kind::kManual;
  out.mesh = mesh;
  return out;
}

bool Sharding::is_replicated() const {
  return kind == Kind::kTiled && partial.empty() && manual.empty() &&
         std::all_of(dims.begin(), dims.end(), [](const DimSharding& dim) { return axes_size(dim.axes) == 1; });
}

std::vector<AxisRef> Sharding::used_axes() const {
  std::vector<AxisRef> out;
  for (const auto& dim : dims) out.insert(out.end(), dim.axes.begin(), dim.axes.end());
  out.insert(out.end(), partial.begin(), partial.end());
  out.insert(out.end(), manual.begin(), manual.end());
  return out;
}

Sharding Sharding::without_partial() const {
  Sharding out = *this;
  out.partial.clear();
  out.reduction = Reduction::kSum;
  return out;
}

Sharding Sharding::closed() const {
  Sharding out = *this;
  for (auto& dim : out.dims) {
    dim.open = false;
    dim.priority.reset();
  }
  return out;
}

std::string Sharding::str() const {
  if (kind == Kind::kMaximal) return fmt::format("{{maximal device={}}}", device);
  if (kind == Kind::kManual) return "{manual}";
  if (kind == Kind::kUnknown) return "{unknown}";
  std::vector<std::string> parts;
  for (const auto& dim : dims) {
    std::string text = dim.axes.empty() ? "-" : axes_text(mesh, dim.axes, "+");
    if (dim.open) text += "?";
    if (dim.priority) text += fmt::format("@p{}", *dim.priority);
    parts.push_back(text);
  }
  std::string text = fmt::format("{{{}}}", fmt::join(parts, ","));
  if (is_partial()) text += fmt::format(" partial {}{{{}}}", reduction_name(reduction), axes_text(mesh, partial, ","));
  if (!manual.empty()) text += fmt::format(" manual{{{}}}", axes_text(mesh, manual, ","));
  return text;
}

std::size_t Sharding::hash() const {
  std::size_t seed = hash_mix(mesh.hash(), static_cast<std::size_t>(kind));
  for (const auto& dim : dims)
    seed = hash_mix(hash_axes(seed, dim.axes),
                    (dim.open ? 1U : 0U) + (dim.priority ? 2U + static_cast<unsigned>(*dim.priority) : 0U));
  seed = hash_mix(hash_axes(hash_axes(seed, partial), manual), static_cast<std::size_t>(reduction));
  return hash_mix(seed, static_cast<std::size_t>(device));
}

ShardingRef make_sharding(Sharding sharding) {
  return std::make_shared<const Shardings>(Shardings{std::move(sharding)});
}
ShardingRef make_shardings(Shardings leaves) { return std::make_shared<const Shardings>(std::move(leaves)); }

bool same_shardings(const ShardingRef& a, const ShardingRef& b) { return a == b || (a && b && *a == *b); }

}  // namespace tessera
