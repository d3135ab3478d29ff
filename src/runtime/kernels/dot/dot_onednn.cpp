// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN over plain strides (weights change every step, so reordering them does not pay): dnnl_sgemm
// for large f32 matrices, and one primitive per shape for all others.
#include <algorithm>

#include "kernels/dot/dot_plan.h"
#include "kernels/onednn_call.h"
#include "tessera/base/error.h"
#include "tessera/base/instruction_set.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using Tag = dnnl::memory::data_type;

// Without native instructions, oneDNN's bf16 products take five times as long as those of f32.
bool multiplies_bf16() {
#if defined(__x86_64__)
  return instruction_set() >= InstructionSet::kAvx512Bf16;
#else
  return true;
#endif
}

std::optional<Tag> data_type(DType dtype) {
  if (dtype == DType::kF32) return Tag::f32;
  if (dtype == DType::kBF16 && multiplies_bf16()) return Tag::bf16;
  return std::nullopt;
}

// Describes [batch.., rows, columns]. Dims of size 1 get strides that oneDNN accepts.
dnnl::memory::desc describe(Tag type, const Dims& batch, const Dims& batch_strides, std::int64_t rows,
                            std::int64_t row_stride, std::int64_t columns, std::int64_t column_stride) {
  dnnl::memory::dims dims;
  dnnl::memory::dims strides;
  std::int64_t extent = std::max(rows * row_stride, columns * column_stride);
  for (std::size_t d = 0; d < batch.size(); ++d) extent = std::max(extent, batch[d] * batch_strides[d]);
  for (std::size_t d = 0; d < batch.size(); ++d) {
    const bool repeats = batch_strides[d] == 0;  // broadcast along this batch dim
    dims.push_back(repeats ? 1 : batch[d]);
    strides.push_back(repeats ? extent : batch_strides[d]);
  }
  dims.push_back(rows);
  dims.push_back(columns);
  strides.push_back(rows == 1 ? std::max<std::int64_t>(1, columns * column_stride) : row_stride);
  strides.push_back(columns == 1 ? (row_stride == 1 && rows > 1 ? rows : 1) : column_stride);
  return {dims, type, strides};
}

bool has_unit_stride(std::int64_t rows, std::int64_t row_stride, std::int64_t columns, std::int64_t column_stride) {
  return row_stride == 1 || column_stride == 1 || rows == 1 || columns == 1;
}

class OneDnnProduct final : public ProductKernel {
 public:
  OneDnnProduct(const MatrixProduct& p, Tag operand, Tag result) : stream_(cpu_engine()) {
    const auto lhs = describe(operand, p.batch, p.lhs_batch, p.m, p.lhs_m, p.k, p.lhs_k);
    const auto rhs = describe(operand, p.batch, p.rhs_batch, p.k, p.rhs_k, p.n, p.rhs_n);
    const auto out = describe(result, p.batch, p.out_batch, p.m, p.out_m, p.n, p.out_n);
    dnnl::primitive_attr attributes = with_given_scratchpad();
    if (p.accumulates) {
      dnnl::post_ops adds;
      adds.append_sum();
      attributes.set_post_ops(adds);
    }
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(lhs, rhs, out), attributes, cpu_engine());
    implementation_ = description.impl_info_str();
    call_ =
        OneDnnCall::of<dnnl::matmul>(description, {{DNNL_ARG_SRC, lhs}, {DNNL_ARG_WEIGHTS, rhs}, {DNNL_ARG_DST, out}});
  }
  [[nodiscard]] bool is_fast() const { return implementation_.find("ref") == std::string::npos; }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return call_.scratchpad_bytes(); }
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* workspace) const override {
    call_.run(stream_, {{DNNL_ARG_SRC, lhs}, {DNNL_ARG_WEIGHTS, rhs}, {DNNL_ARG_DST, out}}, workspace);
  }

 private:
  dnnl::stream stream_;  // of the rank that owns this kernel
  std::string implementation_;
  OneDnnCall call_;
};

// One call for each matrix. dnnl_sgemm packs its operands, so strides that are powers of two do not slow it down.
class SgemmProduct final : public ProductKernel {
 public:
  static bool takes(const MatrixProduct& p) {
    constexpr std::int64_t kLarge = 1 << 20;  // multiplications; one batched primitive is faster for smaller ones
    const bool is_large = product(p.batch) == 1 || p.m * p.n * p.k >= kLarge;
    return p.operand == DType::kF32 && p.result == DType::kF32 && is_large;
  }
  explicit SgemmProduct(const MatrixProduct& p)
      : product_(p), transposes_lhs_(!(p.lhs_k == 1 || p.k == 1)), transposes_rhs_(!(p.rhs_n == 1 || p.n == 1)) {
    lhs_stride_ = transposes_lhs_ ? std::max(p.lhs_k, p.m) : (p.m == 1 ? p.k : std::max(p.lhs_m, p.k));
    rhs_stride_ = transposes_rhs_ ? (p.n == 1 ? p.k : std::max(p.rhs_n, p.k)) : std::max(p.k == 1 ? p.n : p.rhs_k, p.n);
    out_stride_ = std::max(p.m == 1 ? p.n : p.out_m, p.n);
  }
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* /*workspace*/) const override {
    for_each_batch(product_, [&](std::int64_t l, std::int64_t r, std::int64_t o) {
      const auto status =
          dnnl_sgemm(transposes_lhs_ ? 'T' : 'N', transposes_rhs_ ? 'T' : 'N', product_.m, product_.n, product_.k, 1.0F,
                     reinterpret_cast<const float*>(lhs) + l, lhs_stride_, reinterpret_cast<const float*>(rhs) + r,
                     rhs_stride_, product_.accumulates ? 1.0F : 0.0F, reinterpret_cast<float*>(out) + o, out_stride_);
      ensure(status == dnnl_success, "dnnl_sgemm of {}x{}x{} refused", product_.m, product_.n, product_.k);
    });
  }

 private:
  MatrixProduct product_;
  bool transposes_lhs_;
  bool transposes_rhs_;
  std::int64_t lhs_stride_ = 1;
  std::int64_t rhs_stride_ = 1;
  std::int64_t out_stride_ = 1;
};

}  // namespace

std::unique_ptr<ProductKernel> make_onednn_product(const MatrixProduct& p) {
  constexpr std::size_t kMostBatchDims = 4;
  const auto operand = data_type(p.operand);
  const auto result = data_type(p.result);
  if (!operand || !result || p.batch.size() > kMostBatchDims) return nullptr;
  if (p.operand == DType::kF32 && p.result != DType::kF32) return nullptr;
  if (!has_unit_stride(p.m, p.lhs_m, p.k, p.lhs_k) || !has_unit_stride(p.k, p.rhs_k, p.n, p.rhs_n)) return nullptr;
  if (p.out_n != 1 && p.n != 1) return nullptr;
  if (SgemmProduct::takes(p)) return std::make_unique<SgemmProduct>(p);
  try {
    auto kernel = std::make_unique<OneDnnProduct>(p, *operand, *result);
    if (kernel->is_fast()) return kernel;
  } catch (const dnnl::error&) {
    // oneDNN does not support these types or strides: the caller packs.
  }
  return nullptr;
}

}  // namespace tessera
