// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/batch_indices.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "plain.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

// Returns the element of a constant, or of a broadcast of a scalar constant, if all elements are equal.
std::optional<double> splat_of(const Computation& c, Id id) {
  const Instruction& instruction = c[id];
  if (instruction.op == &rows::kBroadcast) return splat_of(c, instruction.operands[0]);
  const Literal* value = known_constant(instruction);
  if (value == nullptr || value->type().ndim() != 0 || !is_integer(value->type().dtype())) return std::nullopt;
  return element_as_double(*value, 0);
}

// Where element i of a dim is i: the dim, or nullopt.
class Counts {
 public:
  explicit Counts(const Computation& computation) : c_(computation) {}

  std::optional<int> dim_of(Id id) const {
    const Instruction& i = c_[id];
    if (!i.type.is_array() || !holds_counts(i.type)) return std::nullopt;
    if (i.op == &rows::kIota) return static_cast<int>(attributes_as<IotaAttributes>(i.attributes).iota_dimension);
    if (i.op->role == Role::kCopy) return dim_of(i.operands[0]);
    if (i.op == &rows::kConvert) return dim_of(i.operands[0]);
    if (i.op == &rows::kBroadcast) {
      const auto dim = dim_of(i.operands[0]);
      if (!dim) return std::nullopt;
      return static_cast<int>(at(attributes_as<DimensionsAttributes>(i.attributes).dimensions, *dim));
    }
    if (i.op == &rows::kReshape) return through_reshape(i);
    if (i.op == &rows::kSelect) return through_select(i);
    return std::nullopt;
  }

 private:
  // Whether integers of this type can count the elements of each dim.
  static bool holds_counts(const Type& type) {
    if (!is_integer(type.dtype()) || is_narrow(type.dtype())) return false;
    const std::int64_t most = dtype_size(type.dtype()) >= 4 ? std::numeric_limits<std::int32_t>::max()
                                                            : std::numeric_limits<std::int8_t>::max();
    return std::all_of(type.dims().begin(), type.dims().end(), [most](auto size) { return size <= most; });
  }

  // A reshape that only adds or removes dims of size 1.
  std::optional<int> through_reshape(const Instruction& reshape) const {
    const auto dim = dim_of(reshape.operands[0]);
    if (!dim) return std::nullopt;
    const Type& from = c_[reshape.operands[0]].type;
    int to = 0;
    for (int d = 0; d < from.ndim(); ++d) {
      if (from.dim(d) == 1) {
        if (d == *dim) return std::nullopt;
        continue;
      }
      while (to < reshape.type.ndim() && reshape.type.dim(to) == 1) ++to;
      if (to == reshape.type.ndim() || reshape.type.dim(to) != from.dim(d)) return std::nullopt;
      if (d == *dim) return to;
      ++to;
    }
    return std::nullopt;
  }

  // select(count < 0, .., count), as JAX writes for indices that may be negative.
  std::optional<int> through_select(const Instruction& select) const {
    const Instruction& compare = c_[select.operands[0]];
    if (compare.op != &rows::kCompare) return std::nullopt;
    const bool is_less = attributes_as<CompareAttributes>(compare.attributes).direction == CompareDirection::kLt;
    if (!is_less || splat_of(c_, compare.operands[1]) != 0 || !dim_of(compare.operands[0])) return std::nullopt;
    return dim_of(select.operands[2]);
  }

  const Computation& c_;
};

