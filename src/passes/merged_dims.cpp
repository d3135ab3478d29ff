// SPDX-License-Identifier: Apache-2.0
#include "merged_dims.h"

#include <algorithm>
#include <iterator>

#include "plain.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

const Dims& listed_dims(const Instruction& instruction) {
  return attributes_as<DimensionsAttributes>(instruction.attributes).dimensions;
}

bool lists(const Dims& dims, std::int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

int ndim_of(const Type& type) { return type.is_array() ? type.ndim() : 0; }

// The borders between dims that are one dim on the other side of a reshape.
Dims strides_between(const Type& type, const std::vector<int>& dims) {
  Dims out;
  std::int64_t stride = 1;
  for (auto d = dims.rbegin(); d + 1 != dims.rend(); ++d) out.insert(out.begin(), stride *= type.dim(*d));
  return out;
}

std::vector<int> free_dims(const Type& type, const Dims& batch, const Dims& contracting) {
  std::vector<int> out;
  for (int d = 0; d < type.ndim(); ++d)
    if (!lists(batch, d) && !lists(contracting, d)) out.push_back(d);
  return out;
}

}  // namespace

std::vector<ReshapedDims> reshaped_dims(const Type& from, const Type& to) {
  std::vector<ReshapedDims> out;
  const auto next = [](const Type& type, int& d) {
    while (d < type.ndim() && type.dim(d) == 1) ++d;
    return d < type.ndim() ? d++ : -1;
  };
  int i = 0;
  int j = 0;
  while (true) {
    const int first = next(from, i);
    if (first < 0) return out;
    ReshapedDims group{{first}, {next(to, j)}};
    std::int64_t a = from.dim(first);
    std::int64_t b = to.dim(group.to.front());
    while (a != b) {
      if (a < b)
        a *= from.dim(group.from.emplace_back(next(from, i)));
      else
        b *= to.dim(group.to.emplace_back(next(to, j)));
    }
    out.push_back(std::move(group));
  }
}

bool is_free_reshape(const Instruction& instruction) {
  return instruction.op == &rows::kReshape && !instruction.sharding && is_plain(instruction) &&
         instruction.type.element_count() > 0;
}

MergedDims::MergedDims(const Computation& computation) : c_(computation) {
  for (Id id = 0; id < c_.size(); ++id) add(id);
  for (Id id = 0; id < c_.size(); ++id) {
    read_operands(id);
    connect(id);
  }
  if (c_[c_.root].type.is_array()) block_value(c_.root);
}

void MergedDims::add(Id id) {
  const auto place = [&](const Type& type) {
    const int first = isize(classes_);
    classes_.resize(classes_.size() + static_cast<std::size_t>(ndim_of(type)));
    return first;
  };
  first_of_value_.push_back(place(c_[id].type));
  first_of_operand_.emplace_back();
  for (const Id operand : c_[id].operands) first_of_operand_.back().push_back(place(c_[operand].type));
}

int MergedDims::root_of(int node) const {
  while (at(classes_, node).parent >= 0) node = at(classes_, node).parent;
  return node;
}

// The smaller class joins the larger one, so that root_of() takes logarithmic time.
void MergedDims::unite(int a, int b) {
  a = root_of(a);
  b = root_of(b);
  if (a == b) return;
  if (at(classes_, a).size < at(classes_, b).size) std::swap(a, b);
  const Class joined = at(classes_, b);
  at(classes_, b).parent = a;
  at(classes_, a).size += joined.size;
  at(classes_, a).is_blocked |= joined.is_blocked;
  at(classes_, a).is_merged |= joined.is_merged;
  if (joined.is_limited) limit(a, joined.strides);
}

void MergedDims::limit(int node, const Dims& strides) {
  Class& found = at(classes_, root_of(node));
  if (!found.is_limited) {
    found.is_limited = true;
    found.strides = strides;
    return;
  }
  Dims common;
  for (const auto stride : found.strides)
    if (lists(strides, stride)) common.push_back(stride);
  found.strides = std::move(common);
}

void MergedDims::block_value(Id id) {
  for (int d = 0; d < ndim_of(c_[id].type); ++d) block(value(id, d));
}

void MergedDims::block_operands(Id id) {
  for (int k = 0; k < isize(c_[id].operands); ++k)
    for (int d = 0; d < ndim_of(c_[at(c_[id].operands, k)].type); ++d) block(operand(id, k, d));
}

// An instruction reads the dims of a value as they are, except for those that a reshape merges: it can read these
// unmerged, also if other instructions need the merged dim.
void MergedDims::read_operands(Id id) {
  for (int k = 0; k < isize(c_[id].operands); ++k) {
    const Id read = at(c_[id].operands, k);
    std::vector<bool> is_merged(static_cast<std::size_t>(ndim_of(c_[read].type)), false);
    if (is_free_reshape(c_[read]))
      for (const ReshapedDims& group : reshaped_dims(c_[c_[read].operands[0]].type, c_[read].type)) {
        if (group.to.size() != 1 || group.from.size() == 1) continue;
        at(is_merged, group.to.front()) = true;
        const int node = operand(id, k, group.to.front());
        at(classes_, root_of(node)).is_merged = true;
        limit(node, strides_between(c_[c_[read].operands[0]].type, group.from));
      }
    for (int d = 0; d < isize(is_merged); ++d)
      if (!at(is_merged, d)) unite(operand(id, k, d), value(read, d));
  }
}

