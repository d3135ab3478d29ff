// SPDX-License-Identifier: Apache-2.0
#include "localize/device_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera {
Value number(Builder& builder, std::int64_t value) {
  require(
      value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max(),
      "a position of {} along a sharded dim is needed; per-device programs count positions in s32, up to 2147483647",
      value);
  return ops::constant(builder, Literal::scalar(static_cast<std::int32_t>(value)));
}

Value device_number(Builder& builder) { return ops::convert(ops::partition_id(builder), DType::kS32); }

namespace {

Value scaled(Value x, std::int64_t scale, std::int64_t shift) {
  if (scale != 1) x = ops::multiply(x, number(*x.builder, scale));
  return shift == 0 ? x : ops::add(x, number(*x.builder, shift));
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

// device / stride % radix * slope
struct DeviceDigit {
  std::int64_t stride = 1;
  std::int64_t radix = 1;
  std::int64_t slope = 0;
  [[nodiscard]] std::int64_t of(std::int64_t device) const { return device / stride % radix; }
};
struct Affine {
  std::int64_t shift = 0;
  std::vector<DeviceDigit> digits;  // major to minor
};

// The digits of device numbers for the prime factors of these sizes.
std::vector<DeviceDigit> digits_of(const std::vector<std::int64_t>& sizes) {
  std::vector<DeviceDigit> digits;
  std::int64_t stride = 1;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    std::int64_t rest = *size;
    for (std::int64_t prime = 2; rest > 1; ++prime)
      for (; rest % prime == 0; rest /= prime) {
        digits.push_back({stride, prime, 0});
        stride *= prime;
      }
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// Solves for slopes and shift by elimination; free variables become 0. The result is rounded, so affine_over() computes
// and compares the number of every device.
std::vector<double> solve(std::vector<std::vector<double>> rows, std::size_t unknowns) {
  constexpr double kZero = 1e-6;
  std::vector<double> solution(unknowns, 0);
  std::vector<std::size_t> pivots;
  std::size_t next = 0;
  for (std::size_t column = 0; column < unknowns && next < rows.size(); ++column) {
    const auto best =
        std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(next), rows.end(),
                         [&](const auto& a, const auto& b) { return std::abs(a[column]) < std::abs(b[column]); });
    if (std::abs((*best)[column]) < kZero) continue;
    std::swap(*best, rows[next]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double share = r == next ? 0 : rows[r][column] / rows[next][column];
      if (share == 0) continue;
      for (std::size_t c = column; c <= unknowns; ++c) rows[r][c] -= share * rows[next][c];
    }
    pivots.push_back(column);
    ++next;
  }
  for (std::size_t r = 0; r < pivots.size(); ++r) solution[pivots[r]] = rows[r][unknowns] / rows[r][pivots[r]];
  return solution;
}

// Merges adjacent digits if the major one's slope continues that of the minor one.
std::vector<DeviceDigit> merged(const std::vector<DeviceDigit>& digits) {
  std::vector<DeviceDigit> out;
  for (const DeviceDigit& digit : digits) {
    const bool joins = !out.empty() && out.back().stride == digit.stride * digit.radix &&
                       out.back().slope == digit.slope * digit.radix;
    if (joins)
      out.back() = {digit.stride, digit.radix * out.back().radix, digit.slope};
    else
      out.push_back(digit);
  }
  std::erase_if(out, [](const DeviceDigit& digit) { return digit.slope == 0; });
  return out;
}

std::optional<Affine> affine_over(std::vector<DeviceDigit> digits, const DeviceColumn& numbers) {
  std::vector<std::vector<double>> rows;
  for (std::int64_t device = 0; device < isize(numbers); ++device) {
    if (!at(numbers, device)) continue;
    std::vector<double> row{1};
    for (const DeviceDigit& digit : digits) row.push_back(static_cast<double>(digit.of(device)));
    row.push_back(static_cast<double>(*at(numbers, device)));
    rows.push_back(std::move(row));
  }
  const auto solution = solve(std::move(rows), digits.size() + 1);
  Affine out{std::llround(solution[0]), {}};
  for (std::size_t i = 0; i < digits.size(); ++i) digits[i].slope = std::llround(solution[i + 1]);
  for (std::int64_t device = 0; device < isize(numbers); ++device) {
    auto value = out.shift;
    for (const DeviceDigit& digit : digits) value += digit.slope * digit.of(device);
    if (at(numbers, device) && *at(numbers, device) != value) return std::nullopt;
  }
  out.digits = merged(digits);
  // Arithmetic takes a few scalars per digit, a table takes some bytes per device.
  constexpr std::size_t kScalarBytes = 12;
  const bool is_short = out.digits.size() <= 1 || out.digits.size() * kScalarBytes <= numbers.size();
  return is_short ? std::optional(out) : std::nullopt;
}

std::optional<Affine> affine_of(const Mesh& mesh, const DeviceColumn& numbers) {
  std::vector<std::int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes()) sizes.push_back(axis.size);
  if (auto found = affine_over(digits_of(sizes), numbers)) return found;
  if (mesh.device_order().empty()) return std::nullopt;
  std::reverse(sizes.begin(), sizes.end());  // as in <=[4,2]T(1,0)
  return affine_over(digits_of(sizes), numbers);
}

Value emit_affine(Builder& builder, const Affine& affine, std::int64_t devices) {
  Value sum{};
  for (const DeviceDigit& digit : affine.digits) {
    Value part = device_number(builder);
    if (digit.stride > 1) part = ops::divide(part, number(builder, digit.stride));
    if (digit.stride * digit.radix < devices) part = ops::remainder(part, number(builder, digit.radix));
    part = scaled(part, digit.slope, 0);
    sum = sum.is_null() ? part : ops::add(sum, part);
  }
  return sum.is_null() ? number(builder, affine.shift) : scaled(sum, 1, affine.shift);
}

// ---- tables ---------------------------------------------------------------------------------------------------------

template <class T>
Value cell_of(Builder& builder, const std::vector<std::int64_t>& cells) {
  std::vector<T> narrow;
  for (const auto cell : cells) narrow.push_back(static_cast<T>(cell));
  const Value table = ops::constant(builder, Literal::from<T>({isize(cells)}, narrow));
  const Value cell = ops::reshape(ops::dynamic_slice(table, {device_number(builder)}, {1}), {});
  return ops::convert(cell, DType::kS32);
}

// Cells hold differences from the least number, so that many columns can share a table.
Value emit_table(Builder& builder, const DeviceColumn& numbers) {
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& value : numbers) least = std::min(least, value.value_or(least));
  std::int64_t step = 0;
  for (const auto& value : numbers) step = std::gcd(step, value.value_or(least) - least);
  std::vector<std::int64_t> cells;
  for (const auto& value : numbers) cells.push_back((value.value_or(least) - least) / step);
  const auto most = *std::max_element(cells.begin(), cells.end());
  const Value cell = most <= std::numeric_limits<std::int8_t>::max()    ? cell_of<std::int8_t>(builder, cells)
                     : most <= std::numeric_limits<std::int16_t>::max() ? cell_of<std::int16_t>(builder, cells)
                                                                        : cell_of<std::int32_t>(builder, cells);
  return scaled(cell, step, least);
}

}  // namespace

std::optional<std::int64_t> common_number(const DeviceColumn& numbers) {
  std::optional<std::int64_t> common;
  for (const auto& value : numbers) {
    if (!value) continue;
    if (common && *common != *value) return std::nullopt;
    common = value;
  }
  return common.value_or(0);
}

Value emit_by_device(Builder& builder, const Mesh& mesh, const DeviceColumn& numbers) {
  if (const auto common = common_number(numbers)) return number(builder, *common);
  const auto devices = mesh.device_count();
  if (const auto affine = affine_of(mesh, numbers)) return emit_affine(builder, *affine, devices);
  return emit_table(builder, numbers);
}

}  // namespace tessera
