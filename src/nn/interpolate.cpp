// SPDX-License-Identifier: Apache-2.0
// Resizing by a matrix [out, in] for each dim, or by positions if each element is a copy.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "constant_positions.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/shaping.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera::nn {
namespace {

constexpr int kFirstSize = 2;  // the dims before it are [n, c]

/// How one dim is resized.
struct Resizing {
  std::int64_t in = 0;
  std::int64_t out = 0;
  double step = 1;  // the distance, in elements of the input, between two elements of the output
};

/// The elements of the input, one for each element of the output, and their weights.
struct Tap {
  std::vector<std::int32_t> positions;
  std::vector<double> weights;
};

bool is_nearest(InterpolateMode mode) {
  return mode == InterpolateMode::kNearest || mode == InterpolateMode::kNearestExact;
}

int size_count(InterpolateMode mode) {
  switch (mode) {
    case InterpolateMode::kLinear: return 1;
    case InterpolateMode::kBilinear:
    case InterpolateMode::kBicubic: return 2;
    case InterpolateMode::kTrilinear: return 3;
    default: return 0;  // any
  }
}

void check_interpolate(const Tensor& x, const InterpolateOptions& options) {
  const int sizes = x.ndim() - kFirstSize;
  require(sizes >= 1 && sizes <= 3, "interpolate needs [n, c, l], [n, c, h, w] or [n, c, d, h, w], got {}", x.type());
  require(is_float(x.dtype()) || is_nearest(options.mode), "interpolate between elements needs floats, got {}",
          x.type());
  const int needed = size_count(options.mode);
  require(needed == 0 || needed == sizes, "interpolate: this mode needs {} dims after [n, c], got {}", needed,
          x.type());
  require(!options.align_corners || !is_nearest(options.mode),
          "interpolate: align_corners has no meaning if elements are copied (kNearest, kNearestExact)");
  const auto given = options.size.empty() ? options.scale_factor.size() : options.size.size();
  require(options.size.empty() != options.scale_factor.empty(), "interpolate needs either size or scale_factor");
  require(given == 1 || given == static_cast<std::size_t>(sizes), "interpolate: {} needs 1 or {} numbers, got {}",
          options.size.empty() ? "scale_factor" : "size", sizes, given);
  for (const std::int64_t size : options.size) require(size >= 1, "interpolate: a size must be positive, got {}", size);
  for (const double factor : options.scale_factor)
    require(factor > 0 && std::isfinite(factor), "interpolate: a factor must be positive, got {}", factor);
}

// PyTorch's linear modes copy a dim that keeps its size, whatever the factor is. Its kNearest does so only in some kernels
// (for small and for channels-last images); the others, and its documentation, use the factor.
bool ignores_factor(const Resizing& resizing, InterpolateMode mode) {
  return resizing.out == resizing.in && !is_nearest(mode) && mode != InterpolateMode::kBicubic;
}

Resizing resizing_of(const Tensor& x, int dim, const InterpolateOptions& options) {
  const auto of_dim = [&](const auto& numbers) { return numbers[numbers.size() == 1 ? 0 : dim - kFirstSize]; };
  Resizing out{.in = x.dim(dim)};
  const bool has_factor = !options.scale_factor.empty();
  out.out = has_factor
                ? static_cast<std::int64_t>(std::floor(static_cast<double>(out.in) * of_dim(options.scale_factor)))
                : of_dim(options.size);
  require(out.in >= 1 && out.out >= 1, "interpolate: dim {} of {} would have the size {}", dim, x.type(), out.out);
  if (options.align_corners)
    out.step = out.out > 1 ? static_cast<double>(out.in - 1) / static_cast<double>(out.out - 1) : 0;
  else if (has_factor && !options.recompute_scale_factor && !ignores_factor(out, options.mode))
    out.step = 1 / of_dim(options.scale_factor);
  else
    out.step = static_cast<double>(out.in) / static_cast<double>(out.out);
  return out;
}

// PyTorch's positions: the step and the product are rounded to f32.
std::vector<std::int32_t> nearest_positions(const Resizing& resizing, InterpolateMode mode) {
  std::vector<std::int32_t> out;
  const auto step = static_cast<float>(resizing.step);
  const double offset = mode == InterpolateMode::kNearestExact ? 0.5 : 0;
  for (std::int64_t i = 0; i < resizing.out; ++i) {
    const auto position = static_cast<float>((static_cast<double>(i) + offset) * static_cast<double>(step));
    const auto element = static_cast<std::int64_t>(std::floor(position));
    out.push_back(static_cast<std::int32_t>(std::min(element, resizing.in - 1)));
  }
  return out;
}

// The cubic convolution of Keys (1981) at a distance, with PyTorch's parameter.
double cubic_weight(double distance) {
  constexpr double kA = -0.75;
  const double x = std::abs(distance);
  if (x <= 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA : 0;
}

std::vector<Tap> taps_of(const Resizing& resizing, const InterpolateOptions& options) {
  const bool is_cubic = options.mode == InterpolateMode::kBicubic;
  const int first = is_cubic ? -1 : 0;
  std::vector<Tap> out(is_cubic ? 4 : 2);
  for (std::int64_t i = 0; i < resizing.out; ++i) {
    const auto place = static_cast<double>(i);
    double position = options.align_corners ? resizing.step * place : resizing.step * (place + 0.5) - 0.5;
    if (!is_cubic) position = std::max(position, 0.0);
    const double below = std::floor(position);
    for (int k = 0; k < isize(out); ++k) {
      Tap& tap = at(out, k);
      const double distance = position - (below + first + k);
      const auto element = static_cast<std::int64_t>(below) + first + k;
      tap.positions.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(element, 0, resizing.in - 1)));
      tap.weights.push_back(is_cubic ? cubic_weight(distance) : 1 - std::abs(distance));
    }
  }
  return out;
}

