// SPDX-License-Identifier: Apache-2.0
// What many rows share: operand checks, the common factor maps and linearities, strided copies, small builders.
#pragma once

#include <string>

#include "tessera/ir/builder.h"
#include "tessera/ir/localize_context.h"

namespace tessera::rows {

// ---- checks of infer ------------------------------------------------------------------------------------------------

/// `[3,4]`.
std::string dims_text(const Dims& dims);
/// Operand i's type; Error unless it is an array.
const Type& array_operand(const OpView& view, int i);
/// Error unless operand i is a scalar array.
const Type& scalar_operand(const OpView& view, int i, std::string_view what);
/// The declared type; Error unless one was given and is an array.
const Type& declared_array(const OpView& view);
/// The declared type where it equals `inferred` (it may carry a layout), else `inferred`.
Type declared_or(const OpView& view, Type inferred);
/// Error unless `dim` is one of ndim dims; `what` names it: "iota_dimension".
void check_dim(std::int64_t dim, int ndim, std::string_view what);
/// Error unless every entry is a dim and none comes twice.
void check_distinct_dims(const Dims& dims, int ndim, std::string_view what);
bool contains(const Dims& dims, std::int64_t dim);

// ---- factors, linearity, localize, flops ----------------------------------------------------------------------------

/// One kPass factor per dim of the result, shared by the operands; scalar operands have none.
FactorMap elementwise_factors(const OpView& view);
/// The leaves of the operands, in order, are the leaves of the result (copy, tuple, opt-barrier).
FactorMap leafwise_factors(const OpView& view);
/// One fresh factor per dim of `type`; returns the tensor's entry.
TensorFactors add_factors(FactorMap& map, const Type& type, FactorKind kind = FactorKind::kPass);

inline Linearity none(const OpView&, int) { return Linearity::kNone; }
inline Linearity linear(const OpView&, int) { return Linearity::kLinear; }
inline Linearity jointly_linear(const OpView&, int) { return Linearity::kJointlyLinear; }
inline Linearity monotone(const OpView&, int) { return Linearity::kMonotone; }
inline Linearity passes_all(const OpView&, int) { return Linearity::kAny; }

/// The same op and attributes, with the local result as the declared type: for ops whose text declares it.
Value localize_declared(LocalizeContext& context);
/// The instruction again, with other operands or attributes.
Value emit_local(LocalizeContext& context, const std::vector<Value>& operands, Attributes attributes);
/// `scalar` on the device at coordinate 0 of the axes the result is partial over, the reduction's identity elsewhere, so that
/// it counts once. Just `scalar` when the result is not partial or the scalar is known to be the identity.
Value counted_once(LocalizeContext& context, Value scalar);

inline double no_flops(const OpView&) { return 0; }

// ---- reference evaluation -------------------------------------------------------------------------------------------

/// Copies a box of elements between two arrays, each with its strides (in elements; may be 0 or negative) from a first one.
struct StridedSide {
  std::int64_t offset = 0;
  Dims strides;
};
void strided_copy(const Literal& from, const StridedSide& source, Literal& to, const StridedSide& target,
                  const Dims& box);
/// An array of `type` whose elements are all the scalar's.
Literal splat_literal(const Literal& scalar, const Type& type);

/// NaN where either is; +0 is larger than -0.
double larger(double a, double b);
double smaller(double a, double b);

/// Whether operands or results have elements narrower than any C++ type: s4, f8e4m3fn, ...
bool has_narrow(const EvalContext& context);
/// `evaluate` on operands widened to f32, s8 or u8, its result rounded or wrapped back; called computations see narrow elements.
Literal evaluate_widened(const EvalContext& context, Literal (*evaluate)(const EvalContext&));
/// An array's elements as f64, or as s64.
Literal as_widest(const Literal& x);

// ---- gradients ------------------------------------------------------------------------------------------------------

/// A constant of x's type.
Value full_like(Value x, double value);
/// The sum over all dims: a scalar.
Value sum_all(Value x);

}  // namespace tessera::rows
