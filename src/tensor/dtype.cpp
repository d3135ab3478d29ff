// SPDX-License-Identifier: Apache-2.0
#include "tessera/tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/tensor/float16_bits.h"

namespace tessera {
namespace {

struct Row {
  std::string_view name;
  std::int64_t size;
};
constexpr std::array<Row, kDTypeCount + 17> kRows = {
    {{"pred", 1},     {"s8", 1},         {"s16", 2},    {"s32", 4},        {"s64", 8},
     {"u8", 1},       {"u16", 2},        {"u32", 4},    {"u64", 8},        {"f16", 2},
     {"bf16", 2},     {"f32", 4},        {"f64", 8},    {"c64", 8},        {"c128", 16},
     {"s1", 1},       {"s2", 1},         {"s4", 1},     {"u1", 1},         {"u2", 1},
     {"u4", 1},       {"f4e2m1fn", 1},   {"f8e3m4", 1}, {"f8e4m3", 1},     {"f8e4m3b11fnuz", 1},
     {"f8e4m3fn", 1}, {"f8e4m3fnuz", 1}, {"f8e5m2", 1}, {"f8e5m2fnuz", 1}, {"f8e8m0fnu", 1}}};

// Rounds a finite |value| to `mantissa_bits` + 1 significant bits, ties to even. Values with exponents below
// `min_exponent` become subnormal. Both 16-bit types use this rounding.
double round_to(double value, int mantissa_bits, int min_exponent) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 1, min_exponent) - mantissa_bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& row : kRows) names.emplace_back(row.name);
  return names;
}

}  // namespace

BFloat16::BFloat16(double value) {
  if (!std::isfinite(value) || value == 0.0) {
    *this = BFloat16(static_cast<float>(value));
    return;
  }
  *this = BFloat16(static_cast<float>(round_to(value, 7, -126)));
}

Float16::Float16(double value) {
  if (const auto narrow = static_cast<float>(value); static_cast<double>(narrow) == value) {
    bits = detail::f16_of_float(narrow);
    return;
  }
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
  if (std::isnan(value)) {
    bits = static_cast<std::uint16_t>(sign | 0x7e00U);
    return;
  }
  double magnitude = std::fabs(value);
  if (std::isfinite(magnitude) && magnitude != 0.0) magnitude = round_to(magnitude, 10, -14);
  if (magnitude > 65504.0) {
    bits = static_cast<std::uint16_t>(sign | 0x7c00U);
    return;
  }
  if (magnitude < std::ldexp(1.0, -14)) {  // subnormal: a multiple of 2^-24
    bits = static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::ldexp(magnitude, 24)));
    return;
  }
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // [0.5, 1)
  const auto mantissa = static_cast<unsigned>(std::ldexp(fraction, 11)) & 0x3ffU;
  bits = static_cast<std::uint16_t>(sign | (static_cast<unsigned>(exponent + 14) << 10) | mantissa);
}

Float16::operator float() const { return detail::float_of_f16(bits); }

std::string_view dtype_name(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].name; }

std::int64_t dtype_size(DType dtype) { return kRows[static_cast<std::size_t>(dtype)].size; }

void fail_dtype(DType dtype) { fail("{} elements are not supported here", dtype_name(dtype)); }

bool is_dtype_name(std::string_view name) {
  return std::any_of(kRows.begin(), kRows.end(), [&](const Row& row) { return row.name == name; });
}

DType dtype_from_name(std::string_view name) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == name; });
  if (row == kRows.end()) fail("unknown element type \"{}\"{}", name, suggest_name(name, all_names()));
  return static_cast<DType>(row - kRows.begin());
}

}  // namespace tessera
