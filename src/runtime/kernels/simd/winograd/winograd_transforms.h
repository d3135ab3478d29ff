// SPDX-License-Identifier: Apache-2.0
// The one-dimensional transforms of Winograd's algorithm F(4, 3), from A. Lavin and S. Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015. Four results of a window of three elements are
//
//   y = A^T [(G g) * (B^T d)]      g: the three weights, d: six elements of the image
//
// and the gradient of the weights is G^T [(A dy) * (B^T d)]. In two dims, each transform is applied along both.
#pragma once

#include "kernels/simd/products/sgemm_tile.h"

namespace tessera::kernels::TESSERA_ISA {
namespace {

constexpr std::int64_t kResults = 4;                      // of a tile, along each dim
constexpr std::int64_t kWindow = 3;                       // elements of the window along each dim
constexpr std::int64_t kPlaces = kResults + kWindow - 1;  // elements of the image that a tile reads, along each dim
constexpr std::int64_t kProducts = kPlaces * kPlaces;     // of a tile

/// B^T d
inline void to_places(const Vector (&d)[kPlaces], Vector (&out)[kPlaces]) {
  const Vector even = d[4] - 4.0F * d[2];
  const Vector odd = d[3] - 4.0F * d[1];
  const Vector even_difference = d[4] - d[2];
  const Vector odd_difference = 2.0F * (d[3] - d[1]);
  out[0] = 4.0F * d[0] - 5.0F * d[2] + d[4];
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = even_difference + odd_difference;
  out[4] = even_difference - odd_difference;
  out[5] = 4.0F * d[1] - 5.0F * d[3] + d[5];
}

/// G g
inline void weights_to_places(const Vector (&g)[kWindow], Vector (&out)[kPlaces]) {
  const Vector outer = (g[0] + g[2]) * (-1.0F / 6);
  const Vector middle = g[1] * (1.0F / 6);
  const Vector weighted = g[0] * (1.0F / 24) + g[2] * (1.0F / 6);
  const Vector half = g[1] * (1.0F / 12);
  out[0] = g[0] * 0.25F;
  out[1] = outer - middle;
  out[2] = outer + middle;
  out[3] = weighted + half;
  out[4] = weighted - half;
  out[5] = g[2];
}

/// A^T m
inline void to_results(const Vector (&m)[kPlaces], Vector (&out)[kResults]) {
  const Vector sum = m[1] + m[2];
  const Vector difference = m[1] - m[2];
  const Vector far_sum = m[3] + m[4];
  const Vector far_difference = m[3] - m[4];
  out[0] = m[0] + sum + far_sum;
  out[1] = difference + 2.0F * far_difference;
  out[2] = sum + 4.0F * far_sum;
  out[3] = difference + 8.0F * far_difference + m[5];
}

/// A dy
inline void results_to_places(const Vector (&y)[kResults], Vector (&out)[kPlaces]) {
  const Vector even = y[0] + y[2];
  const Vector odd = y[1] + y[3];
  const Vector far_even = y[0] + 4.0F * y[2];
  const Vector far_odd = 2.0F * y[1] + 8.0F * y[3];
  out[0] = y[0];
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = far_even + far_odd;
  out[4] = far_even - far_odd;
  out[5] = y[3];
}

/// G^T s
inline void to_weights(const Vector (&s)[kPlaces], Vector (&out)[kWindow]) {
  const Vector sum = (s[1] + s[2]) * (-1.0F / 6);
  const Vector far_sum = s[3] + s[4];
  out[0] = s[0] * 0.25F + sum + far_sum * (1.0F / 24);
  out[1] = (s[2] - s[1]) * (1.0F / 6) + (s[3] - s[4]) * (1.0F / 12);
  out[2] = sum + far_sum * (1.0F / 6) + s[5];
}

// Every fourth element of four adjacent vectors: out[j] holds the elements j, j + 4, … kOdd: the odd elements of two.
template <bool kOdd, std::size_t... I>
Vector every_second(Vector a, Vector b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (static_cast<std::int64_t>(2 * I) + (kOdd ? 1 : 0))...);
}
template <std::int64_t kCount>
void every_fourth(const float* from, Vector* out) {
  constexpr auto kAll = std::make_index_sequence<kLanes>{};
  const Vector a = load(from);
  const Vector b = load(from + kLanes);
  const Vector c = load(from + 2 * kLanes);
  const Vector d = load(from + 3 * kLanes);
  const Vector even[2] = {every_second<false>(a, b, kAll), every_second<false>(c, d, kAll)};
  const Vector odd[2] = {every_second<true>(a, b, kAll), every_second<true>(c, d, kAll)};
  out[0] = every_second<false>(even[0], even[1], kAll);
  out[1] = every_second<false>(odd[0], odd[1], kAll);
  if constexpr (kCount == kResults) {
    out[2] = every_second<true>(even[0], even[1], kAll);
    out[3] = every_second<true>(odd[0], odd[1], kAll);
  }
}
/// The inverse: writes four adjacent vectors.
inline void store_every_fourth(const Vector (&x)[kResults], float* to) {
  constexpr auto kAll = std::make_index_sequence<kLanes>{};
  const Vector low[2] = {interleave<false>(x[0], x[2], kAll), interleave<false>(x[1], x[3], kAll)};
  const Vector high[2] = {interleave<true>(x[0], x[2], kAll), interleave<true>(x[1], x[3], kAll)};
  store(to, interleave<false>(low[0], low[1], kAll));
  store(to + kLanes, interleave<true>(low[0], low[1], kAll));
  store(to + 2 * kLanes, interleave<false>(high[0], high[1], kAll));
  store(to + 3 * kLanes, interleave<true>(high[0], high[1], kAll));
}

}  // namespace
}  // namespace tessera::kernels::TESSERA_ISA