bool has_dim(const Dims& dims, std::int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

// The attributes of gather and scatter with one set of names.
struct Indexing {
  int indices = 0;  // the operand that holds them
  const Dims* index_map = nullptr;
  const Dims* dropped = nullptr;
  const Dims* operand_batching = nullptr;
  const Dims* indices_batching = nullptr;
  std::int64_t index_vector_dim = 0;
};

std::optional<Indexing> indexing_of(const Instruction& i) {
  if (i.op == &rows::kGather) {
    const auto& a = attributes_as<GatherAttributes>(i.attributes);
    return Indexing{1,
                    &a.start_index_map,
                    &a.collapsed_slice_dims,
                    &a.operand_batching_dims,
                    &a.start_indices_batching_dims,
                    a.index_vector_dim};
  }
  if (i.op == &rows::kScatter) {
    const auto& a = attributes_as<ScatterAttributes>(i.attributes);
    return Indexing{isize(i.operands) / 2,  &a.scatter_dims_to_operand_dims,  &a.inserted_window_dims,
                    &a.input_batching_dims, &a.scatter_indices_batching_dims, a.index_vector_dim};
  }
  return std::nullopt;
}

/// A component of the indices that counts along a dim of the indices.
struct Batch {
  int component = 0;
  std::int64_t operand_dim = 0;
  std::int64_t indices_dim = 0;
};

// The part of a concatenation along the index vector that holds one component only.
std::optional<Id> part_of_component(const Computation& c, Id indices, int vector_dim, int component) {
  const Instruction& joined = c[indices];
  if (joined.op != &rows::kConcatenate ||
      attributes_as<DimensionsAttributes>(joined.attributes).dimensions.front() != vector_dim)
    return std::nullopt;
  std::int64_t next = 0;
  for (const Id part : joined.operands) {
    const std::int64_t size = c[part].type.dim(vector_dim);
    if (component < next + size) return size == 1 ? std::optional(part) : std::nullopt;
    next += size;
  }
  return std::nullopt;
}

std::optional<Batch> batch_of(const Computation& c, const Instruction& i) {
  const auto indexing = indexing_of(i);
  if (!indexing || !is_plain(i) || indexing->index_map->size() < 2) return std::nullopt;
  const Id indices = at(i.operands, indexing->indices);
  const auto vector_dim = static_cast<int>(indexing->index_vector_dim);
  const Type& operand = c[i.operands[0]].type;
  const Counts counts(c);
  for (int k = 0; k < isize(*indexing->index_map); ++k) {
    const std::int64_t dim = at(*indexing->index_map, k);
    const auto part = part_of_component(c, indices, vector_dim, k);
    const auto counted = part ? counts.dim_of(*part) : std::nullopt;
    if (!counted || *counted == vector_dim) continue;
    const bool is_batch = has_dim(*indexing->indices_batching, *counted);
    if (is_batch || !has_dim(*indexing->dropped, dim)) continue;
    if (operand.dim(static_cast<int>(dim)) == c[indices].type.dim(*counted)) return Batch{k, dim, *counted};
  }
  return std::nullopt;
}

// Inserts a pair of batch dims, sorted by that of the operand.
void add_batch(Dims& operand_dims, Dims& indices_dims, const Batch& batch) {
  const auto place =
      std::lower_bound(operand_dims.begin(), operand_dims.end(), batch.operand_dim) - operand_dims.begin();
  operand_dims.insert(operand_dims.begin() + place, batch.operand_dim);
  indices_dims.insert(indices_dims.begin() + place, batch.indices_dim);
}

Attributes batched_attributes(const Instruction& i, const Batch& batch) {
  if (i.op == &rows::kGather) {
    auto a = attributes_as<GatherAttributes>(i.attributes);
    a.start_index_map.erase(a.start_index_map.begin() + batch.component);
    a.collapsed_slice_dims.erase(
        std::find(a.collapsed_slice_dims.begin(), a.collapsed_slice_dims.end(), batch.operand_dim));
    add_batch(a.operand_batching_dims, a.start_indices_batching_dims, batch);
    a.indices_are_sorted = false;
    return make_attributes(std::move(a));
  }
  auto a = attributes_as<ScatterAttributes>(i.attributes);
  a.scatter_dims_to_operand_dims.erase(a.scatter_dims_to_operand_dims.begin() + batch.component);
  a.inserted_window_dims.erase(
      std::find(a.inserted_window_dims.begin(), a.inserted_window_dims.end(), batch.operand_dim));
  add_batch(a.input_batching_dims, a.scatter_indices_batching_dims, batch);
  a.indices_are_sorted = false;
  return make_attributes(std::move(a));
}

// The indices without one component: the other parts of the concatenation.
Value without_component(ComputationRewriter& r, const Instruction& joined, int vector_dim, int component) {
  std::vector<Value> parts;
  std::int64_t next = 0;
  for (const Id part : joined.operands) {
    if (next != component) parts.push_back(r.mapped(part));
    next += r.from()[part].type.dim(vector_dim);
  }
  return parts.size() == 1 ? parts.front() : ops::concatenate(parts, vector_dim);
}

Value batched(ComputationRewriter& r, Id id) {
  const Instruction& before = r.from()[id];
  const auto batch = batch_of(r.from(), before);
  if (!batch) return {};
  const auto indexing = indexing_of(before);
  const Instruction& joined = r.from()[at(before.operands, indexing->indices)];
  const Value indices = without_component(r, joined, static_cast<int>(indexing->index_vector_dim), batch->component);
  Instruction after = r.translated(id);
  at(after.operands, indexing->indices) = indices.id;
  after.attributes = batched_attributes(before, *batch);
  return r.builder().append(std::move(after));
}

}  // namespace

Program batch_indices(const Program& program) {
  const auto touches = [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& i) { return batch_of(computation, i).has_value(); });
  };
  Program out = program;
  // Each round replaces one component; there are at most as many as an array has dims.
  while (std::any_of(out.computations.begin(), out.computations.end(),
                     [&](const ComputationRef& computation) { return touches(*computation); }))
    out = rewrite(out, batched, touches);
  return out;
}

}  // namespace tessera
