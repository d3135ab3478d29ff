// SPDX-License-Identifier: Apache-2.0
// fft, cholesky, triangular-solve, ragged-dot, topk.
#pragma once

#include <optional>

#include "tessera/ir/builder.h"

namespace tessera {

struct OpView;

enum class FftType : std::uint8_t { kFft, kIfft, kRfft, kIrfft };
std::string field_text(FftType value);
void parse_field(std::string_view text, FftType& value);
struct FftAttributes {
  FftType fft_type = FftType::kFft;
  Dims fft_length;  // the sizes of the last dims
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("fft_type", self.fft_type, Presence::kRequired);
    visit("fft_length", self.fft_length, Presence::kRequired);
  }
  friend bool operator==(const FftAttributes&, const FftAttributes&) = default;
};
struct CholeskyAttributes {
  bool lower = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("lower", self.lower, Presence::kIfNotDefault);
  }
  friend bool operator==(const CholeskyAttributes&, const CholeskyAttributes&) = default;
};
enum class TransposeA : std::uint8_t { kNoTranspose, kTranspose, kAdjoint };
std::string field_text(TransposeA value);
void parse_field(std::string_view text, TransposeA& value);
struct TriangularSolveAttributes {
  bool left_side = false;
  bool lower = false;
  bool unit_diagonal = false;
  TransposeA transpose_a = TransposeA::kNoTranspose;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("left_side", self.left_side, Presence::kIfNotDefault);
    visit("lower", self.lower, Presence::kIfNotDefault);
    visit("unit_diagonal", self.unit_diagonal, Presence::kIfNotDefault);
    visit("transpose_a", self.transpose_a, Presence::kAlways);
  }
  friend bool operator==(const TriangularSolveAttributes&, const TriangularSolveAttributes&) = default;
};
struct RaggedDotAttributes {
  Dims lhs_batch_dims;
  Dims lhs_contracting_dims;
  Dims rhs_batch_dims;
  Dims rhs_contracting_dims;
  Dims lhs_ragged_dims;
  Dims rhs_group_dims;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("lhs_batch_dims", self.lhs_batch_dims, Presence::kIfNotDefault);
    visit("lhs_contracting_dims", self.lhs_contracting_dims, Presence::kIfNotDefault);
    visit("rhs_batch_dims", self.rhs_batch_dims, Presence::kIfNotDefault);
    visit("rhs_contracting_dims", self.rhs_contracting_dims, Presence::kIfNotDefault);
    visit("lhs_ragged_dims", self.lhs_ragged_dims, Presence::kRequired);
    visit("rhs_group_dims", self.rhs_group_dims, Presence::kIfNotDefault);
  }
  friend bool operator==(const RaggedDotAttributes&, const RaggedDotAttributes&) = default;
};
struct TopKAttributes {
  std::int64_t k = 0;
  bool largest = true;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("k", self.k, Presence::kRequired);
    visit("largest", self.largest, Presence::kAlways);
  }
  friend bool operator==(const TopKAttributes&, const TopKAttributes&) = default;
};
/// Returns the attributes of a topk, or of a custom-call TopK whose operand and results have the same form; nullopt for
/// any other instruction.
std::optional<TopKAttributes> top_k_of(const OpView& view);

namespace ops {
/// Transforms the last fft_length.size() dims. IFFT divides by the product of fft_length. RFFT keeps the first n/2+1
/// elements of the last dim; IRFFT restores n.
Value fft(Value x, FftType type, Dims fft_length);
/// Returns the lower or upper triangular factor of each symmetric matrix in the last two dims.
Value cholesky(Value a, bool lower);
/// Solves op(A) X = B (left side) or X op(A) = B for X.
Value triangular_solve(Value a, Value b, TriangularSolveAttributes attributes);
/// HLO's ragged-dot: a product in which a dim of lhs consists of groups of `group_sizes` elements, each with its own
/// rhs.
Value ragged_dot(Value lhs, Value rhs, Value group_sizes, RaggedDotAttributes attributes);
/// The k largest (smallest) elements along the last dim, in order: a tuple of values and s32 indices.
Value topk(Value x, std::int64_t k, bool largest = true);
}  // namespace ops
}  // namespace tessera
