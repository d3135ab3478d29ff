// SPDX-License-Identifier: Apache-2.0
//   %f = c64[5,8] fft(%x), fft_type=FFT, fft_length={8}          IFFT is the same, divided by the length
//   %f = c64[5,5] fft(%x), fft_type=RFFT, fft_length={8}         of f32[5,8]; IRFFT is its inverse
// The transform by definition: a sum per element and transformed dim.
#include <cmath>

#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {
constexpr EnumWord<FftType> kTypes[] = {
    {FftType::kFft, "FFT"}, {FftType::kIfft, "IFFT"}, {FftType::kRfft, "RFFT"}, {FftType::kIrfft, "IRFFT"}};
}  // namespace
std::string field_text(FftType value) { return enum_text(kTypes, value); }
void parse_field(std::string_view text, FftType& value) { value = enum_value(kTypes, trim(text)); }

namespace rows {
namespace {

const FftAttributes& fft(const OpView& view) { return view.as<FftAttributes>(); }
bool is_inverse(FftType type) { return type == FftType::kIfft || type == FftType::kIrfft; }

Type infer_fft(const OpView& view) {
  const Type& x = array_operand(view, 0);
  const auto& [type, length] = fft(view);
  const int count = isize(length);
  require(
      count >= 1 && count <= 3 && count <= x.ndim(), "fft_length {} must name 1 to 3 of the {} dims",
      [&] { return field_text(length); }, x.ndim());
  const bool from_real = type == FftType::kRfft;
  require(from_real ? is_float(x.dtype()) && dtype_size(x.dtype()) >= 4 : is_complex(x.dtype()), "{} takes {}, got {}",
          field_text(type), from_real ? "f32 or f64" : "complex elements", x);
  Dims dims = x.dims();
  for (int i = 0; i < count; ++i) {
    auto& size = at(dims, x.ndim() - count + i);
    const bool halved = i + 1 == count && type == FftType::kIrfft;
    const auto expected = halved ? at(length, i) / 2 + 1 : at(length, i);
    require(
        size == expected, "fft_length {} needs {} elements in dim {} of {}", [&] { return field_text(length); },
        expected, x.ndim() - count + i, x);
    if (i + 1 == count) size = from_real ? at(length, i) / 2 + 1 : at(length, i);
  }
  const DType result = from_real                 ? complex_dtype(x.dtype())
                       : type == FftType::kIrfft ? real_dtype(x.dtype())
                                                 : x.dtype();
  return declared_or(view, Type::array(result, std::move(dims)));
}

using Line = std::vector<Complex128>;

Line transformed(const Line& x, bool inverse) {
  const auto n = static_cast<std::int64_t>(x.size());
  Line out(x.size());
  const double turn = (inverse ? 2 : -2) * 3.14159265358979323846 / static_cast<double>(n);
  for (std::int64_t k = 0; k < n; ++k) {
    Complex128 sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += at(x, j) * std::polar(1.0, turn * static_cast<double>(j * k % n));
    at(out, k) = inverse ? sum / static_cast<double>(n) : sum;
  }
  return out;
}

// Transforms every line of `data` along dim.
void transform_dim(Line& data, const Dims& dims, int dim, bool inverse) {
  const Dims strides = row_major_strides(dims);
  Dims lines = dims;
  at(lines, dim) = 1;
  Line line(static_cast<std::size_t>(at(dims, dim)));
  for_each_index(lines, [&](const Dims& index) {
    std::int64_t base = 0;
    for (std::size_t d = 0; d < index.size(); ++d) base += index[d] * strides[d];
    for (std::int64_t i = 0; i < isize(line); ++i) at(line, i) = at(data, base + i * at(strides, dim));
    const Line done = transformed(line, inverse);
    for (std::int64_t i = 0; i < isize(line); ++i) at(data, base + i * at(strides, dim)) = at(done, i);
  });
}

Line line_of(const Literal& x) {
  Line out;
  visit_any_dtype(x.type().dtype(), [&]<class T>() {
    if constexpr (is_complex(kDTypeOf<T>) || is_float(kDTypeOf<T>))
      for (const T value : x.data<T>()) {
        if constexpr (is_complex(kDTypeOf<T>))
          out.emplace_back(value.real(), value.imag());
        else
          out.emplace_back(static_cast<double>(value));
      }
  });
  return out;
}

// Truncates the last dim to `size`, or extends it by symmetry: x[n - k] = conj(x[k]) in all transformed dims, of which
// only the last is half.
Line resized(const Line& from, const Dims& from_dims, const Dims& to_dims) {
  Line out;
  out.reserve(static_cast<std::size_t>(product(to_dims)));
  const Dims strides = row_major_strides(from_dims);
  for_each_index(to_dims, [&](const Dims& index) {
    std::int64_t place = 0;
    const auto last = index.size() - 1;
    const bool mirrored = index[last] >= from_dims[last];
    for (std::size_t d = 0; d < index.size(); ++d)
      place += (mirrored && d == last ? to_dims[d] - index[d] : index[d]) * strides[d];
    out.push_back(mirrored ? std::conj(at(from, place)) : at(from, place));
  });
  return out;
}

Literal evaluate_fft(const EvalContext& context) {
  const auto& [type, length] = fft(context.view);
  const Type& x = context.operands[0].type();
  Literal out(context.view.result);
  if (x.element_count() == 0 || out.type().element_count() == 0) return out;
  Dims dims = x.dims();
  Line data = line_of(context.operands[0]);
  const int first = x.ndim() - isize(length);
  const int last = x.ndim() - 1;
  // The half-length dim is transformed last to become real, and first to be truncated.
  if (type == FftType::kRfft) {
    transform_dim(data, dims, last, false);
    data = resized(data, dims, out.type().dims());
    dims = out.type().dims();
  }
  for (int d = first; d < last; ++d) transform_dim(data, dims, d, is_inverse(type));
  if (type == FftType::kIrfft) {
    for (std::int64_t i = 0; i < isize(data); i += at(dims, last)) {  // parts that a real result cannot have
      at(data, i) = at(data, i).real();
      if (at(length, isize(length) - 1) % 2 == 0)
        at(data, i + at(dims, last) - 1) = at(data, i + at(dims, last) - 1).real();
    }
    data = resized(data, dims, out.type().dims());
    dims = out.type().dims();
  }
  if (type != FftType::kRfft) transform_dim(data, dims, last, is_inverse(type));
  visit_any_dtype(out.type().dtype(), [&]<class T>() {
    auto to = out.mutable_data<T>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      if constexpr (is_complex(kDTypeOf<T>))
        to[i] = T(data[i]);
      else if constexpr (is_float(kDTypeOf<T>))
        to[i] = static_cast<T>(data[i].real());
    }
  });
  return out;
}

FactorMap factors_fft(const OpView& view) {
  FactorMap map;
  const Type& x = view.operands[0];
  const int batch_dims = x.ndim() - isize(fft(view).fft_length);
  TensorFactors operand;
  TensorFactors result;
  for (int d = 0; d < x.ndim(); ++d) {
    operand.push_back({map.add(x.dim(d), d < batch_dims ? FactorKind::kPass : FactorKind::kBlocked)});
    result.push_back(x.dim(d) == view.result.dim(d) ? operand.back()
                                                    : DimFactors{map.add(view.result.dim(d), FactorKind::kBlocked)});
  }
  map.operands = {std::move(operand)};
  map.results = {std::move(result)};
  return map;
}

double flops_fft(const OpView& view) {  // 5 n log2 n, as usual
  const auto n = static_cast<double>(product(fft(view).fft_length));
  return 5 * static_cast<double>(view.result.element_count()) * std::log2(std::max(n, 2.0));
}

// y = F x is linear with F symmetric: d_x = conj(F) d_y, the unscaled inverse; and for the inverse F / n.
std::vector<Value> gradient_fft(GradientContext& c) {
  const auto& [type, length] = fft(c.view);
  const Value d = c.d_result();
  require(type == FftType::kFft || type == FftType::kIfft || length.size() == 1,
          "{} over several dims has no gradient here", field_text(type));
  const auto n = static_cast<double>(product(length));
  const auto scaled = [&](Value x, double by) { return ops::multiply(x, ops::full(c.builder, x.type(), by)); };
  const Type& x = c.view.operands[0];
  const int last = x.ndim() - 1;
  if (type == FftType::kFft) return {scaled(ops::fft(d, FftType::kIfft, length), n)};
  if (type == FftType::kIfft) return {scaled(ops::fft(d, FftType::kFft, length), 1 / n)};
  if (type == FftType::kRfft) {  // the other half of the spectrum has no gradient_fft
    std::vector<PaddingDim> padding(x.dims().size());
    padding.back().high = x.dim(last) - d.type().dim(last);
    const Value full = ops::pad(d, ops::scalar(c.builder, d.type().dtype(), 0), padding);
    return {scaled(ops::real(ops::fft(full, FftType::kIfft, length)), n)};
  }
  // All frequencies count twice except the first and, for an even length, the middle one.
  Literal weights(Type::array(real_dtype(x.dtype()), {x.dim(last)}));
  visit_dtype(weights.type().dtype(), [&]<class T>() {
    if constexpr (is_float(kDTypeOf<T>)) {
      auto to = weights.mutable_data<T>();
      for (std::int64_t k = 0; k < x.dim(last); ++k) at(to, k) = T((k == 0 || 2 * k == length[0] ? 1 : 2) / n);
    }
  });
  const Value weight = ops::broadcast(ops::convert(ops::constant(c.builder, weights), x.dtype()), x.dims(), {last});
  return {ops::multiply(ops::fft(d, FftType::kRfft, length), weight)};
}

}  // namespace

const OpDef kFft{.name = "fft",
                 .min_operands = 1,
                 .max_operands = 1,
                 .parse = parse_attributes<FftAttributes>,
                 .infer = infer_fft,
                 .evaluate = evaluate_fft,
                 .gradient_kind = GradientKind::kFunction,
                 .gradient = gradient_fft,
                 .batch = batch_same,
                 .factors = factors_fft,
                 .linearity = jointly_linear,
                 .flops = flops_fft};

}  // namespace rows

Value ops::fft(Value x, FftType type, Dims fft_length) {
  return x.builder->emit(rows::kFft, {x}, make_attributes(FftAttributes{type, std::move(fft_length)}));
}

}  // namespace tessera
