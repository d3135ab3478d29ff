// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/sharding/mesh_text.h"

namespace tessera {

struct Mesh::Node {
  std::string name = "mesh";
  std::vector<MeshAxis> axes;
  std::vector<std::int64_t> device_order;  // empty for 0, 1, 2, …
  std::vector<std::int64_t> position_of;   // inverse of device_order
  std::vector<std::int64_t> strides;       // of each axis within a position
  std::int64_t device_count = 1;
  std::size_t hash = 0;
};

namespace {

std::vector<std::string> axis_names(const std::vector<MeshAxis>& axes) {
  std::vector<std::string> names;
  for (const auto& axis : axes) names.push_back(axis.name);
  return names;
}

void check_names(const std::vector<MeshAxis>& axes) {
  auto names = axis_names(axes);
  for (const auto& name : names) require(!name.empty(), "a mesh axis needs a name");
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  require(twice == names.end(), "mesh axis \"{}\" is named twice", twice == names.end() ? "" : *twice);
}

void check_axes(const std::vector<MeshAxis>& axes) {
  check_names(axes);
  for (const auto& axis : axes)
    require(axis.size >= 1, "mesh axis \"{}\" has size {}; it must be at least 1", axis.name, axis.size);
}

// Names from HLO's text are arbitrary; names that users type must be valid in specs.
void check_is_for_specs(std::string_view mesh, const std::string& name) {
  const auto place = name.find_first_of("+@?:{}\"");
  require(place == std::string::npos && name != "-",
          "mesh \"{}\": an axis cannot be named \"{}\": '{}' means something else in partition specs", mesh, name,
          place == std::string::npos ? '-' : name[place]);
}

}  // namespace

Mesh::Mesh() : Mesh(std::vector<MeshAxis>{}) {}

Mesh::Mesh(std::vector<MeshAxis> axes, std::vector<std::int64_t> device_order, std::string name) {
  check_axes(axes);
  auto node = std::make_shared<Node>();
  node->strides.resize(axes.size());
  for (int i = isize(axes) - 1; i >= 0; --i) {
    at(node->strides, i) = node->device_count;
    require(!__builtin_mul_overflow(node->device_count, at(axes, i).size, &node->device_count),
            "the mesh has more devices than 64 bits can count");
    node->hash =
        hash_mix(hash_mix(node->hash, hash_text(at(axes, i).name)), static_cast<std::size_t>(at(axes, i).size));
  }
  if (!device_order.empty()) {
    require(isize(device_order) == node->device_count, "the device order has {} entries, the mesh {} devices",
            device_order.size(), node->device_count);
    node->position_of.assign(device_order.size(), -1);
    bool identity = true;
    for (int p = 0; p < isize(device_order); ++p) {
      const auto device = at(device_order, p);
      require(device >= 0 && device < node->device_count, "device {} is not one of 0..{}", device,
              node->device_count - 1);
      require(at(node->position_of, device) < 0, "device {} occurs twice in the device order", device);
      at(node->position_of, device) = p;
      identity = identity && device == p;
      node->hash = hash_mix(node->hash, static_cast<std::size_t>(device));
    }
    if (identity) node->position_of.clear();
    if (!identity) node->device_order = std::move(device_order);
  }
  if (node->device_order.empty()) {  // an identity order has the same hash as none
    node->hash = 0;
    for (const auto& axis : axes)
      node->hash = hash_mix(hash_mix(node->hash, hash_text(axis.name)), static_cast<std::size_t>(axis.size));
  }
  node->axes = std::move(axes);
  node->name = std::move(name);
  node_ = std::move(node);
}

namespace {

constexpr std::int64_t kMostOfMesh = std::int64_t{1} << 20;

// Parses `data=2`; `mesh` is the complete text.
MeshAxis parse_axis(std::string_view mesh, std::string_view part) {
  const auto equals = part.find('=');
  require(equals != std::string::npos, "mesh \"{}\": expected axis=size, as in data=2, got \"{}\"", mesh, part);
  MeshAxis axis{std::string(trim(part.substr(0, equals))), 0};
  check_is_for_specs(mesh, axis.name);
  const auto number = trim(part.substr(equals + 1));
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), axis.size);
  require(code == std::errc() && end == number.data() + number.size() && (axis.size >= 1 || axis.size == -1),
          "mesh \"{}\": size of axis \"{}\" must be a positive number or -1, got \"{}\"", mesh, axis.name, number);
  return axis;
}

