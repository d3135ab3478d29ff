// SPDX-License-Identifier: Apache-2.0
// A sharding: how an array lies over the devices of a mesh.
//
//   {data+fsdp, -, model}        dim 0 over data (major) and fsdp, dim 1 whole, dim 2 over model
//   {data, -} partial sum{model} every device holds a partial value; their sum over `model` is the value
//
// A device not told apart by any listed axis holds a replica.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/sharding/mesh.h"

namespace tessera {

enum class Reduction : std::uint8_t { kSum, kProduct, kMin, kMax, kAnd, kOr };
std::string_view reduction_name(Reduction reduction);

struct DimSharding {
  std::vector<AxisRef> axes;    // major to minor
  bool open = false;            // propagation may add minor axes
  std::optional<int> priority;  // propagated in this round; lower ones come first, 0 where absent
  friend bool operator==(const DimSharding&, const DimSharding&) = default;
};

/// Reads `p1`: a priority.
int parse_priority(std::string_view text);

/// What a user writes for one dim: nothing, an axis name, or several ("data+fsdp" in texts).
using SpecEntry = std::vector<std::string>;

/// Leaves a dim of a computed tensor to propagation, as JAX's `PartitionSpec.UNCONSTRAINED`; "?" in texts.
struct Unconstrained {};
inline constexpr Unconstrained kUnconstrained;

/// One entry per dim: `PartitionSpec{{"data"}, {}, {"model"}}`; a bare name converts: `{{}, "model"}`.
class PartitionSpec {
 public:
  struct Entry {
    SpecEntry axes;
    bool open = false;              // propagation may add minor axes
    std::optional<int> priority{};  // propagated in this round; lower ones come first, 0 where absent
    Entry() = default;
    Entry(Unconstrained) : open(true) {}                // NOLINT(google-explicit-constructor)
    Entry(std::nullptr_t) {}                            // NOLINT(google-explicit-constructor): spec literals
    Entry(const char* axis) : axes{axis} {}             // NOLINT(google-explicit-constructor)
    Entry(std::string axis) : axes{std::move(axis)} {}  // NOLINT(google-explicit-constructor)
    Entry(std::initializer_list<const char*> names) : axes(names.begin(), names.end()) {}
    explicit Entry(SpecEntry names, bool open = false) : axes(std::move(names)), open(open) {}
  };
  PartitionSpec() = default;
  PartitionSpec(std::initializer_list<Entry> entries) : entries_(entries) {}
  explicit PartitionSpec(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  /// Reads `data+fsdp,-,model`; sub-axes as `x:(2)3`; a `?` behind or alone leaves the rest of a dim to propagation; `@p1`
  /// last is the dim's priority.
  static PartitionSpec parse(std::string_view text);
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::string str() const;

 private:
  std::vector<Entry> entries_;
};

struct Sharding {
  enum class Kind : std::uint8_t {
    kTiled,    // by axes; replicated when no axis is used
    kMaximal,  // whole on `device`, undefined elsewhere
    kManual,   // the program inside handles per-device data; types are local
    kUnknown   // "let propagation choose"
  };
  Kind kind = Kind::kTiled;
  Mesh mesh;
  std::vector<DimSharding> dims;  // one per dim (kTiled)
  std::vector<AxisRef> partial;   // sorted; the value waits for a reduction over these
  Reduction reduction = Reduction::kSum;
  std::vector<AxisRef> manual;  // sorted; manual subgroup axes (kTiled with some manual axes)
  std::int64_t device = -1;     // kMaximal

  /// Whole on every device, `ndim` dims, all closed.
  static Sharding replicated(const Mesh& mesh, int ndim);
  /// From a user's spec. Errors name the spec, the mesh and what is wrong: too long, too short (one entry per dim), unknown
  /// axis, axis used twice.
  static Sharding from_spec(const Mesh& mesh, const PartitionSpec& spec, int ndim);
  static Sharding maximal(const Mesh& mesh, std::int64_t device);
  static Sharding manual_everywhere(const Mesh& mesh);

  [[nodiscard]] bool is_tiled() const { return kind == Kind::kTiled; }
  [[nodiscard]] bool is_replicated() const;  // tiled, no axis used, not partial
  [[nodiscard]] bool is_partial() const { return !partial.empty(); }
  [[nodiscard]] int ndim() const { return static_cast<int>(dims.size()); }
  /// The number of tiles along a dim.
  [[nodiscard]] std::int64_t tiles(int dim) const { return axes_size(dims[static_cast<std::size_t>(dim)].axes); }
  /// Every axis that is used: of dims, partial, manual.
  [[nodiscard]] std::vector<AxisRef> used_axes() const;
  /// The same without the partial state / with all dims closed.
  [[nodiscard]] Sharding without_partial() const;
  [[nodiscard]] Sharding closed() const;

  /// `{data+fsdp,-,model}`, open dims with `?`, ` partial sum{model}` behind, `{maximal device=3}`, `{manual}`.
  [[nodiscard]] std::string str() const;
  [[nodiscard]] std::size_t hash() const;
  /// Same axes on the same dims of equal meshes (structural; see placement.h for semantic equality).
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

/// The sharding of a value of any type: one per leaf; null = not annotated.
using Shardings = std::vector<Sharding>;
using ShardingRef = std::shared_ptr<const Shardings>;
ShardingRef make_sharding(Sharding sharding);
ShardingRef make_shardings(Shardings leaves);

}  // namespace tessera
