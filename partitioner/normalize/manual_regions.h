// SPDX-License-Identifier: Apache-2.0
// Which axes are manual where: what normalize_manual rewrites by.
#pragma once

#include <map>
#include <set>

#include "tessera/ir/program.h"

namespace tessera {

using Axes = std::vector<AxisRef>;

/// Shardy's name for the axes that a border adds or takes away: `#sdy<manual_axes{"x", "y"}>`.
inline constexpr std::string_view kSdyManualAxes = "xla.sdy.manual_axes";

/// `a` but what overlaps an axis of `b`.
Axes without(Axes a, const Axes& b);
/// Whether the text says of a value that it is per device.
bool is_annotated_manual(const Instruction& instruction);

/// The mesh that all regions of a program are over. HLO's text names no mesh, and meshes were found for other values too: the
/// first that says every cut and every value of a region.
class RegionMesh {
 public:
  explicit RegionMesh(const Program& program);
  [[nodiscard]] const Mesh& mesh() const { return meshes_.front(); }
  /// The program's, that one first.
  [[nodiscard]] const std::vector<Mesh>& meshes() const { return meshes_; }
  /// The same sharding over mesh(). Throws Error where that cannot say it.
  [[nodiscard]] Sharding on_mesh(const Sharding& sharding) const;
  /// The axes along which a value is per device.
  [[nodiscard]] Axes manual_of(const Sharding& sharding) const;
  /// Those of kSdyManualAxes.
  [[nodiscard]] Axes named_axes(const std::string& text) const;

 private:
  std::vector<Mesh> meshes_;
};

/// The manual axes of each value of one computation.
class ManualAxes {
 public:
  /// `context`: those around the computation. `is_function`: of scalars, as a reduction calls one; annotations within say nothing.
  ManualAxes(const RegionMesh& mesh, const Computation& from, Axes context, bool is_function,
             const std::vector<bool>& computations_with_effects);
  [[nodiscard]] const Axes& of(Id id) const { return at(manual_, id); }
  /// Where a value made from nothing is read beside of(id): it is made there too.
  [[nodiscard]] std::vector<Axes> others(Id id) const;
  /// The axes that a border adds or takes away.
  [[nodiscard]] Axes of_border(Id id) const;
  /// Where a border that enters reads `operand`.
  [[nodiscard]] const Axes& outside_of(Id operand) const { return sides_.contains(operand) ? context_ : of(operand); }
  [[nodiscard]] bool is_function() const { return is_function_; }

 private:
  void find_free(const std::vector<bool>& computations_with_effects);
  void add_sides(Id user, std::set<Axes>& sides) const;

  const RegionMesh& mesh_;
  const Computation& from_;
  Axes context_;
  bool is_function_;
  std::vector<Axes> manual_;               // by value
  std::map<Id, std::vector<Axes>> sides_;  // of what is made from nothing: where it is read, first manual_[id]
};

}  // namespace tessera
