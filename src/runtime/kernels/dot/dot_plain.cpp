// SPDX-License-Identifier: Apache-2.0
// Products of integers, pred, and all types without a faster kernel: three loops over converted copies.
#include <algorithm>

#include "executable/workspace.h"
#include "kernels/dot/dot_plan.h"

namespace tessera {
namespace {

class PlainProduct final : public ProductKernel {
 public:
  explicit PlainProduct(const MatrixProduct& p) : product_(p) {
    WorkspaceLayout layout;
    lhs_ = layout.add(p.m * p.k * kSumBytes);
    rhs_ = layout.add(p.k * p.n * kSumBytes);
    sums_ = layout.add(p.m * p.n * kSumBytes);
    workspace_bytes_ = layout.bytes();
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* workspace) const override {
    if (is_float(product_.operand) || is_float(product_.result))
      multiply<double>(lhs, rhs, out, workspace);
    else
      multiply<std::uint64_t>(lhs, rhs, out, workspace);
  }

 private:
  static constexpr std::int64_t kSumBytes = 8;

  template <class Sum>
  void multiply(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* workspace) const {
    static_assert(sizeof(Sum) == kSumBytes);
    const MatrixProduct& p = product_;
    Sum* a = reinterpret_cast<Sum*>(workspace + lhs_);
    Sum* b = reinterpret_cast<Sum*>(workspace + rhs_);
    Sum* sums = reinterpret_cast<Sum*>(workspace + sums_);
    for_each_batch(p, [&](std::int64_t l, std::int64_t r, std::int64_t o) {
      widen(lhs, l, {p.m, p.k}, {p.lhs_m, p.lhs_k}, a);
      widen(rhs, r, {p.k, p.n}, {p.rhs_k, p.rhs_n}, b);
      std::fill_n(sums, p.m * p.n, Sum{0});
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t t = 0; t < p.k; ++t)
          for (std::int64_t j = 0; j < p.n; ++j) sums[i * p.n + j] += a[i * p.k + t] * b[t * p.n + j];
      narrow(sums, out, o);
    });
  }

  template <class To, class From>
  static To cast(From x) {
    if constexpr (std::is_same_v<To, bool>)
      return x != 0;
    else if constexpr (is_float(kDTypeOf<From>) || is_float(kDTypeOf<To>))
      return static_cast<To>(static_cast<double>(x));
    else
      return static_cast<To>(x);
  }

  // A row-major matrix.
  template <class Sum>
  void widen(const std::byte* from, std::int64_t offset, std::pair<std::int64_t, std::int64_t> sizes,
             std::pair<std::int64_t, std::int64_t> strides, Sum* to) const {
    visit_dtype(product_.operand, [&]<class T>() {
      const T* first = reinterpret_cast<const T*>(from) + offset;
      for (std::int64_t i = 0; i < sizes.first; ++i)
        for (std::int64_t j = 0; j < sizes.second; ++j)
          *to++ = cast<Sum>(first[i * strides.first + j * strides.second]);
    });
  }

  template <class Sum>
  void narrow(const Sum* sums, std::byte* out, std::int64_t offset) const {
    const MatrixProduct& p = product_;
    visit_dtype(p.result, [&]<class T>() {
      T* first = reinterpret_cast<T*>(out) + offset;
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) first[i * p.out_m + j * p.out_n] = cast<T>(sums[i * p.n + j]);
    });
  }

  MatrixProduct product_;
  std::int64_t lhs_ = 0;  // position in the workspace
  std::int64_t rhs_ = 0;
  std::int64_t sums_ = 0;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ProductKernel> make_plain_product(const MatrixProduct& product) {
  return std::make_unique<PlainProduct>(product);
}

}  // namespace tessera
