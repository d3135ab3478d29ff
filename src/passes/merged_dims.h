// SPDX-License-Identifier: Apache-2.0
// Finds the dims that one reshape merges and another splits again.
#pragma once

#include <utility>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// The dims of both sides of a reshape that hold the same elements. Dims of size 1 are left out.
struct ReshapedDims {
  std::vector<int> from;
  std::vector<int> to;
};
/// The smallest such groups, in the order of the dims. The reshape must have elements.
std::vector<ReshapedDims> reshaped_dims(const Type& from, const Type& to);

/// The dims of values, and those that an instruction reads of its operands, in classes: an op keeps the dims of one
/// class apart from all others, so they can be split alike.
class MergedDims {
 public:
  explicit MergedDims(const Computation& computation);

  /// True if some class is split.
  [[nodiscard]] bool any() const;
  /// The sizes into which a dim of a value is split; the dim itself if it is not split.
  [[nodiscard]] Dims parts_of_value(Id id, int dim) const;
  /// The same for a dim of operand `k` of an instruction, as the instruction reads it.
  [[nodiscard]] Dims parts_of_operand(Id id, int k, int dim) const;

 private:
  /// How a class may be split.
  struct Class {
    int parent = -1;          // -1: this is the representative of the class
    int size = 1;             // of a representative: the dims in the class
    bool is_blocked = false;  // an op or an annotation needs the dim as it is
    bool is_merged = false;   // some reshape merges it
    bool is_limited = false;  // `strides` are the only ones
    Dims strides{};           // the borders between the parts, descending, in elements of the dim
  };

  [[nodiscard]] int value(Id id, int dim) const { return at(first_of_value_, id) + dim; }
  [[nodiscard]] int operand(Id id, int k, int dim) const { return at(at(first_of_operand_, id), k) + dim; }
  [[nodiscard]] int root_of(int node) const;
  [[nodiscard]] Dims parts(int node, std::int64_t size) const;
  void unite(int a, int b);
  void limit(int node, const Dims& strides);
  void block(int node) { at(classes_, root_of(node)).is_blocked = true; }
  void block_value(Id id);
  void block_operands(Id id);

  void add(Id id);
  void read_operands(Id id);
  void read_merged(int node, const Instruction& reshape, int dim);
  void connect(Id id);
  void connect_moved(Id id);
  void connect_elementwise(Id id);
  void connect_dot(Id id);
  void connect_reduce(Id id);
  void connect_reshape(Id id);

  const Computation& c_;
  std::vector<int> first_of_value_;
  std::vector<std::vector<int>> first_of_operand_;
  std::vector<Class> classes_;
};

/// True if the reshape may be computed in another place, or not at all.
bool is_free_reshape(const Instruction& instruction);

}  // namespace tessera
