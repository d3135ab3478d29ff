// SPDX-License-Identifier: Apache-2.0
// A sharding: how an array is distributed over the devices of a mesh.
//
//   {data+fsdp, -, model}        dim 0 over data (major) and fsdp, dim 1 unsharded, dim 2 over model
//   {data, -} partial sum{model} every device holds a partial value; their sum over `model` is the value
//
// Devices that differ only along axes that are not listed hold replicas.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/sharding/mesh.h"

namespace tessera {

/// The reductions of collectives and of partial arrays.
enum class Reduction : std::uint8_t { kSum, kProduct, kMin, kMax, kAnd, kOr };
/// `sum`, `product`, `min`, `max`, `and`, `or`.
std::string_view reduction_name(Reduction reduction);

/// The sharding of one dim.
struct DimSharding {
  std::vector<AxisRef> axes;    // major to minor
  bool open = false;            // propagation may add minor axes
  std::optional<int> priority;  // priority of propagation; lower ones come first; nullopt means 0
  friend bool operator==(const DimSharding&, const DimSharding&) = default;
};

/// Reads a priority: `p1`.
int parse_priority(std::string_view text);

/// The entry of a spec for one dim: nothing, an axis name, or several ("data+fsdp" in texts).
using SpecEntry = std::vector<std::string>;

/// An axis in a spec: its name, or its index in the mesh. In texts, a number that is not the name of an axis is an
/// index.
struct SpecAxis {
  std::string text;
  // NOLINTBEGIN(google-explicit-constructor): spec literals
  SpecAxis(const char* name) : text(name) {}
  SpecAxis(std::string name) : text(std::move(name)) {}
  template <std::integral Index>
  SpecAxis(Index index) : text(std::to_string(index)) {}
  // NOLINTEND(google-explicit-constructor)
};

/// Leaves a dim of a computed tensor to propagation, as JAX's `PartitionSpec.UNCONSTRAINED`; "?" in texts.
struct Unconstrained {};
inline constexpr Unconstrained kUnconstrained;

/// A spec with one entry for each dim: `PartitionSpec{{"data"}, {}, {"model"}}`. A name or the index of an axis
/// converts to an entry: `{{}, "model"}`, `{{}, 1}`. Of several axes, the first is the major one:
/// `{{"data", "model"}, {}}`.
class PartitionSpec {
 public:
  struct Entry {
    SpecEntry axes;
    bool open = false;              // propagation may add minor axes
    std::optional<int> priority{};  // of propagation; lower ones come first; nullopt means 0
    Entry() = default;
    Entry(Unconstrained) : open(true) {}                // NOLINT(google-explicit-constructor)
    Entry(std::nullptr_t) {}                            // NOLINT(google-explicit-constructor): spec literals
    Entry(const char* axis) : axes{axis} {}             // NOLINT(google-explicit-constructor)
    Entry(std::string axis) : axes{std::move(axis)} {}  // NOLINT(google-explicit-constructor)
    template <std::integral Index>
    Entry(Index axis) : axes{std::to_string(axis)} {}  // NOLINT(google-explicit-constructor): spec literals
    Entry(std::initializer_list<SpecAxis> names) {
      for (const SpecAxis& name : names) axes.push_back(name.text);
    }
    Entry(SpecEntry names) : axes(std::move(names)) {}  // NOLINT(google-explicit-constructor)
    Entry(SpecEntry names, bool is_open) : axes(std::move(names)), open(is_open) {}
  };
  PartitionSpec() = default;
  PartitionSpec(std::initializer_list<Entry> entries) : entries_(entries) {}
  explicit PartitionSpec(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  /// Reads `data+fsdp,-,model`. `x:(2)3` is a sub-axis. `?`, alone or after axes, leaves the dim open. `@p1` at the
  /// end is the priority of the dim.
  static PartitionSpec parse(std::string_view text);
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::string str() const;

 private:
  std::vector<Entry> entries_;
};

/// The sharding of an array.
struct Sharding {
  enum class Kind : std::uint8_t {
    kTiled,    // by axes; fully replicated if no axis is used
    kMaximal,  // complete on `device`, undefined elsewhere
    kManual,   // per-device code; types are local
    kUnknown   // propagation chooses
  };
  Kind kind = Kind::kTiled;
  Mesh mesh;
  std::vector<DimSharding> dims;  // one per dim (kTiled)
  std::vector<AxisRef> partial;   // sorted; the array is partial over these
  Reduction reduction = Reduction::kSum;
  std::vector<AxisRef> manual;  // sorted; manual subgroup axes (kTiled with some manual axes)
  std::int64_t device = -1;     // kMaximal

  /// Fully replicated, with `ndim` closed dims.
  static Sharding replicated(const Mesh& mesh, int ndim);
  /// Makes a sharding from a spec. Errors name the spec, the mesh and the problem: the number of entries is not ndim,
  /// an axis is unknown or is used twice.
  static Sharding from_spec(const Mesh& mesh, const PartitionSpec& spec, int ndim);
  static Sharding maximal(const Mesh& mesh, std::int64_t device);
  static Sharding manual_everywhere(const Mesh& mesh);

  [[nodiscard]] bool is_tiled() const { return kind == Kind::kTiled; }
  [[nodiscard]] bool is_replicated() const;  // tiled, no axis used, not partial
  [[nodiscard]] bool is_partial() const { return !partial.empty(); }
  [[nodiscard]] int ndim() const { return static_cast<int>(dims.size()); }
  /// The number of tiles along a dim.
  [[nodiscard]] std::int64_t tiles(int dim) const { return axes_size(dims[static_cast<std::size_t>(dim)].axes); }
  /// All used axes: of dims, partial, manual.
  [[nodiscard]] std::vector<AxisRef> used_axes() const;
  /// Returns the same sharding without its partial axes (without_partial), or with all dims closed (closed).
  [[nodiscard]] Sharding without_partial() const;
  [[nodiscard]] Sharding closed() const;

  /// `{data+fsdp,-,model}`, with `?` for open dims, followed by ` partial sum{model}`; `{maximal device=3}`;
  /// `{manual}`.
  [[nodiscard]] std::string str() const;
  [[nodiscard]] std::size_t hash() const;
  /// True for the same axes on the same dims of equal meshes (structural equality; placement.h has semantic
  /// equality).
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

/// The sharding of a value of any type: one for each leaf. Null: no annotation.
using Shardings = std::vector<Sharding>;
using ShardingRef = std::shared_ptr<const Shardings>;
/// Stores the sharding of a value with one leaf, or the shardings of all leaves.
ShardingRef make_sharding(Sharding sharding);
ShardingRef make_shardings(Shardings leaves);
/// True if both are null, or if both have equal leaves.
bool same_shardings(const ShardingRef& a, const ShardingRef& b);

}  // namespace tessera