void MergedDims::connect(Id id) {
  const Instruction& i = c_[id];
  const OpDef* op = i.op;
  if (i.sharding || !i.type.is_array() || !std::is_sorted(i.type.layout().rbegin(), i.type.layout().rend()))
    block_value(id);
  const bool is_known = is_plain(i) && i.type.is_array() && i.type.element_count() > 0;
  if (is_known && op->elementwise && i.called.empty()) return connect_elementwise(id);
  if (is_known && op == &rows::kDot) return connect_dot(id);
  if (is_known && op == &rows::kReduce) return connect_reduce(id);
  if (is_known && op == &rows::kReshape) return connect_reshape(id);
  if (is_known && (op->movement == Movement::kBroadcast || op->movement == Movement::kTranspose))
    return connect_moved(id);
  if (is_known && op == &rows::kIota)
    return block(value(id, static_cast<int>(attributes_as<IotaAttributes>(i.attributes).iota_dimension)));
  block_value(id);
  block_operands(id);
}

void MergedDims::connect_moved(Id id) {
  const Instruction& i = c_[id];
  for (int d = 0; d < isize(listed_dims(i)); ++d) {
    const auto other = static_cast<int>(at(listed_dims(i), d));
    if (i.op->movement == Movement::kBroadcast)
      unite(operand(id, 0, d), value(id, other));
    else
      unite(operand(id, 0, other), value(id, d));
  }
}

void MergedDims::connect_elementwise(Id id) {
  const Instruction& i = c_[id];
  for (int k = 0; k < isize(i.operands); ++k) {
    const Type& type = c_[at(i.operands, k)].type;
    if (!type.is_array() || (type.ndim() > 0 && type.dims() != i.type.dims())) {
      block_value(id);
      block_operands(id);
      return;
    }
    for (int d = 0; d < type.ndim(); ++d) unite(operand(id, k, d), value(id, d));
  }
}

void MergedDims::connect_dot(Id id) {
  const Instruction& i = c_[id];
  const auto& a = attributes_as<DotAttributes>(i.attributes);
  int next = 0;
  for (std::size_t b = 0; b < a.lhs_batch_dims.size(); ++b, ++next) {
    unite(operand(id, 0, static_cast<int>(a.lhs_batch_dims[b])), value(id, next));
    unite(operand(id, 1, static_cast<int>(a.rhs_batch_dims[b])), value(id, next));
  }
  for (const int d : free_dims(c_[i.operands[0]].type, a.lhs_batch_dims, a.lhs_contracting_dims))
    unite(operand(id, 0, d), value(id, next++));
  for (const int d : free_dims(c_[i.operands[1]].type, a.rhs_batch_dims, a.rhs_contracting_dims))
    unite(operand(id, 1, d), value(id, next++));
  for (std::size_t k = 0; k < a.lhs_contracting_dims.size(); ++k)
    unite(operand(id, 0, static_cast<int>(a.lhs_contracting_dims[k])),
          operand(id, 1, static_cast<int>(a.rhs_contracting_dims[k])));
}

void MergedDims::connect_reduce(Id id) {
  int next = 0;
  for (int d = 0; d < c_[c_[id].operands[0]].type.ndim(); ++d)
    if (!lists(listed_dims(c_[id]), d)) unite(operand(id, 0, d), value(id, next++));
}

void MergedDims::connect_reshape(Id id) {
  const Type& from = c_[c_[id].operands[0]].type;
  const Type& to = c_[id].type;
  for (int d = 0; d < from.ndim(); ++d)
    if (from.dim(d) == 1) block(operand(id, 0, d));
  for (int d = 0; d < to.ndim(); ++d)
    if (to.dim(d) == 1) block(value(id, d));
  for (const ReshapedDims& group : reshaped_dims(from, to)) {
    if (group.from.size() == 1 && group.to.size() == 1) {
      unite(operand(id, 0, group.from.front()), value(id, group.to.front()));
      continue;
    }
    if (group.from.size() == 1)
      limit(operand(id, 0, group.from.front()), strides_between(to, group.to));
    else
      for (const int d : group.from) block(operand(id, 0, d));
    for (const int d : group.to) block(value(id, d));
  }
}

Dims MergedDims::parts(int node, std::int64_t size) const {
  const Class& found = at(classes_, root_of(node));
  if (found.is_blocked || !found.is_merged) return {size};
  Dims out;
  for (const auto stride : found.strides) {
    out.push_back(size / stride);
    size = stride;
  }
  out.push_back(size);
  return out;
}

Dims MergedDims::parts_of_value(Id id, int dim) const { return parts(value(id, dim), c_[id].type.dim(dim)); }
Dims MergedDims::parts_of_operand(Id id, int k, int dim) const {
  return parts(operand(id, k, dim), c_[at(c_[id].operands, k)].type.dim(dim));
}

bool MergedDims::any() const {
  return std::any_of(classes_.begin(), classes_.end(), [](const Class& found) {
    return found.parent < 0 && found.is_merged && !found.is_blocked && !found.strides.empty();
  });
}

}  // namespace tessera
