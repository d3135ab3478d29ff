// SPDX-License-Identifier: Apache-2.0
// gather, scatter, dynamic-slice, dynamic-update-slice, sort, rng-bit-generator.
#pragma once

#include <optional>

#include "tessera/ir/builder.h"
#include "tessera/ops/elementwise.h"

namespace tessera {

struct GatherAttributes {
  Dims offset_dims;
  Dims collapsed_slice_dims;
  Dims start_index_map;
  Dims operand_batching_dims;
  Dims start_indices_batching_dims;
  std::int64_t index_vector_dim = 0;
  Dims slice_sizes;
  bool indices_are_sorted = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("offset_dims", self.offset_dims, Presence::kAlways);
    visit("collapsed_slice_dims", self.collapsed_slice_dims, Presence::kAlways);
    visit("start_index_map", self.start_index_map, Presence::kAlways);
    visit("operand_batching_dims", self.operand_batching_dims, Presence::kIfNotDefault);
    visit("start_indices_batching_dims", self.start_indices_batching_dims, Presence::kIfNotDefault);
    visit("index_vector_dim", self.index_vector_dim, Presence::kRequired);
    visit("slice_sizes", self.slice_sizes, Presence::kRequired);
    visit("indices_are_sorted", self.indices_are_sorted, Presence::kIfNotDefault);
  }
  friend bool operator==(const GatherAttributes&, const GatherAttributes&) = default;
};
struct ScatterAttributes {
  Dims update_window_dims;
  Dims inserted_window_dims;
  Dims scatter_dims_to_operand_dims;
  Dims input_batching_dims;
  Dims scatter_indices_batching_dims;
  std::int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
  bool unique_indices = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("update_window_dims", self.update_window_dims, Presence::kAlways);
    visit("inserted_window_dims", self.inserted_window_dims, Presence::kAlways);
    visit("scatter_dims_to_operand_dims", self.scatter_dims_to_operand_dims, Presence::kAlways);
    visit("input_batching_dims", self.input_batching_dims, Presence::kIfNotDefault);
    visit("scatter_indices_batching_dims", self.scatter_indices_batching_dims, Presence::kIfNotDefault);
    visit("index_vector_dim", self.index_vector_dim, Presence::kRequired);
    visit("indices_are_sorted", self.indices_are_sorted, Presence::kIfNotDefault);
    visit("unique_indices", self.unique_indices, Presence::kIfNotDefault);
  }
  friend bool operator==(const ScatterAttributes&, const ScatterAttributes&) = default;
};
/// True if a scatter with this combiner replaces the elements by the updates.
bool is_overwrite(const Computation& combiner);
struct DynamicSliceAttributes {
  Dims dynamic_slice_sizes;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dynamic_slice_sizes", self.dynamic_slice_sizes, Presence::kRequired);
  }
  friend bool operator==(const DynamicSliceAttributes&, const DynamicSliceAttributes&) = default;
};
struct SortAttributes {
  Dims dimensions;
  bool is_stable = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dimensions", self.dimensions, Presence::kAlways);
    visit("is_stable", self.is_stable, Presence::kIfNotDefault);
  }
  friend bool operator==(const SortAttributes&, const SortAttributes&) = default;
};
/// The order of a sort whose comparator only compares the two elements of one operand, the left one first.
struct SortOrder {
  int operand = 0;
  CompareDirection direction = CompareDirection::kLt;
  CompareType type = CompareType::kDefault;
};
/// Returns the order of a sort; nullopt if its comparator is not of this form.
std::optional<SortOrder> sort_order(const OpView& sort);
enum class RngAlgorithm : std::uint8_t { kDefault, kThreeFry, kPhilox };
enum class RngDistribution : std::uint8_t { kUniform, kNormal };
std::string field_text(RngDistribution value);
void parse_field(std::string_view text, RngDistribution& value);
struct RngAttributes {
  RngDistribution distribution = RngDistribution::kUniform;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("distribution", self.distribution, Presence::kRequired);
  }
  friend bool operator==(const RngAttributes&, const RngAttributes&) = default;
};
struct RngBitGeneratorAttributes {
  RngAlgorithm algorithm = RngAlgorithm::kDefault;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("algorithm", self.algorithm, Presence::kRequired);
  }
  friend bool operator==(const RngBitGeneratorAttributes&, const RngBitGeneratorAttributes&) = default;
};
std::string field_text(RngAlgorithm value);
void parse_field(std::string_view text, RngAlgorithm& value);

namespace ops {
/// HLO's gather.
Value gather(Value operand, Value start_indices, GatherAttributes attributes);
/// Looks up rows of a table: table[v, d...], ids[...] -> [ids..., d...]. Ids out of range are clamped.
Value take_rows(Value table, Value ids);
/// Updates of the same element are combined in the row-major order of the indices.
Value scatter(const std::vector<Value>& operands, Value indices, const std::vector<Value>& updates,
              ScatterAttributes attributes, ComputationId combiner);
/// The combiner of a scatter that replaces elements: it returns the update. There is one for each element type of a
/// program.
ComputationId overwrite_computation(ProgramBuilder& program, DType dtype);
/// Returns `sizes` elements from `starts`, one integer scalar for each dim. Starts are clamped so that all elements
/// exist.
Value dynamic_slice(Value x, const std::vector<Value>& starts, Dims sizes);
/// Returns x with `update` in place of the elements from `starts`, which are clamped in the same way.
Value dynamic_update_slice(Value x, Value update, const std::vector<Value>& starts);
/// `comparator` takes 2 scalars per operand; several operands give a tuple.
Value sort(const std::vector<Value>& operands, int dim, bool is_stable, ComputationId comparator);
/// Returns (new state, bits of `type`).
Value rng_bit_generator(Value state, Type type, RngAlgorithm algorithm);
/// Returns counter-based random bits, u32 of `dims`. Each element depends only on the key u32[2] and on its *global*
/// row-major index (Philox 2x32-10 on (index, key); Salmon et al., 2011). The value consists of elementwise ops over
/// iotas, so it can be sharded like any elementwise op. For rows of a larger array, `first_row` (a u32 scalar; null: 0)
/// is the number of rows of dim 0 before them. The rows then have the bits that they have in the larger array, which
/// may have up to 2^32 elements.
Value random_bits(Value key, Dims dims, Value first_row = {});
/// The same for the given global element indices (u64).
Value random_bits_at(Value key, Value index);
/// Returns uniform random numbers in [0, 1) of a float type, from random_bits().
Value random_uniform(Value key, Dims dims, DType dtype, Value first_row = {});
}  // namespace ops
}  // namespace tessera
