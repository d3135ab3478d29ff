// SPDX-License-Identifier: Apache-2.0
// Determines which axes are manual for each value, for normalize_manual.
#pragma once

#include <map>
#include <set>

#include "tessera/ir/program.h"
#include "tessera/ops/manual_region.h"

namespace tessera {

using Axes = std::vector<AxisRef>;

/// The axes of `a` that overlap no axis of `b`.
Axes without(Axes a, const Axes& b);
/// Whether the value is annotated as per-device.
bool is_annotated_manual(const Instruction& instruction);

/// The mesh of all regions of a program. HLO text does not name meshes, and meshes were also derived from other values,
/// so this is the first mesh that can express the shardings of all borders and values of regions.
class RegionMesh {
 public:
  explicit RegionMesh(const Program& program);
  [[nodiscard]] const Mesh& mesh() const { return meshes_.front(); }
  /// The program's meshes, with this mesh first.
  [[nodiscard]] const std::vector<Mesh>& meshes() const { return meshes_; }
  /// The same sharding over mesh(). Throws an Error if mesh() cannot express it.
  [[nodiscard]] Sharding on_mesh(const Sharding& sharding) const;
  /// The axes along which a value is per device.
  [[nodiscard]] Axes manual_of(const Sharding& sharding) const;
  /// The axes that the text of kSdyManualAxes names.
  [[nodiscard]] Axes named_axes(const std::string& text) const;

 private:
  std::vector<Mesh> meshes_;
};

/// The manual axes of each value of one computation.
class ManualAxes {
 public:
  /// `context`: the manual axes around the computation. `is_function`: the computation works on scalars, such as that
  /// of a reduction; annotations in it have no effect.
  ManualAxes(const RegionMesh& mesh, const Computation& from, Axes context, bool is_function,
             const std::vector<bool>& computations_with_effects);
  [[nodiscard]] const Axes& of(Id id) const { return at(manual_, id); }
  /// Other regions that read a value without operands; it is created there too.
  [[nodiscard]] std::vector<Axes> others(Id id) const;
  /// The axes that a border adds or removes.
  [[nodiscard]] Axes of_border(Id id) const;
  /// The manual axes of `operand` as the operand of a border that enters a region.
  [[nodiscard]] const Axes& outside_of(Id operand) const { return sides_.contains(operand) ? context_ : of(operand); }
  [[nodiscard]] bool is_function() const { return is_function_; }

 private:
  void find_free(const std::vector<bool>& computations_with_effects);
  void add_sides(Id user, std::set<Axes>& sides) const;

  const RegionMesh& mesh_;
  const Computation& from_;
  Axes context_;
  bool is_function_;
  std::vector<Axes> manual_;  // by value
  // For values without operands: the axes of their readers, with manual_[id] first.
  std::map<Id, std::vector<Axes>> sides_;
};

}  // namespace tessera
