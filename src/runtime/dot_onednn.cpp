// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN: a primitive per shape, made once, over plain strides (weights change every step, so reordering them does
// not pay).
#include <dnnl.hpp>

#include "dot_plan.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using Tag = dnnl::memory::data_type;

std::optional<Tag> data_type(DType dtype) {
  if (dtype == DType::kF32) return Tag::f32;
  if (dtype == DType::kBF16) return Tag::bf16;
  return std::nullopt;
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);  // immutable and safe to share
  return engine;
}

// [batch.., rows, columns]; the strides of dims of size 1 do not matter and are made plausible.
dnnl::memory::desc describe(Tag type, const Dims& batch, const Dims& batch_strides, std::int64_t rows, std::int64_t row_stride,
                            std::int64_t columns, std::int64_t column_stride) {
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
  OneDnnProduct(const MatrixProduct& p, Tag operand, Tag result)
      : lhs_(describe(operand, p.batch, p.lhs_batch, p.m, p.lhs_m, p.k, p.lhs_k)),
        rhs_(describe(operand, p.batch, p.rhs_batch, p.k, p.rhs_k, p.n, p.rhs_n)),
        out_(describe(result, p.batch, p.out_batch, p.m, p.out_m, p.n, p.out_n)),
        stream_(cpu_engine()) {
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(lhs_, rhs_, out_), cpu_engine());
    implementation_ = description.impl_info_str();
    primitive_ = dnnl::matmul(description);
  }
  [[nodiscard]] bool is_fast() const { return implementation_.find("ref") == std::string::npos; }
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out) const override {
    const auto memory = [](const dnnl::memory::desc& description, const std::byte* data) {
      return dnnl::memory(description, cpu_engine(), const_cast<std::byte*>(data));  // NOLINT: sources are only read
    };
    primitive_.execute(stream_, {{DNNL_ARG_SRC, memory(lhs_, lhs)}, {DNNL_ARG_WEIGHTS, memory(rhs_, rhs)},
                                 {DNNL_ARG_DST, memory(out_, out)}});
  }

 private:
  dnnl::memory::desc lhs_;
  dnnl::memory::desc rhs_;
  dnnl::memory::desc out_;
  mutable dnnl::stream stream_;  // of the rank that owns this kernel
  std::string implementation_;
  dnnl::matmul primitive_;
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
  try {
    auto kernel = std::make_unique<OneDnnProduct>(p, *operand, *result);
    if (kernel->is_fast()) return kernel;
  } catch (const dnnl::error&) {
    // unimplemented for these types, or strides it refuses: the caller packs
  }
  return nullptr;
}

}  // namespace tessera