// The product of the sizes that the text gives.
std::int64_t given_devices(std::string_view mesh, const std::vector<MeshAxis>& axes) {
  std::int64_t product = 1;
  for (const auto& axis : axes)
    require(axis.size == -1 || !__builtin_mul_overflow(product, axis.size, &product), "mesh \"{}\": too many devices",
            mesh);
  require(product <= kMostOfMesh, "mesh \"{}\" has {} devices, more than 2^20", mesh, product);
  return product;
}

}  // namespace

std::vector<MeshAxis> mesh_axes(std::string_view text) {
  std::vector<MeshAxis> axes;
  for (const auto& part : split(text, ',')) axes.push_back(parse_axis(text, part));
  require(!axes.empty(), "mesh \"{}\" has no axes; write for example data=2,model=2", text);
  const auto open = std::count_if(axes.begin(), axes.end(), [](const MeshAxis& axis) { return axis.size == -1; });
  require(open <= 1, "mesh \"{}\": only one axis may be -1", text);
  (void)given_devices(text, axes);
  check_names(axes);
  return axes;
}

Mesh Mesh::parse(std::string_view text, std::int64_t device_count) {
  std::vector<MeshAxis> axes = mesh_axes(text);
  std::int64_t known = given_devices(text, axes);
  const auto open = std::find_if(axes.begin(), axes.end(), [](const MeshAxis& axis) { return axis.size == -1; });
  if (open != axes.end()) {
    require(device_count > 0, "mesh \"{}\": -1 needs the number of devices, which is not given", text);
    require(device_count % known == 0,
            "mesh \"{}\": {} devices are not a multiple of {}, the product of the other axes", text, device_count,
            known);
    open->size = device_count / known;
    known = device_count;
  }
  require(device_count == 0 || known == device_count,
          "mesh \"{}\" has {} device{}; its axes must multiply to {}, the number of devices (ranks)", text, known,
          known == 1 ? "" : "s", device_count);
  require(known <= kMostOfMesh, "mesh \"{}\" has {} devices, more than 2^20", text, known);
  return Mesh(std::move(axes));
}

const std::string& Mesh::name() const { return node_->name; }
const std::vector<MeshAxis>& Mesh::axes() const { return node_->axes; }
int Mesh::axis_count() const { return isize(node_->axes); }
std::int64_t Mesh::device_count() const { return node_->device_count; }
const std::vector<std::int64_t>& Mesh::device_order() const { return node_->device_order; }

std::int64_t Mesh::device_at(std::int64_t position) const {
  return node_->device_order.empty() ? position : at(node_->device_order, position);
}
std::int64_t Mesh::position_of(std::int64_t device) const {
  return node_->position_of.empty() ? device : at(node_->position_of, device);
}

bool Mesh::has_axis(std::string_view name) const {
  return std::any_of(axes().begin(), axes().end(), [&](const MeshAxis& axis) { return axis.name == name; });
}

int Mesh::axis_index(std::string_view name) const {
  for (int i = 0; i < axis_count(); ++i)
    if (at(axes(), i).name == name) return i;
  const auto near = nearest_name(name, axis_names(axes()));
  std::string hint = near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
  if (name == "None") hint = "; write - for an unsharded dim";
  fail("mesh has no axis \"{}\"; axes are {}{}", name, fmt::join(axis_names(axes()), ", "), hint);
}

AxisRef Mesh::full_axis(int axis) const { return {axis, 1, at(axes(), axis).size}; }

