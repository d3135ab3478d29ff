// SPDX-License-Identifier: Apache-2.0
// Meshes as in PyTorch/XLA: from device ids and a shape.
#include <fmt/format.h>

#include <charconv>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/mesh.h"
#include "tessera/sharding/sharding.h"

namespace tessera {
namespace {

std::vector<MeshAxis> axes_of_shape(const std::vector<std::int64_t>& shape, std::vector<std::string> names) {
  require(names.empty() || names.size() == shape.size(), "the mesh shape [{}] has {} axes, but {} names are given: {}",
          fmt::join(shape, ","), shape.size(), names.size(), fmt::join(names, ", "));
  std::vector<MeshAxis> axes;
  for (int i = 0; i < isize(shape); ++i)
    axes.push_back({names.empty() ? std::to_string(i) : at(names, i), at(shape, i)});
  return axes;
}

const std::vector<std::int64_t>& checked_ids(const std::vector<std::int64_t>& ids,
                                             const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const auto size : shape)
    require(size >= 1 && !__builtin_mul_overflow(product, size, &product),
            "the mesh shape [{}] is not valid: each size must be at least 1", fmt::join(shape, ","));
  require(product == isize(ids), "the mesh shape [{}] needs {} devices, but {} device ids are given",
          fmt::join(shape, ","), product, ids.size());
  return ids;
}

std::int64_t device_id(std::string_view mesh, std::string_view text) {
  std::int64_t id = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), id);
  require(code == std::errc() && end == text.data() + text.size(), "mesh \"{}\": \"{}\" is not a device id", mesh,
          text);
  return id;
}

}  // namespace

Mesh::Mesh(const std::vector<std::int64_t>& device_ids, const std::vector<std::int64_t>& mesh_shape,
           std::vector<std::string> axis_names)
    : Mesh(axes_of_shape(mesh_shape, std::move(axis_names)), checked_ids(device_ids, mesh_shape)) {}

std::vector<std::int64_t> Mesh::get_logical_mesh() const {
  std::vector<std::int64_t> out;
  for (std::int64_t position = 0; position < device_count(); ++position) out.push_back(device_at(position));
  return out;
}

std::string Mesh::get_op_sharding(const PartitionSpec& spec) const {
  return hlo_sharding_text(Sharding::from_spec(*this, spec, isize(spec.entries())));
}

Mesh Mesh::from_str(std::string_view text) {
  const std::string_view all = trim(text);
  constexpr std::string_view kStart = "mesh<";
  constexpr std::string_view kDevices = " devices=[";
  if (!all.starts_with(kStart)) return parse(all);
  const auto end = all.find('>');
  require(end != std::string_view::npos, "mesh \"{}\": expected mesh<axis=size, …>", text);
  Mesh plain = parse(all.substr(kStart.size(), end - kStart.size()));
  const auto rest = all.substr(end + 1);
  if (rest.empty()) return plain;
  require(rest.starts_with(kDevices) && rest.ends_with(']'),
          "mesh \"{}\": expected nothing or a list devices=[..] after mesh<…>", text);
  std::vector<std::int64_t> ids;
  for (const auto& id : split(rest.substr(kDevices.size(), rest.size() - kDevices.size() - 1), ','))
    ids.push_back(device_id(text, trim(id)));
  return Mesh(plain.axes(), std::move(ids));
}

}  // namespace tessera
