// SPDX-License-Identifier: Apache-2.0
// How fast the links of a machine are, by mesh axis.
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

/// What a message takes before its first byte, and how fast its bytes come in at one device.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 1e10;
  friend bool operator==(const Link&, const Link&) = default;
};

/// The default is that of `tessera partition`: no latency, equal links.
class Topology {
 public:
  /// Errors: no such file, not JSON, unknown keys (with the nearest known), a bandwidth that is not positive, a negative latency.
  static Topology from_file(const std::string& path);
  static Topology parse(std::string_view text, const std::string& origin = "topology");

  /// Error with the nearest axis when the topology names one that none of the meshes has.
  void check(const std::vector<Mesh>& meshes) const;
  /// All links are equal and latency is nil: bytes alone decide.
  [[nodiscard]] bool is_uniform() const;
  /// That of axes which are not named.
  [[nodiscard]] const Link& other() const { return other_; }
  [[nodiscard]] const Link& link(std::string_view axis) const;
  /// What a group over these axes is held up by: the greatest latency and the least bandwidth among them.
  [[nodiscard]] Link slowest(const std::vector<std::string>& axes) const;
  [[nodiscard]] std::size_t hash() const;
  friend bool operator==(const Topology&, const Topology&) = default;

 private:
  static Topology from_json(const JsonObject& json);
  std::vector<std::pair<std::string, Link>> axes_;  // in the order of the text
  Link other_;
};

/// The slower of both in each respect.
Link slower(const Link& a, const Link& b);

}  // namespace tessera