std::int64_t Mesh::coordinate(std::int64_t position, const AxisRef& ref) const {
  const auto size = at(axes(), ref.axis).size;
  const auto full_coordinate = position / at(node_->strides, ref.axis) % size;
  return full_coordinate / (size / (ref.pre * ref.size)) % ref.size;
}

std::int64_t Mesh::coordinate(std::int64_t position, const std::vector<AxisRef>& refs) const {
  std::int64_t out = 0;
  for (const auto& ref : refs) out = out * ref.size + coordinate(position, ref);
  return out;
}

std::vector<std::vector<std::int64_t>> Mesh::groups(const std::vector<AxisRef>& axes) const {
  // The offsets of the members of a group from its first one, which has coordinate 0 over all of `axes`.
  std::vector<std::int64_t> offsets{0};
  for (const auto& ref : axes) {
    const auto rest = at(this->axes(), ref.axis).size / (ref.pre * ref.size);
    const auto stride = rest * at(node_->strides, ref.axis);
    std::vector<std::int64_t> finer;
    finer.reserve(offsets.size() * static_cast<std::size_t>(ref.size));
    for (const auto offset : offsets)
      for (std::int64_t i = 0; i < ref.size; ++i) finer.push_back(offset + i * stride);
    offsets = std::move(finer);
  }
  std::vector<bool> seen(static_cast<std::size_t>(device_count()), false);
  std::vector<std::vector<std::int64_t>> out;
  for (std::int64_t first = 0; first < device_count(); ++first) {
    if (seen[static_cast<std::size_t>(first)]) continue;
    auto& group = out.emplace_back();
    group.reserve(offsets.size());
    for (const auto offset : offsets) {
      seen[static_cast<std::size_t>(first + offset)] = true;
      group.push_back(device_at(first + offset));
    }
  }
  return out;
}

std::string Mesh::axis_text(const AxisRef& ref) const {
  const auto& axis = at(axes(), ref.axis);
  if (ref.pre == 1 && ref.size == axis.size) return axis.name;
  return fmt::format("{}:({}){}", axis.name, ref.pre, ref.size);
}

std::string Mesh::str() const {
  std::vector<std::string> parts;
  for (const auto& axis : axes()) parts.push_back(fmt::format("{}={}", axis.name, axis.size));
  std::string text = fmt::format("mesh<{}>", fmt::join(parts, ", "));
  if (!device_order().empty()) text += fmt::format(" devices=[{}]", fmt::join(device_order(), ","));
  return text;
}

std::size_t Mesh::hash() const { return node_->hash; }

bool operator==(const Mesh& a, const Mesh& b) {
  if (a.node_ == b.node_) return true;
  return a.node_->hash == b.node_->hash && a.axes() == b.axes() && a.device_order() == b.device_order();
}

std::vector<AxisRef> merged_axes(const std::vector<AxisRef>& axes) {
  std::vector<AxisRef> out;
  for (const AxisRef& axis : axes) {
    if (axis.size == 1) continue;
    if (!out.empty() && out.back().axis == axis.axis && out.back().pre * out.back().size == axis.pre)
      out.back().size *= axis.size;
    else
      out.push_back(axis);
  }
  return out;
}

std::int64_t axes_size(const std::vector<AxisRef>& axes) {
  std::int64_t size = 1;
  for (const auto& axis : axes) size *= axis.size;
  return size;
}

bool overlaps(const AxisRef& a, const AxisRef& b) {
  if (a.axis != b.axis) return false;
  const AxisRef& major = a.pre <= b.pre ? a : b;
  const AxisRef& minor = a.pre <= b.pre ? b : a;
  // For an axis of size 6, x:(1)2 and x:(3)2 are the major digit of 2x3 and the minor one of 3x2: no split has both.
  return minor.pre % (major.pre * major.size) != 0;
}

bool overlaps_any(const std::vector<AxisRef>& axes, const AxisRef& axis) {
  return std::any_of(axes.begin(), axes.end(), [&](const AxisRef& other) { return overlaps(other, axis); });
}

}  // namespace tessera
