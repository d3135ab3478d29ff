// SPDX-License-Identifier: Apache-2.0
// A mesh: the devices in named axes, with a device order.
//
//   Mesh mesh({{"data", 2}, {"model", 4}});      mesh<data=2, model=4>
//
// A *position* is a row-major index over the axes. The *device* at a position is device_order[position].
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class PartitionSpec;

/// An axis with its name and size.
struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

/// An axis, or a sub-axis, which Shardy writes as "x":(pre)size: the middle factor if the axis is viewed as [pre,
/// size, rest].
struct AxisRef {
  int axis = 0;
  std::int64_t pre = 1;
  std::int64_t size = 1;
  friend auto operator<=>(const AxisRef&, const AxisRef&) = default;
};

/// The devices in named axes. Copies share their content.
class Mesh {
 public:
  /// The mesh of one device, without axes.
  Mesh();
  /// Errors: a name that is empty or occurs twice, a size below 1, a device order that is not a permutation of
  /// 0..count-1. An empty order means 0, 1, 2, …. `name` is the name of the mesh in texts.
  explicit Mesh(std::vector<MeshAxis> axes, std::vector<std::int64_t> device_order = {}, std::string name = "mesh");
  /// The mesh of PyTorch/XLA: the devices in row-major order of `mesh_shape`. Without `axis_names`, the axes are named
  /// "0", "1", …. Errors: a device does not occur exactly once; the product of the shape is not the number of devices;
  /// the numbers of names and axes differ; a name occurs twice.
  Mesh(const std::vector<std::int64_t>& device_ids, const std::vector<std::int64_t>& mesh_shape,
       std::vector<std::string> axis_names = {});
  /// Reads `data=2,model=4`. One size may be -1, which means the remaining factor of `device_count`. Error if the
  /// product of the sizes is not device_count. A device_count of 0 accepts every product.
  static Mesh parse(std::string_view text, std::int64_t device_count = 0);

  /// Reads the text of str() or that of parse().
  static Mesh from_str(std::string_view text);

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::vector<MeshAxis>& axes() const;
  [[nodiscard]] int axis_count() const;
  [[nodiscard]] std::int64_t device_count() const;
  /// Empty if it is 0, 1, 2, ….
  [[nodiscard]] const std::vector<std::int64_t>& device_order() const;
  [[nodiscard]] std::int64_t device_at(std::int64_t position) const;
  [[nodiscard]] std::int64_t position_of(std::int64_t device) const;

  [[nodiscard]] bool has_axis(std::string_view name) const;
  /// Returns the index of the axis. The error lists the axes and the nearest name.
  [[nodiscard]] int axis_index(std::string_view name) const;
  [[nodiscard]] AxisRef full_axis(int axis) const;
  [[nodiscard]] AxisRef full_axis(std::string_view name) const { return full_axis(axis_index(name)); }
  /// The coordinate of a position along a (sub-)axis, in [0, ref.size).
  [[nodiscard]] std::int64_t coordinate(std::int64_t position, const AxisRef& ref) const;
  /// The coordinate over several axes, major to minor: a mixed-radix number of their coordinates.
  [[nodiscard]] std::int64_t coordinate(std::int64_t position, const std::vector<AxisRef>& refs) const;
  /// Returns the replica groups of a collective over `axes`. A group has the devices that differ only along `axes`,
  /// ordered by their coordinate over `axes` (major to minor as listed). Groups are ordered by their first position.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> groups(const std::vector<AxisRef>& axes) const;

  // ---- names of PyTorch/XLA ---------------------------------------------------------------------------------------

  /// device_count().
  [[nodiscard]] std::int64_t size() const { return device_count(); }
  /// axes(): names and sizes, in order.
  [[nodiscard]] const std::vector<MeshAxis>& shape() const { return axes(); }
  /// The devices in row-major order of the shape.
  [[nodiscard]] std::vector<std::int64_t> get_logical_mesh() const;
  /// axis_index().
  [[nodiscard]] int get_axis_name_idx(std::string_view axis) const { return axis_index(axis); }
  /// HLO's text of the sharding with this spec: `{devices=[2,1,3]<=[6] last_tile_dim_replicate}`.
  [[nodiscard]] std::string get_op_sharding(const PartitionSpec& spec) const;

  /// `data`, or `data:(2)3` for a sub-axis.
  [[nodiscard]] std::string axis_text(const AxisRef& ref) const;
  /// `mesh<data=2, model=4>`, with ` devices=[..]` if the order is not 0, 1, 2, ….
  [[nodiscard]] std::string str() const;
  [[nodiscard]] std::size_t hash() const;
  /// True for equal axes and equal device order. The name does not count.
  friend bool operator==(const Mesh& a, const Mesh& b);

 private:
  struct Node;
  std::shared_ptr<const Node> node_;
};

/// Removes axes of size 1 and merges successive sub-axes: x:(1)2, x:(2)3 -> x:(1)6.
std::vector<AxisRef> merged_axes(const std::vector<AxisRef>& axes);
/// The product of the sizes.
std::int64_t axes_size(const std::vector<AxisRef>& axes);
/// True if two sub-axes of one axis have a factor in common, or if no factorization of the axis contains both.
bool overlaps(const AxisRef& a, const AxisRef& b);
bool overlaps_any(const std::vector<AxisRef>& axes, const AxisRef& axis);

}  // namespace tessera
