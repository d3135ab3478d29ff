// SPDX-License-Identifier: Apache-2.0
// The speed of the links of a machine, by mesh axis.
//
//   {"axes": {"data": {"latency_us": 30, "gigabytes_per_second": 1.2}, "model": {"latency_us": 1}},
//    "other": {"gigabytes_per_second": 10}}
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/sharding/mesh.h"

namespace tessera {

class JsonObject;

/// The latency of a message, and the bandwidth at which one device receives.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 1e10;
  friend bool operator==(const Link&, const Link&) = default;
};

/// By default all links are equal and have no latency. `tessera partition` uses this default.
class Topology {
 public:
  /// FileErrors: no such file, not JSON, unknown keys (with the nearest ones), a bandwidth that is not positive, a
  /// negative latency.
  static Topology from_file(const std::string& path);
  static Topology parse(std::string_view text, const std::string& origin = "topology");
  static Topology from_json(const JsonObject& json);
  /// Returns the JSON object that from_json() reads.
  [[nodiscard]] JsonObject json() const;

  /// Error, with the nearest axis, if the topology names an axis that no mesh has.
  void check(const std::vector<Mesh>& meshes) const;
  /// True if all links are equal and have no latency, so that only bytes matter.
  [[nodiscard]] bool is_uniform() const;
  /// The link of all axes that the topology does not name.
  [[nodiscard]] const Link& other() const { return other_; }
  [[nodiscard]] const Link& link(std::string_view axis) const;
  /// Sets the link of an axis. The axis "" means all axes that are not named.
  void set_link(const std::string& axis, const Link& link);
  /// The link that limits a group over these axes: the greatest latency and the least bandwidth among them.
  [[nodiscard]] Link slowest(const std::vector<std::string>& axes) const;
  [[nodiscard]] std::size_t hash() const;
  friend bool operator==(const Topology&, const Topology&) = default;

 private:
  std::vector<std::pair<std::string, Link>> axes_;  // in the order of the text
  Link other_;
};

/// Returns a link with the greater latency and the smaller bandwidth of the two.
Link slower(const Link& a, const Link& b);

}  // namespace tessera
