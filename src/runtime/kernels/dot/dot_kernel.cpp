// SPDX-License-Identifier: Apache-2.0
// dot: any batch, free and contracting dims with any strides become one batched matrix product. Operands are read in
// place, and packed only if their strides do not form matrices.
#include <algorithm>
#include <cstring>

#include "executable/workspace.h"
#include "kernels/dot/dot_plan.h"
#include "kernels/simd/kernel_set.h"
#include "kernels/strided.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// A dim of the product: its size and its strides in lhs, rhs and result (0 if it does not occur there).
struct ProductDim {
  std::int64_t size = 1;
  std::int64_t lhs = 0;
  std::int64_t rhs = 0;
  std::int64_t out = 0;
};

void add_dim(std::vector<ProductDim>& dims, ProductDim dim) {
  if (dim.size == 1) return;
  if (!dims.empty()) {
    ProductDim& before = dims.back();
    if (before.lhs == dim.size * dim.lhs && before.rhs == dim.size * dim.rhs && before.out == dim.size * dim.out) {
      dim.size *= before.size;
      before = dim;
      return;
    }
  }
  dims.push_back(dim);
}

struct ProductDims {
  std::vector<ProductDim> batch, m, n, k;
};

ProductDims product_dims(const OpView& view, const View& lhs, const View& rhs, const Dims& out) {
  const auto& a = view.as<DotAttributes>();
  const auto has = [](const Dims& dims, std::int64_t d) {
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  ProductDims dims;
  std::size_t o = 0;
  for (std::size_t i = 0; i < a.lhs_batch_dims.size(); ++i) {
    const auto l = a.lhs_batch_dims[i];
    add_dim(dims.batch, {at(lhs.dims, l), at(lhs.strides, l), at(rhs.strides, a.rhs_batch_dims[i]), out[o++]});
  }
  for (std::int64_t d = 0; d < isize(lhs.dims); ++d)
    if (!has(a.lhs_batch_dims, d) && !has(a.lhs_contracting_dims, d))
      add_dim(dims.m, {at(lhs.dims, d), at(lhs.strides, d), 0, out[o++]});
  for (std::int64_t d = 0; d < isize(rhs.dims); ++d)
    if (!has(a.rhs_batch_dims, d) && !has(a.rhs_contracting_dims, d))
      add_dim(dims.n, {at(rhs.dims, d), 0, at(rhs.strides, d), out[o++]});
  // The order of the contracting dims does not change the sum. Choose the order in which most dims of lhs merge.
  std::vector<ProductDim> contracting;
  for (std::size_t i = 0; i < a.lhs_contracting_dims.size(); ++i) {
    const auto l = a.lhs_contracting_dims[i];
    contracting.push_back({at(lhs.dims, l), at(lhs.strides, l), at(rhs.strides, a.rhs_contracting_dims[i]), 0});
  }
  std::stable_sort(contracting.begin(), contracting.end(), [](const auto& x, const auto& y) { return x.lhs > y.lhs; });
  for (const ProductDim& dim : contracting) add_dim(dims.k, dim);
  return dims;
}

// Of free dims that do not merge, the largest stays. The others become batch dims, along which the other operand is
// repeated.
void move_to_batch(std::vector<ProductDim>& dims, std::vector<ProductDim>& batch) {
  if (dims.size() < 2) return;
  const auto kept =
      std::max_element(dims.begin(), dims.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
  const ProductDim keep = *kept;
  dims.erase(kept);
  for (const ProductDim& dim : dims) batch.push_back(dim);
  dims = {keep};
}

MatrixProduct to_product(const OpView& view, ProductDims dims) {
  MatrixProduct out;
  out.operand = view.operands[0].dtype();
  out.result = view.result.dtype();
  move_to_batch(dims.m, dims.batch);
  move_to_batch(dims.n, dims.batch);
  for (const ProductDim& dim : dims.batch) {
    out.batch.push_back(dim.size);
    out.lhs_batch.push_back(dim.lhs);
    out.rhs_batch.push_back(dim.rhs);
    out.out_batch.push_back(dim.out);
  }
  if (!dims.k.empty()) {
    out.k = dims.k[0].size;
    out.lhs_k = dims.k[0].lhs;
    out.rhs_k = dims.k[0].rhs;
  }
  if (!dims.m.empty()) {
    out.m = dims.m[0].size;
    out.lhs_m = dims.m[0].lhs;
    out.out_m = dims.m[0].out;
  }
  if (!dims.n.empty()) {
    out.n = dims.n[0].size;
    out.rhs_n = dims.n[0].rhs;
    out.out_n = dims.n[0].out;
  }
  return out;
}

// Returns the product with exchanged operands.
MatrixProduct swapped(MatrixProduct p) {
  std::swap(p.lhs_batch, p.rhs_batch);
  std::swap(p.m, p.n);
  std::swap(p.lhs_m, p.rhs_n);
  std::swap(p.lhs_k, p.rhs_k);
  std::swap(p.out_m, p.out_n);
  return p;
}

// ---- variants of the product --------------------------------------------------------------------------------------------------

// f64 by the kernel set's matrix product, which needs a unit stride in each matrix.
class F64Product final : public ProductKernel {
 public:
  static bool takes(const MatrixProduct& p) {
    const auto unit = [](std::int64_t rows, std::int64_t row, std::int64_t columns, std::int64_t column) {
      return (column == 1 || columns == 1) || (row == 1 || rows == 1);
    };
    return !p.accumulates && p.operand == DType::kF64 && p.result == DType::kF64 && unit(p.m, p.lhs_m, p.k, p.lhs_k) &&
           unit(p.k, p.rhs_k, p.n, p.rhs_n) && (p.out_n == 1 || p.n == 1);
  }
  explicit F64Product(const MatrixProduct& p) : product_(p) {
    args_.m = p.m;
    args_.n = p.n;
    args_.k = p.k;
    args_.a_transposed = !(p.lhs_k == 1 || p.k == 1);
    args_.b_transposed = !(p.rhs_n == 1 || p.n == 1);
    args_.a_stride = args_.a_transposed ? p.lhs_k : p.lhs_m;
    args_.b_stride = args_.b_transposed ? p.rhs_n : p.rhs_k;
    args_.out_stride = p.out_m;
  }
  void run(const std::byte* lhs, const std::byte* rhs, std::byte* out, std::byte* /*workspace*/) const override {
    for_each_batch(product_, [&](std::int64_t l, std::int64_t r, std::int64_t o) {
      kernels::GemmArgs args = args_;
      args.a = reinterpret_cast<const double*>(lhs) + l;
      args.b = reinterpret_cast<const double*>(rhs) + r;
      args.out = reinterpret_cast<double*>(out) + o;
      kernels::kernel_set().gemm_f64(args);
    });
  }

 private:
  MatrixProduct product_;
  kernels::GemmArgs args_;
};

}  // namespace

std::unique_ptr<ProductKernel> make_product(const MatrixProduct& p) {
  if (auto fast = make_tile_product(p)) return fast;
  if (auto fast = make_few_rows_product(p)) return fast;
  if (p.operand == DType::kF32)
    if (auto fast = make_packed_product(p)) return fast;
  if (auto fast = make_onednn_product(p)) return fast;
  if (F64Product::takes(p)) return std::make_unique<F64Product>(p);
  return nullptr;
}

namespace {

// ---- packing ------------------------------------------------------------------------------------------------------------------

// A copy of one operand: contiguous [batch.., rows, columns], possibly in another element type.
struct Packing {
  StridedCopy copy;
  std::int64_t offset = 0;  // bytes
  std::int64_t count = 0;
  DType from = DType::kF32;
  DType to = DType::kF32;

  [[nodiscard]] std::int64_t bytes() const { return count * dtype_size(to); }
  /// Returns the size of its temporary memory.
  [[nodiscard]] std::int64_t workspace_bytes() const { return from == to ? 0 : count * dtype_size(from); }
  void run(const std::byte* source, std::byte* target, std::byte* workspace) const {
    if (from == to) return copy.run(source + offset, target);
    copy.run(source + offset, workspace);
    kernels::kernel_set().convert[static_cast<int>(from)][static_cast<int>(to)](
        {target, {workspace, nullptr, nullptr}, count});
  }
};

class DotKernel final : public Kernel {
 public:
  DotKernel(const OpView& view, const View& lhs, const View& rhs, const OperandViews& views)
      : accumulates_(views.accumulates) {
    make(view, lhs, rhs, views.result);
    plan_workspace();
  }
  [[nodiscard]] bool works() const { return is_empty_ || kernel_ != nullptr; }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const KernelArgs& args) const override {
    if (!accumulates_) return multiply(args.in, args.out[0], args.workspace);
    const std::byte* onto = args.in[2];
    if (adds_in_place_) {
      if (onto != args.out[0]) std::memcpy(args.out[0], onto, static_cast<std::size_t>(bytes_));
      return multiply(args.in, args.out[0], args.workspace);
    }
    std::byte* product = args.workspace + places_.product;
    multiply(args.in, product, args.workspace);
    add_({args.out[0], {onto, product, nullptr}, count_});
  }

 private:
  void make(const OpView& view, const View& lhs, const View& rhs, const std::optional<View>& layout) {
    const Dims plain = row_major_strides(view.result.dims());
    ProductDims dims = product_dims(view, lhs, rhs, layout ? layout->strides : plain);
    count_ = view.result.element_count();
    bytes_ = view.result.byte_size();
    is_empty_ = count_ == 0 || view.operands[0].element_count() == 0 || view.operands[1].element_count() == 0;
    lhs_offset_ = lhs.offset * dtype_size(view.operands[0].dtype());
    rhs_offset_ = rhs.offset * dtype_size(view.operands[1].dtype());
    if (is_empty_) return;
    if (view.operands[0].dtype() != view.operands[1].dtype()) return;
    make_plain(to_product(view, dims), isize(dims.k));
    if (kernel_ != nullptr) return;
    dims = product_dims(view, lhs, rhs, plain);
    if (layout) {  // computed row-major, then copied
      to_layout_ = StridedCopy(dtype_size(view.result.dtype()), view.result.dims(), plain, layout->strides);
      has_layout_ = true;
      make_plain(to_product(view, dims), isize(dims.k));
    }
    if (kernel_ == nullptr) pack(view, dims);
  }
  // Plans the memory for copies of operands, and for a result that is rounded, copied or added afterwards.
  void plan_workspace() {
    WorkspaceLayout layout;
    if (accumulates_ && !adds_in_place_) places_.product = layout.add(bytes_);
    if (has_layout_) places_.plain = layout.add(bytes_);
    if (packs_) {
      places_.lhs = layout.add(lhs_.bytes());
      places_.rhs = layout.add(rhs_.bytes());
      if (narrows_) places_.wide = layout.add(count_ * dtype_size(DType::kF32));
    }
    // These run one after another, so they share memory.
    places_.inner = layout.add(std::max(
        {lhs_.workspace_bytes(), rhs_.workspace_bytes(), kernel_ == nullptr ? 0 : kernel_->workspace_bytes()}));
    workspace_bytes_ = layout.bytes();
  }

  void multiply(std::span<const std::byte* const> in, std::byte* out, std::byte* workspace) const {
    if (is_empty_) {
      if (bytes_ > 0 && !adds_in_place_) std::memset(out, 0, static_cast<std::size_t>(bytes_));
      return;
    }
    if (!has_layout_) return multiply_plain(in, out, workspace);
    std::byte* plain = workspace + places_.plain;
    multiply_plain(in, plain, workspace);
    to_layout_.run(plain, out);
  }
  void multiply_plain(std::span<const std::byte* const> in, std::byte* out, std::byte* workspace) const {
    if (packs_) return multiply_packed(in, out, workspace);
    const std::byte* lhs = in[0] + lhs_offset_;
    const std::byte* rhs = in[1] + rhs_offset_;
    kernel_->run(swaps_ ? rhs : lhs, swaps_ ? lhs : rhs, out, workspace + places_.inner);
  }
  // Reads the operands in place.
  void make_plain(MatrixProduct p, int contracting) {
    if (contracting > 1) return;
    swaps_ = p.n > 1 && p.out_n != 1 && (p.m == 1 || p.out_m == 1);
    if (swaps_) p = swapped(p);
    if (accumulates_) {
      p.accumulates = true;
      kernel_ = make_product(p);
      if (kernel_ == nullptr) kernel_ = make_emulated_product(p);
      adds_in_place_ = kernel_ != nullptr;
      p.accumulates = false;
    }
    if (kernel_ == nullptr) kernel_ = make_product(p);
    if (kernel_ == nullptr) kernel_ = make_emulated_product(p);
  }
  void multiply_packed(std::span<const std::byte* const> in, std::byte* out, std::byte* workspace) const {
    std::byte* lhs = workspace + places_.lhs;
    std::byte* rhs = workspace + places_.rhs;
    std::byte* inner = workspace + places_.inner;
    lhs_.run(in[0], lhs, inner);
    rhs_.run(in[1], rhs, inner);
    if (!narrows_) return kernel_->run(lhs, rhs, out, inner);
    std::byte* wide = workspace + places_.wide;
    kernel_->run(lhs, rhs, wide, inner);
    kernels::kernel_set().convert[static_cast<int>(DType::kF32)][static_cast<int>(result_)](
        {out, {wide, nullptr, nullptr}, count_});
  }

  void pack(const OpView& view, const ProductDims& dims) {
    packs_ = true;
    const DType operand = view.operands[0].dtype();
    result_ = view.result.dtype();
    const bool widens = operand == DType::kF16 || operand == DType::kBF16;
    const DType compute = widens ? DType::kF32 : operand;
    narrows_ = widens && result_ != DType::kF32;
    MatrixProduct p;
    p.operand = compute;
    p.result = widens ? DType::kF32 : result_;
    lhs_ = packing(operand, compute, lhs_offset_, {&dims.batch, &dims.m, &dims.k}, &ProductDim::lhs);
    rhs_ = packing(operand, compute, rhs_offset_, {&dims.batch, &dims.k, &dims.n}, &ProductDim::rhs);
    const auto size = [](const std::vector<ProductDim>& list) {
      std::int64_t out = 1;
      for (const ProductDim& dim : list) out *= dim.size;
      return out;
    };
    p.m = size(dims.m);
    p.n = size(dims.n);
    p.k = size(dims.k);
    p.lhs_m = p.k;
    p.rhs_k = p.out_m = p.n;
    p.batch = {size(dims.batch)};
    p.lhs_batch = {p.m * p.k};
    p.rhs_batch = {p.k * p.n};
    p.out_batch = {p.m * p.n};
    kernel_ = make_product(p);
    if (kernel_ == nullptr) kernel_ = make_plain_product(p);
  }
  static Packing packing(DType from, DType to, std::int64_t offset,
                         std::initializer_list<const std::vector<ProductDim>*> groups,
                         std::int64_t ProductDim::*stride) {
    Dims dims;
    Dims strides;
    for (const auto* group : groups)
      for (const ProductDim& dim : *group) {
        dims.push_back(dim.size);
        strides.push_back(dim.*stride);
      }
    return {StridedCopy(dtype_size(from), dims, strides, row_major_strides(dims)), offset, product(dims), from, to};
  }

  std::unique_ptr<ProductKernel> kernel_;
  std::int64_t count_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t lhs_offset_ = 0;
  std::int64_t rhs_offset_ = 0;
  bool is_empty_ = false;
  bool packs_ = false;
  bool accumulates_ = false;
  bool adds_in_place_ = false;  // the product adds in place; otherwise a separate step adds
  kernels::TileFunction add_ =
      kernels::kernel_set().binary[static_cast<int>(kernels::BinaryOp::add)][static_cast<int>(DType::kF32)];
  bool swaps_ = false;
  bool has_layout_ = false;
  StridedCopy to_layout_;
  bool narrows_ = false;  // the product is computed in f32 and then rounded to the result's type
  DType result_ = DType::kF32;
  Packing lhs_;
  Packing rhs_;
  struct {
    std::int64_t product = 0, plain = 0, lhs = 0, rhs = 0, wide = 0, inner = 0;
  } places_;  // in the workspace
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace

KernelRef make_dot(const OpView& view, const OperandViews& views) {
  if (view.operands[0].dtype() != view.operands[1].dtype()) return nullptr;
  const auto operand_view = [&](int i) {
    const Dims& dims = at(view.operands, i).dims();
    return at(views, i).value_or(View{dims, row_major_strides(dims), 0});
  };
  auto kernel = std::make_unique<DotKernel>(view, operand_view(0), operand_view(1), views);
  if (!kernel->works()) return nullptr;
  return kernel;
}

}  // namespace tessera
