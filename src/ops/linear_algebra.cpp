// SPDX-License-Identifier: Apache-2.0
//   %l = f32[4,5,5] cholesky(%a), lower=true                                A = L L^H; L is zero above the diagonal
//   %x = f32[4,5,3] triangular-solve(%a, %b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
// For every matrix of the last two dims; only the named triangle of A is read.
#include <cmath>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {
constexpr EnumWord<TransposeA> kTransposes[] = {{TransposeA::kNoTranspose, "NO_TRANSPOSE"},
                                                {TransposeA::kTranspose, "TRANSPOSE"},
                                                {TransposeA::kAdjoint, "ADJOINT"}};
}  // namespace
std::string field_text(TransposeA value) { return enum_text(kTransposes, value); }
void parse_field(std::string_view text, TransposeA& value) { value = enum_value(kTransposes, trim(text)); }

namespace rows {
namespace {

using Matrix = std::vector<Complex128>;  // row-major

const Type& square_operand(const OpView& view) {
  const Type& a = array_operand(view, 0);
  require(is_float(a.dtype()) || is_complex(a.dtype()), "takes floating-point or complex elements, got {}", a);
  require(a.ndim() >= 2 && a.dim(a.ndim() - 1) == a.dim(a.ndim() - 2),
          "the last two dims must have equal sizes, got {}", a);
  return a;
}

Matrix matrix_at(const Literal& x, std::int64_t which, std::int64_t size) {
  Matrix out;
  out.reserve(static_cast<std::size_t>(size));
  visit_any_dtype(x.type().dtype(), [&]<class T>() {
    if constexpr (is_complex(kDTypeOf<T>))
      for (std::int64_t i = 0; i < size; ++i) out.push_back(Complex128(at(x.data<T>(), which * size + i)));
    else
      for (std::int64_t i = 0; i < size; ++i) out.emplace_back(static_cast<double>(at(x.data<T>(), which * size + i)));
  });
  return out;
}

void put_matrix(Literal& out, std::int64_t which, const Matrix& values) {
  visit_any_dtype(out.type().dtype(), [&]<class T>() {
    auto to = out.mutable_data<T>();
    std::int64_t next = which * static_cast<std::int64_t>(values.size());
    for (const Complex128& value : values) {
      if constexpr (is_complex(kDTypeOf<T>))
        at(to, next++) = T(value);
      else if constexpr (is_float(kDTypeOf<T>))
        at(to, next++) = static_cast<T>(value.real());
    }
  });
}

// Batch dims pass, and matrices stay unsharded. free_dim: among the last two dims of b and the result, the one that
// passes too.
FactorMap matrix_factors(const OpView& view, int free_dim) {
  FactorMap map;
  const Type& a = view.operands[0];
  TensorFactors batch;
  for (int d = 0; d < a.ndim() - 2; ++d) batch.push_back({map.add(a.dim(d))});
  const auto with_matrix = [&](const Type& type, int passes) {
    TensorFactors out = batch;
    for (int d = 0; d < 2; ++d)
      out.push_back({map.add(type.dim(type.ndim() - 2 + d), d == passes ? FactorKind::kPass : FactorKind::kBlocked)});
    return out;
  };
  map.operands = {with_matrix(a, -1)};
  if (view.operands.size() == 1) {
    map.results = map.operands;
    return map;
  }
  map.operands.push_back(with_matrix(view.operands[1], free_dim));
  map.results = {map.operands[1]};
  return map;
}

// ---- cholesky ------------------------------------------------------------------------------------------------------

Type infer_cholesky(const OpView& view) { return declared_or(view, square_operand(view)); }

// The lower factor; NaN everywhere if the matrix is not positive definite.
Matrix lower_factor(const Matrix& a, std::int64_t n) {
  Matrix l(a.size());
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = j; i < n; ++i) {
      Complex128 sum = at(a, i * n + j);
      for (std::int64_t k = 0; k < j; ++k) sum -= at(l, i * n + k) * std::conj(at(l, j * n + k));
      if (i == j && !(sum.real() > 0)) return Matrix(a.size(), Complex128(std::nan("")));
      at(l, i * n + j) = i == j ? Complex128(std::sqrt(sum.real())) : sum / at(l, j * n + j);
    }
  return l;
}

// conj(x)^T
Matrix adjoint(const Matrix& x, std::int64_t n) {
  Matrix out(x.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) at(out, i * n + j) = std::conj(at(x, j * n + i));
  return out;
}

Literal evaluate_cholesky(const EvalContext& context) {
  const Type& type = context.operands[0].type();
  const std::int64_t n = type.dims().back();
  const bool lower = context.view.as<CholeskyAttributes>().lower;
  Literal out(context.view.result);
  for (std::int64_t m = 0; n > 0 && m < type.element_count() / (n * n); ++m) {
    const Matrix a = matrix_at(context.operands[0], m, n * n);
    const Matrix l = lower_factor(lower ? a : adjoint(a, n), n);
    put_matrix(out, m, lower ? l : adjoint(l, n));
  }
  return out;
}

// Ones on and below the diagonal of [.., n, n] (`diagonal` on it), as elements.
Value lower_mask(Builder& b, Type type, double diagonal) {  // NOLINT: a copy, types move as the builder grows
  const int n = type.ndim();
  const Type index = type.with_dtype(DType::kS32);
  const Value row = ops::iota(b, index, n - 2);
  const Value column = ops::iota(b, index, n - 1);
  const Value below =
      ops::select(ops::compare(row, column, CompareDirection::kGt), ops::full(b, type, 1), ops::full(b, type, 0));
  return ops::select(ops::compare(row, column, CompareDirection::kEq), ops::full(b, type, diagonal), below);
}
Value swapped(Value x) {
  Dims order(x.type().dims().size());
  for (std::int64_t i = 0; i < isize(order); ++i) at(order, i) = i;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return ops::transpose(x, order);
}
Value product_of(Value a, Value b) {
  const std::int64_t n = a.type().ndim();
  DotAttributes dims;
  for (std::int64_t d = 0; d < n - 2; ++d) dims.lhs_batch_dims.push_back(d);
  dims.rhs_batch_dims = dims.lhs_batch_dims;
  dims.lhs_contracting_dims = {n - 1};
  dims.rhs_contracting_dims = {n - 2};
  return ops::dot(a, b, std::move(dims));
}

// d_A = L^-T P L^-1, where P is the lower half of L^T d_L with its diagonal halved. The result is symmetric; it is
// moved to the triangle that is read, whose elements below the diagonal count twice.
std::vector<Value> gradient_cholesky(GradientContext& c) {
  const bool lower = c.view.as<CholeskyAttributes>().lower;
  const Value l = lower ? c.result : swapped(c.result);
  const Value d = lower ? c.d_result() : swapped(c.d_result());
  const Value p = ops::multiply(product_of(swapped(l), d), lower_mask(c.builder, l.type(), 0.5));
  const TriangularSolveAttributes left{true, true, false, TransposeA::kTranspose};
  const TriangularSolveAttributes right{false, true, false, TransposeA::kNoTranspose};
  const Value s = ops::triangular_solve(l, ops::triangular_solve(l, p, left), right);
  const Value both = ops::multiply(ops::add(s, swapped(s)), lower_mask(c.builder, l.type(), 0.5));
  return {lower ? both : swapped(both)};
}

// ---- triangular-solve ----------------------------------------------------------------------------------------------

Type infer_solve(const OpView& view) {
  const Type& a = square_operand(view);
  const Type& b = array_operand(view, 1);
  const auto& attributes = view.as<TriangularSolveAttributes>();
  require(a.dtype() == b.dtype(), "element types differ: {} and {}", a, b);
  require(a.ndim() == b.ndim() && std::equal(a.dims().begin(), a.dims().end() - 2, b.dims().begin()),
          "the batch dims differ: {} and {}", a, b);
  const int dim = b.ndim() - (attributes.left_side ? 2 : 1);
  require(b.dim(dim) == a.dims().back(), "dim {} of {} must have the size of the last two dims of {}", dim, b, a);
  return declared_or(view, b);
}

// Solves T X = B for X, where T is a lower or upper triangular [n, n] and B is [n, m].
Matrix solved(const Matrix& t, Matrix x, std::int64_t n, std::int64_t m, bool lower, bool unit) {
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = lower ? step : n - 1 - step;
    for (std::int64_t j = 0; j < m; ++j) {
      Complex128 sum = at(x, i * m + j);
      for (std::int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) sum -= at(t, i * n + k) * at(x, k * m + j);
      at(x, i * m + j) = unit ? sum : sum / at(t, i * n + i);
    }
  }
  return x;
}

