// SPDX-License-Identifier: Apache-2.0
// Ops that create or move elements: parameter, constant, iota, broadcast, reshape, transpose, slice, pad, concatenate,
// reverse, copy, tuple, get-tuple-element, opt-barrier, partition-id, replica-id, after-all.
#pragma once

#include "tessera/ir/builder.h"

namespace tessera {

struct ParameterAttributes {
  std::int64_t number = 0;  // between the parentheses of the text
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("number", self.number, Presence::kRequired);
  }
  friend bool operator==(const ParameterAttributes&, const ParameterAttributes&) = default;
};
/// The origins of an elided constant (Literal::origins), separated by commas; "" for other constants.
std::string origins_text(const Literal& value);
struct ConstantAttributes {
  Literal value;  // between the parentheses of the text
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("value", self.value, Presence::kRequired);
    const std::string origins = origins_text(self.value);
    visit(kElidedKey, origins, Presence::kIfNotDefault);
  }
  friend bool operator==(const ConstantAttributes&, const ConstantAttributes&) = default;
};
/// The value of a constant whose elements are known; null for other instructions and for elided constants.
const Literal* known_constant(const Instruction& instruction);
void parse_field(std::string_view text,
                 Literal& value);  // unused: the reader builds the literal from the declared type
struct IotaAttributes {
  std::int64_t iota_dimension = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("iota_dimension", self.iota_dimension, Presence::kAlways);
  }
  friend bool operator==(const IotaAttributes&, const IotaAttributes&) = default;
};
/// The attributes of broadcast, transpose, reverse and concatenate.
struct DimensionsAttributes {
  Dims dimensions;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dimensions", self.dimensions, Presence::kAlways);
  }
  friend bool operator==(const DimensionsAttributes&, const DimensionsAttributes&) = default;
};
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t limit = 0;
  std::int64_t stride = 1;
  friend bool operator==(const SliceRange&, const SliceRange&) = default;
};
struct SliceAttributes {
  std::vector<SliceRange> slice;  // {[a:b], [a:b:s]}
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("slice", self.slice, Presence::kRequired);
  }
  friend bool operator==(const SliceAttributes&, const SliceAttributes&) = default;
};
struct PaddingDim {
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t interior = 0;
  friend bool operator==(const PaddingDim&, const PaddingDim&) = default;
};
struct PadAttributes {
  std::vector<PaddingDim> padding;  // lo_hi[_interior]x…
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("padding", self.padding, Presence::kRequired);
  }
  friend bool operator==(const PadAttributes&, const PadAttributes&) = default;
};
struct IndexAttributes {
  std::int64_t index = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("index", self.index, Presence::kRequired);
  }
  friend bool operator==(const IndexAttributes&, const IndexAttributes&) = default;
};
struct ReducePrecisionAttributes {
  std::int64_t exponent_bits = 0;
  std::int64_t mantissa_bits = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("exponent_bits", self.exponent_bits, Presence::kRequired);
    visit("mantissa_bits", self.mantissa_bits, Presence::kRequired);
  }
  friend bool operator==(const ReducePrecisionAttributes&, const ReducePrecisionAttributes&) = default;
};
std::string field_text(const std::vector<SliceRange>& value);
std::string field_text(const std::vector<PaddingDim>& value);
void parse_field(std::string_view text, std::vector<SliceRange>& value);
void parse_field(std::string_view text, std::vector<PaddingDim>& value);

namespace ops {
/// Emits parameter `number`. Without a name, it gets one.
Value parameter(Builder& builder, std::int64_t number, Type type, std::string name = {},
                ShardingRef sharding = nullptr);
/// A constant array or tuple.
Value constant(Builder& builder, Literal value);
/// A scalar constant of any element type.
Value scalar(Builder& builder, DType dtype, double value);
/// An array in which each element is its index along `dim`.
Value iota(Builder& builder, Type type, int dim);
/// Operand dim i becomes result dim dimensions[i].
Value broadcast(Value x, Dims result_dims, Dims dimensions);
/// Broadcasts a scalar to `dims`.
Value splat(Value scalar, Dims dims);
/// An array of `type` whose elements are all `value`: a broadcast scalar constant.
Value full(Builder& builder, const Type& type, double value);
/// The same elements in row-major order with other dims.
Value reshape(Value x, Dims dims);
/// Dim i of the result is dim permutation[i] of x.
Value transpose(Value x, Dims permutation);
/// The elements in a range of each dim.
Value slice(Value x, std::vector<SliceRange> ranges);
/// x[.., start:limit, ..] along one dim.
Value slice_dim(Value x, int dim, std::int64_t start, std::int64_t limit);
/// Adds `padding_value` before, after and between the elements of each dim. Negative numbers of `low` and `high` remove
/// elements.
Value pad(Value x, Value padding_value, std::vector<PaddingDim> padding);
/// The parts one after the other along `dim`.
Value concatenate(const std::vector<Value>& parts, int dim);
/// The elements in reverse order along `dims`.
Value reverse(Value x, Dims dims);
/// The same value; with a sharding that differs from that of x, this is a reshard.
Value copy(Value x);
/// A tuple of these elements.
Value tuple(Builder& builder, const std::vector<Value>& elements);
/// An element of a tuple.
Value get_tuple_element(Value tuple, int index);
/// An opt-barrier over one value, or over a tuple of several. Returns the results in the order of `values`.
std::vector<Value> opt_barrier(const std::vector<Value>& values);
Value partition_id(Builder& builder);  // u32[]
}  // namespace ops
}  // namespace tessera
