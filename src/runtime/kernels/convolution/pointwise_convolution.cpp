// SPDX-License-Identifier: Apache-2.0
// Convolutions with windows of one element are products of the features at each position:
//
//   forward           map[n][o, s] = weights[o, i] image[n][i, s]              for each image n of the batch
//   backward data     image[n][i, s] = weights[o, i]^T map[n][o, s]
//   backward weights  weights[o, i] = sum over n of map[n][o, s] image[n][i, s]^T
#include <algorithm>

#include "kernels/convolution/convolution_plan.h"
#include "kernels/dot/dot_plan.h"

namespace tessera::convolution {

std::optional<std::int64_t> stride_of_places(const Side& side) {
  std::int64_t stride = 0;
  std::int64_t size = 1;
  for (std::size_t d = side.dims.size(); d-- > 2;) {
    if (side.dims[d] == 1) continue;
    if (size > 1 && side.strides[d] != stride * size) return std::nullopt;
    if (size == 1) stride = side.strides[d];
    size *= side.dims[d];
  }
  return size == 1 ? 1 : stride;
}

namespace {

bool is_pointwise(const Plan& plan) {
  const Side& weights = plan.sides[kWeights];
  const auto all = [](const Dims& dims, std::int64_t value) {
    return std::all_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d == value; });
  };
  const bool one_type =
      std::all_of(plan.sides.begin(), plan.sides.end(), [](const Side& side) { return side.type == DType::kF32; });
  return one_type && all({weights.dims.begin() + 3, weights.dims.end()}, 1) && weights.dims[0] == 1 &&
         all(plan.strides, 1) && all(plan.low, 0) && all(plan.high, 0);
}

// The row and column strides of a matrix, in elements.
struct Matrix {
  std::int64_t row = 0;
  std::int64_t column = 0;
};
Matrix turned(Matrix m) { return {m.column, m.row}; }

MatrixProduct product_of(Matrix lhs, Matrix rhs, Matrix out, std::int64_t m, std::int64_t n, std::int64_t k) {
  MatrixProduct p;
  p.m = m, p.n = n, p.k = k;
  p.lhs_m = lhs.row, p.lhs_k = lhs.column;
  p.rhs_k = rhs.row, p.rhs_n = rhs.column;
  p.out_m = out.row, p.out_n = out.column;
  return p;
}

// Runs one product, or one for each image, where all but the first add to the result.
class PointwiseKernel final : public Kernel {
 public:
  // `lhs` and `rhs` are operands; the steps are the distances in elements between images.
  struct Gemm {
    MatrixProduct product;
    Part lhs = kWeights, rhs = kImage;
    std::int64_t lhs_step = 0, rhs_step = 0;
    std::int64_t images = 1;
  };

  PointwiseKernel(const Plan& plan, const Gemm& gemm) : plan_(plan), gemm_(gemm), first_(make_product(gemm.product)) {
    if (gemm.images == 1) return;
    MatrixProduct adding = gemm.product;
    adding.accumulates = true;
    next_ = make_product(adding);
  }
  [[nodiscard]] bool works() const { return first_ != nullptr && (gemm_.images == 1 || next_ != nullptr); }
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return std::max(first_->workspace_bytes(), next_ == nullptr ? 0 : next_->workspace_bytes());
  }

  void run(const KernelArgs& args) const override {
    for (std::int64_t image = 0; image < gemm_.images; ++image)
      (image == 0 ? first_ : next_)
          ->run(place(args, gemm_.lhs, image * gemm_.lhs_step), place(args, gemm_.rhs, image * gemm_.rhs_step),
                args.out[0] + result_offset(), args.workspace);
  }

 private:
  [[nodiscard]] const std::byte* place(const KernelArgs& args, Part part, std::int64_t elements) const {
    const int operand = plan_.operands()[part];
    return args.in[static_cast<std::size_t>(operand)] + (plan_.sides[part].offset + elements) * dtype_size(DType::kF32);
  }
  [[nodiscard]] std::int64_t result_offset() const {
    for (const Part part : {kImage, kWeights, kMap})
      if (plan_.operands()[part] < 0) return plan_.sides[part].offset * dtype_size(DType::kF32);
    return 0;
  }

  Plan plan_;
  Gemm gemm_;
  std::unique_ptr<ProductKernel> first_, next_;
};

// out[n][f, s] = weights rhs[n][., s]: a batch of products with the same lhs. f are the features of `out`; `weights`
// has the strides of the weights.
PointwiseKernel::Gemm batched(const Plan& plan, Part rhs, Part out, Matrix weights, std::int64_t rhs_place,
                              std::int64_t out_place) {
  const Side& from = plan.sides[rhs];
  const Side& to = plan.sides[out];
  std::int64_t places = 1;
  for (std::size_t d = 2; d < to.dims.size(); ++d) places *= to.dims[d];
  PointwiseKernel::Gemm gemm{.product = product_of(weights, {from.strides[1], rhs_place}, {to.strides[1], out_place},
                                                   to.dims[1], places, from.dims[1]),
                             .lhs = kWeights,
                             .rhs = rhs};
  gemm.product.batch = {to.dims[0]};
  gemm.product.lhs_batch = {0};
  gemm.product.rhs_batch = {from.strides[0]};
  gemm.product.out_batch = {to.strides[0]};
  return gemm;
}

PointwiseKernel::Gemm summed(const Plan& plan, std::int64_t image_place, std::int64_t map_place) {
  const Side& image = plan.sides[kImage];
  const Side& map = plan.sides[kMap];
  const Side& weights = plan.sides[kWeights];
  std::int64_t places = 1;
  for (std::size_t d = 2; d < map.dims.size(); ++d) places *= map.dims[d];
  return {.product = product_of({map.strides[1], map_place}, turned({image.strides[1], image_place}),
                                {weights.strides[1], weights.strides[2]}, map.dims[1], image.dims[1], places),
          .lhs = kMap,
          .rhs = kImage,
          .lhs_step = map.strides[0],
          .rhs_step = image.strides[0],
          .images = map.dims[0]};
}

// Exchanges rows and columns of the product, for results with contiguous rows after the exchange.
void turn(PointwiseKernel::Gemm& gemm) {
  MatrixProduct& p = gemm.product;
  std::swap(gemm.lhs, gemm.rhs);
  std::swap(gemm.lhs_step, gemm.rhs_step);
  std::swap(p.lhs_batch, p.rhs_batch);
  std::swap(p.m, p.n);
  std::swap(p.lhs_m, p.rhs_n);
  std::swap(p.lhs_k, p.rhs_k);
  std::swap(p.out_m, p.out_n);
}

}  // namespace

KernelRef make_pointwise(const Plan& plan) {
  if (!is_pointwise(plan)) return nullptr;
  const auto image = stride_of_places(plan.sides[kImage]);
  const auto map = stride_of_places(plan.sides[kMap]);
  if (!image || !map) return nullptr;
  const Side& w = plan.sides[kWeights];
  const Matrix outputs_by_inputs{w.strides[1], w.strides[2]};
  auto gemm = plan.form == Form::kForward        ? batched(plan, kImage, kMap, outputs_by_inputs, *image, *map)
              : plan.form == Form::kBackwardData ? batched(plan, kMap, kImage, turned(outputs_by_inputs), *map, *image)
                                                 : summed(plan, *image, *map);
  if (gemm.product.out_n != 1 && gemm.product.n > 1) turn(gemm);
  auto kernel = std::make_unique<PointwiseKernel>(plan, gemm);
  if (!kernel->works()) return nullptr;
  return kernel;
}

}  // namespace tessera::convolution