Matrix transposed(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  Matrix out(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) at(out, j * rows + i) = at(x, i * columns + j);
  return out;
}

Literal evaluate_solve(const EvalContext& context) {
  const auto& a = context.view.as<TriangularSolveAttributes>();
  const Dims& dims = context.view.result.dims();
  const std::int64_t n = context.operands[0].type().dims().back();
  const std::int64_t rows = dims[dims.size() - 2];
  const std::int64_t columns = dims.back();
  Literal out(context.view.result);
  if (out.type().element_count() == 0) return out;
  for (std::int64_t m = 0; m < out.type().element_count() / (rows * columns); ++m) {
    Matrix t = matrix_at(context.operands[0], m, n * n);
    bool lower = a.lower;
    if (a.transpose_a != TransposeA::kNoTranspose) {
      t = a.transpose_a == TransposeA::kAdjoint ? adjoint(t, n) : transposed(t, n, n);
      lower = !lower;
    }
    const Matrix b = matrix_at(context.operands[1], m, rows * columns);
    if (a.left_side)  // X T = B is T^T X^T = B^T
      put_matrix(out, m, solved(t, b, n, columns, lower, a.unit_diagonal));
    else
      put_matrix(out, m,
                 transposed(solved(transposed(t, n, n), transposed(b, rows, columns), n, rows, !lower, a.unit_diagonal),
                            n, rows));
  }
  return out;
}

