// SPDX-License-Identifier: Apache-2.0
// Helpers for many rows: operand checks, common factor maps and linearities, strided copies, small builders.
#pragma once

#include <string>

#include "tessera/ir/builder.h"
#include "tessera/ir/localize_context.h"

namespace tessera::rows {

// ---- checks of infer ------------------------------------------------------------------------------------------------

/// Text such as `[3,4]`.
std::string dims_text(const Dims& dims);
/// The type of operand i. Throws an Error unless it is an array.
const Type& array_operand(const OpView& view, int i);
/// Throws an Error unless operand i is a scalar array.
const Type& scalar_operand(const OpView& view, int i, std::string_view what);
/// The declared type. Throws an Error unless one was given and is an array.
const Type& declared_array(const OpView& view);
/// The declared type if it equals `inferred` (it may have a layout), else `inferred`.
Type declared_or(const OpView& view, Type inferred);
/// Throws an Error unless `dim` is one of ndim dims; `what` is its name: "iota_dimension".
void check_dim(std::int64_t dim, int ndim, std::string_view what);
/// Throws an Error unless every entry is a dim and occurs once.
void check_distinct_dims(const Dims& dims, int ndim, std::string_view what);
bool contains(const Dims& dims, std::int64_t dim);

// ---- factors, linearity, localize, flops ----------------------------------------------------------------------------

/// One kPass factor per dim of the result, shared by the operands; scalar operands have none.
FactorMap elementwise_factors(const OpView& view);
/// The leaves of the operands, in order, are the leaves of the result (copy, tuple, opt-barrier).
FactorMap leafwise_factors(const OpView& view);
/// Adds one factor per dim of `type`; returns the entry of the tensor.
TensorFactors add_factors(FactorMap& map, const Type& type, FactorKind kind = FactorKind::kPass);

inline Linearity none(const OpView&, int) { return Linearity::kNone; }
inline Linearity linear(const OpView&, int) { return Linearity::kLinear; }
inline Linearity jointly_linear(const OpView&, int) { return Linearity::kJointlyLinear; }
inline Linearity monotone(const OpView&, int) { return Linearity::kMonotone; }
inline Linearity passes_all(const OpView&, int) { return Linearity::kAny; }

/// The same op and attributes with the type of the local result as declared type, for ops with a declared type.
Value localize_declared(LocalizeContext& context);
/// The same instruction with other operands or attributes.
Value emit_local(LocalizeContext& context, const std::vector<Value>& operands, Attributes attributes);
/// `scalar` on the device at coordinate 0 of the axes over which the result is partial, and the identity of the
/// reduction on others, so that it counts once. Just `scalar` if the result is not partial or if the scalar is known to
/// be the identity.
Value counted_once(LocalizeContext& context, Value scalar);

inline double no_flops(const OpView&) { return 0; }

// ---- reference evaluation -------------------------------------------------------------------------------------------

/// Copies a box of elements between two arrays. Each side has a first offset and strides in elements, which may be 0 or
/// negative.
struct StridedSide {
  std::int64_t offset = 0;
  Dims strides;
};
void strided_copy(const Literal& from, const StridedSide& source, Literal& to, const StridedSide& target,
                  const Dims& box);
/// Element i of the array, in row-major order.
Literal scalar_at(const Literal& array, std::int64_t i);
/// An array of `type` with all elements equal to the scalar.
Literal splat_literal(const Literal& scalar, const Type& type);

/// NaN if either is; +0 is larger than -0.
double larger(double a, double b);
double smaller(double a, double b);

/// Whether operands or results have elements without a C++ type: s4, f8e4m3fn, ...
bool has_narrow(const EvalContext& context);
/// Calls `evaluate` with operands widened to f32, s8 or u8, and rounds or wraps its result; called computations get
/// narrow elements.
Literal evaluate_widened(const EvalContext& context, Literal (*evaluate)(const EvalContext&));
/// The elements of an array as f64 or s64.
Literal as_widest(const Literal& x);

// ---- gradients ------------------------------------------------------------------------------------------------------

/// A constant of x's type.
Value full_like(Value x, double value);
/// The sum over all dims: a scalar.
Value sum_all(Value x);

}  // namespace tessera::rows
