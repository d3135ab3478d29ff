// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/topology.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kGigabyte = 1e9;

Link read_link(const JsonObject& json, const std::string& where, Link link) {
  json.require_known({"latency_us", "gigabytes_per_second"});
  double latency = link.latency_seconds / kMicrosecond;
  double bandwidth = link.bytes_per_second / kGigabyte;
  json.read("latency_us", latency);
  json.read("gigabytes_per_second", bandwidth);
  require(std::isfinite(latency) && latency >= 0, "{}: latency_us must be 0 or more, got {}", where, latency);
  require(std::isfinite(bandwidth) && bandwidth > 0, "{}: gigabytes_per_second must be above 0, got {}", where,
          bandwidth);
  return {latency * kMicrosecond, bandwidth * kGigabyte};
}

}  // namespace

Link slower(const Link& a, const Link& b) {
  return {std::max(a.latency_seconds, b.latency_seconds), std::min(a.bytes_per_second, b.bytes_per_second)};
}

Topology Topology::from_file(const std::string& path) {
  return reading_file([&] { return from_json(JsonObject::from_file(path)); });
}

Topology Topology::parse(std::string_view text, const std::string& origin) {
  return from_json(JsonObject::parse(text, origin));
}

Topology Topology::from_json(const JsonObject& json) {
  json.require_known({"axes", "other"});
  Topology out;
  JsonObject part;
  if (json.read("other", part)) out.other_ = read_link(part, json.origin() + ": other", {});
  JsonObject axes;
  if (json.read("axes", axes))
    for (const std::string& name : axes.keys()) {
      axes.read(name, part);
      out.axes_.emplace_back(name, read_link(part, fmt::format("{}: axis \"{}\"", json.origin(), name), out.other_));
    }
  return out;
}

JsonObject Topology::json() const {
  const auto written = [](const Link& link) {
    JsonObject out;
    out.set("latency_us", link.latency_seconds / kMicrosecond);
    out.set("gigabytes_per_second", link.bytes_per_second / kGigabyte);
    return out;
  };
  JsonObject out;
  JsonObject axes;
  for (const auto& [name, link] : axes_) axes.set(name, written(link));
  if (!axes_.empty()) out.set("axes", axes);
  out.set("other", written(other_));
  return out;
}

void Topology::set_link(const std::string& axis, const Link& link) {
  if (axis.empty()) {
    other_ = link;
    return;
  }
  for (auto& [name, known] : axes_)
    if (name == axis) {
      known = link;
      return;
    }
  axes_.emplace_back(axis, link);
}

void Topology::check(const std::vector<Mesh>& meshes) const {
  std::vector<std::string> known;
  for (const Mesh& mesh : meshes)
    for (const MeshAxis& axis : mesh.axes()) known.push_back(axis.name);
  for (const auto& [name, link] : axes_)
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail("the topology names the axis \"{}\", which no mesh has{}", name, suggest_name(name, known));
}

bool Topology::is_uniform() const {
  return other_.latency_seconds == 0 &&
         std::all_of(axes_.begin(), axes_.end(), [&](const auto& axis) { return axis.second == other_; });
}

const Link& Topology::link(std::string_view axis) const {
  for (const auto& [name, link] : axes_)
    if (name == axis) return link;
  return other_;
}

Link Topology::slowest(const std::vector<std::string>& axes) const {
  if (axes.empty()) return other_;
  Link out = link(axes.front());
  for (const std::string& axis : axes) out = slower(out, link(axis));
  return out;
}

std::size_t Topology::hash() const {
  std::size_t seed = 0;
  const auto add = [&](const Link& link) {
    seed = hash_mix(seed, std::bit_cast<std::size_t>(link.latency_seconds));
    seed = hash_mix(seed, std::bit_cast<std::size_t>(link.bytes_per_second));
  };
  add(other_);
  for (const auto& [name, link] : axes_) {
    seed = hash_mix(seed, hash_text(name));
    add(link);
  }
  return seed;
}

}  // namespace tessera