FactorMap solve_factors(const OpView& view) {
  return matrix_factors(view, view.as<TriangularSolveAttributes>().left_side ? 1 : 0);
}
double solve_flops(const OpView& view) {
  return static_cast<double>(view.result.element_count()) * static_cast<double>(view.operands[0].dims().back());
}
double cholesky_flops(const OpView& view) {
  return static_cast<double>(view.result.element_count()) * static_cast<double>(view.result.dims().back()) / 3;
}

// d_B solves the transposed system; d_op(A) = -d_B X^T (left) or -X^T d_B, in the triangle that is read.
std::vector<Value> gradient_solve(GradientContext& c) {
  auto attributes = c.view.as<TriangularSolveAttributes>();
  const bool transposes = attributes.transpose_a != TransposeA::kNoTranspose;
  auto back = attributes;
  back.transpose_a = transposes ? TransposeA::kNoTranspose : TransposeA::kTranspose;
  const Value d_b = ops::triangular_solve(c.operand(0), c.d_result(), back);
  std::vector<Value> out{Value{}, d_b};
  if (!c.needs(0)) return out;
  Value d_a = attributes.left_side ? product_of(d_b, swapped(c.result)) : product_of(swapped(c.result), d_b);
  if (transposes) d_a = swapped(d_a);
  const Value mask = lower_mask(c.builder, d_a.type(), attributes.unit_diagonal ? 0 : 1);
  out[0] = ops::negate(ops::multiply(d_a, attributes.lower ? mask : swapped(mask)));
  return out;
}

}  // namespace

const OpDef kCholesky{.name = "cholesky",
                      .min_operands = 1,
                      .max_operands = 1,
                      .parse = parse_attributes<CholeskyAttributes>,
                      .infer = infer_cholesky,
                      .evaluate = evaluate_cholesky,
                      .gradient_kind = GradientKind::kFunction,
                      .gradient = gradient_cholesky,
                      .batch = batch_same,
                      .factors = [](const OpView& view) { return matrix_factors(view, -1); },
                      .flops = cholesky_flops};
const OpDef kTriangularSolve{
    .name = "triangular-solve",
    .min_operands = 2,
    .max_operands = 2,
    .parse = parse_attributes<TriangularSolveAttributes>,
    .infer = infer_solve,
    .evaluate = evaluate_solve,
    .gradient_kind = GradientKind::kFunction,
    .gradient = gradient_solve,
    .batch = batch_same,
    .factors = solve_factors,
    .linearity = [](const OpView&, int operand) { return operand == 1 ? Linearity::kLinear : Linearity::kNone; },
    .flops = solve_flops};

}  // namespace rows

Value ops::cholesky(Value a, bool lower) {
  return a.builder->emit(rows::kCholesky, {a}, make_attributes(CholeskyAttributes{lower}));
}
Value ops::triangular_solve(Value a, Value b, TriangularSolveAttributes attributes) {
  return a.builder->emit(rows::kTriangularSolve, {a, b}, make_attributes(attributes));
}

}  // namespace tessera