// The matrix [out, in] with the weights of the taps.
Tensor matrix_of(const std::vector<Tap>& taps, const Resizing& resizing, DType dtype,
                 const std::source_location& where) {
  return trace().record(where, [&](Builder& builder) {
    const Dims dims{resizing.out, resizing.in};
    const Type type = Type::array(dtype, dims);
    const Value column = ops::iota(builder, Type::array(DType::kS32, dims), 1);
    Value out = ops::full(builder, type, 0);
    for (const Tap& tap : taps) {
      const Value position = ops::constant(builder, Literal::from<std::int32_t>({resizing.out}, tap.positions));
      const Value weight = ops::constant(builder, Literal::from<double>({resizing.out}, tap.weights));
      const Value is_tap = ops::compare(column, ops::broadcast(position, dims, {0}), CompareDirection::kEq);
      const Value weights = ops::broadcast(ops::convert(weight, dtype), dims, {0});
      out = ops::add(out, ops::select(is_tap, weights, ops::full(builder, type, 0)));
    }
    return out;
  });
}

Tensor copied_elements(const Tensor& x, int dim, const Resizing& resizing, const InterpolateOptions& options,
                       const std::source_location& where) {
  const std::int64_t factor = resizing.out / resizing.in;
  const std::vector<std::int32_t> positions = nearest_positions(resizing, options.mode);
  bool repeats = factor * resizing.in == resizing.out;
  for (std::int64_t i = 0; repeats && i < resizing.out; ++i) repeats = at(positions, i) == i / factor;
  if (!repeats) return index_select({x, where}, dim, {constant_positions(positions, where), where});
  if (factor == 1) return x;
  Dims repeated = x.dims();
  repeated.insert(repeated.begin() + dim + 1, factor);
  Dims result = x.dims();
  at(result, dim) = resizing.out;
  return x.unsqueeze(dim + 1, where).broadcast_to(repeated, where).reshape(result, where);
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options, std::source_location where) {
  return library_call({&x}, where, [&]() -> Tensor {
    check_interpolate(x, options);
    std::vector<Resizing> resizings;
    for (int dim = kFirstSize; dim < x.ndim(); ++dim) resizings.push_back(resizing_of(x, dim, options));
    if (is_nearest(options.mode)) {
      Tensor out = x;
      for (int k = 0; k < isize(resizings); ++k)
        out = copied_elements(out, kFirstSize + k, at(resizings, k), options, where);
      return out;
    }
    const DType dtype = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
    Tensor out = x.to(dtype);
    // A product moves dim 2 to the end, so that the next dim is dim 2.
    for (const Resizing& resizing : resizings)
      out = dot(out, matrix_of(taps_of(resizing, options), resizing, dtype, where),
                {.lhs_contracting = {kFirstSize}, .rhs_contracting = {1}});
    return out.to(x.dtype());
  });
}

Upsample::Upsample(const Size2d& scale_factor) {
  const Dims& factors = scale_factor;
  const bool is_positive = std::all_of(factors.begin(), factors.end(), [](std::int64_t factor) { return factor >= 1; });
  require((factors.size() == 1 || factors.size() == 2) && is_positive,
          "Upsample: scale_factor needs one or two positive integers, got {{{}}}", fmt::join(factors, ", "));
  for (const std::int64_t factor : factors) options_.scale_factor.push_back(static_cast<double>(factor));
}

Tensor Upsample::forward(const Tensor& x) { return interpolate(x, options_, detail::current_call()); }

}  // namespace tessera::nn
