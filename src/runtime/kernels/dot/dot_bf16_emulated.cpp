// SPDX-License-Identifier: Apache-2.0
// Products of 16-bit floats on processors without such instructions: computed in f32, rounded at the end.
#include <algorithm>

#include "executable/workspace.h"
#include "kernels/dot/dot_plan.h"
#include "kernels/simd/kernel_set.h"
#include "kernels/strided.h"

namespace tessera {
namespace {

// Converts a 16-bit operand to f32. The result has its elements in memory order, without gaps and repetitions.
class WideningProduct {
 public:
  WideningProduct() = default;
  // Replaces `strides` by those of the converted operand.
  WideningProduct(DType from, const Dims& sizes, Dims& strides) : bytes_(dtype_size(from)) {
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] > 1 && strides[d] != 0) order.push_back(d);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
    for (const std::size_t d : order) count_ *= sizes[d];
    std::int64_t stride = count_;
    for (const std::size_t d : order) {
      stride /= sizes[d];
      if (!dims_.empty() && from_strides_.back() == sizes[d] * strides[d]) {
        dims_.back() *= sizes[d];
        from_strides_.back() = strides[d];
      } else {
        dims_.push_back(sizes[d]);
        from_strides_.push_back(strides[d]);
      }
      strides[d] = stride;
    }
    if (!dims_.empty() && from_strides_.back() == 1) {
      run_ = dims_.back();
      dims_.pop_back();
      from_strides_.pop_back();
    }
    convert_ = kernels::kernel_set().convert[static_cast<int>(from)][static_cast<int>(DType::kF32)];
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  void run(const std::byte* from, std::byte* to) const { run_dims(0, from, to); }

 private:
  void run_dims(std::size_t dim, const std::byte* from, std::byte*& to) const {
    if (dim == dims_.size()) {
      convert_({to, {from, nullptr, nullptr}, run_});
      to += run_ * dtype_size(DType::kF32);
      return;
    }
    for (std::int64_t i = 0; i < dims_[dim]; ++i) run_dims(dim + 1, from + i * from_strides_[dim] * bytes_, to);
  }

  std::int64_t bytes_ = 2;
  std::int64_t count_ = 1;
  std::int64_t run_ = 1;  // contiguous elements
  Dims dims_;             // outside of the run
  Dims from_strides_;
  kernels::TileFunction convert_ = nullptr;
};

// Converts the operands to f32 unless the packed product supports them, and rounds the result at the end.
class EmulatedProduct final : public ProductKernel {
 public:
  explicit EmulatedProduct(MatrixProduct p) : result_(p.result) {
    p.result = DType::kF32;
    if (result_ != DType::kF32) {
      Dims sizes = p.batch;
      sizes.insert(sizes.end(), {p.m, p.n});
      out_count_ = product(sizes);
    }
    product_ = make_packed_product(p);
    widens_ = product_ == nullptr;
    if (widens_) make_widening(p);
    plan_workspace();
  }
  static bool takes(const MatrixProduct& p) {
    const bool is_narrow = p.operand == DType::kBF16 || p.operand == DType::kF16;
    if (p.accumulates) return is_narrow && make_packed_product(p) != nullptr;
    return is_narrow && (p.result == DType::kF32 || is_row_major(p));
  }
  [[nodiscard]] bool works() const { return product_ != nullptr; }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* workspace) const override {
    if (result_ == DType::kF32) return multiply(lhs, rhs, out, workspace);
    std::byte* wide = workspace + places_.out;
    multiply(lhs, rhs, wide, workspace);
    kernels::kernel_set().convert[static_cast<int>(DType::kF32)][static_cast<int>(result_)](
        {out, {wide, nullptr, nullptr}, out_count_});
  }

 private:
  void make_widening(MatrixProduct p) {
    lhs_ = widen(p.operand, p.batch, p.lhs_batch, p.m, p.lhs_m, p.k, p.lhs_k);
    rhs_ = widen(p.operand, p.batch, p.rhs_batch, p.k, p.rhs_k, p.n, p.rhs_n);
    p.operand = DType::kF32;
    product_ = make_onednn_product(p);
  }
  void plan_workspace() {
    WorkspaceLayout layout;
    if (result_ != DType::kF32) places_.out = layout.add(out_count_ * dtype_size(DType::kF32));
    if (widens_) {
      places_.lhs = layout.add(lhs_.count() * dtype_size(DType::kF32));
      places_.rhs = layout.add(rhs_.count() * dtype_size(DType::kF32));
    }
    places_.inner = layout.add(product_ == nullptr ? 0 : product_->workspace_bytes());
    workspace_bytes_ = layout.bytes();
  }
  void multiply(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* workspace) const {
    std::byte* inner = workspace + places_.inner;
    if (!widens_) return product_->run(lhs, rhs, out, inner);
    lhs_.run(lhs, workspace + places_.lhs);
    rhs_.run(rhs, workspace + places_.rhs);
    product_->run(workspace + places_.lhs, workspace + places_.rhs, out, inner);
  }
  // Returns true if the result is [batch.., m, n] without gaps in this order.
  static bool is_row_major(const MatrixProduct& p) {
    Dims sizes = p.batch;
    sizes.insert(sizes.end(), {p.m, p.n});
    Dims strides = p.out_batch;
    strides.insert(strides.end(), {p.out_m, p.out_n});
    const Dims plain = row_major_strides(sizes);
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] > 1 && strides[d] != plain[d]) return false;
    return true;
  }
  static WideningProduct widen(DType from, const Dims& batch, Dims& batch_strides, std::int64_t rows,
                               std::int64_t& row_stride, std::int64_t columns, std::int64_t& column_stride) {
    Dims sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    Dims strides = batch_strides;
    strides.insert(strides.end(), {row_stride, column_stride});
    WideningProduct out(from, sizes, strides);
    std::copy_n(strides.begin(), batch.size(), batch_strides.begin());
    row_stride = strides[batch.size()];
    column_stride = strides[batch.size() + 1];
    return out;
  }

  DType result_;
  bool widens_ = false;  // else the product reads 16-bit operands
  WideningProduct lhs_;
  WideningProduct rhs_;
  std::int64_t out_count_ = 0;
  std::unique_ptr<ProductKernel> product_;
  struct {
    std::int64_t out = 0, lhs = 0, rhs = 0, inner = 0;
  } places_;  // in the workspace
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ProductKernel> make_emulated_product(const MatrixProduct& p) {
  if (!EmulatedProduct::takes(p)) return nullptr;
  auto wide = std::make_unique<EmulatedProduct>(p);
  return wide->works() ? std::move(wide) : nullptr;
}

}  // namespace tessera
