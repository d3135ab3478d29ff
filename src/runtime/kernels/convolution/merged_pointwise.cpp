// SPDX-License-Identifier: Apache-2.0
// Convolutions with windows of one element as one product over all images (simd/products/pointwise_kernels.cpp). With steps, the
// places that the windows read are copied first; the gradient of the image is spread over zeros at the end.
#include <algorithm>

#include "executable/workspace.h"
#include "kernels/convolution/convolution_plan.h"
#include "kernels/simd/kernel_set.h"

namespace tessera::convolution {
namespace {

bool has_merged_form(const Plan& plan) {
  const Side& weights = plan.sides[kWeights];
  const auto all = [](const auto& dims, std::int64_t value) {
    return std::all_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d == value; });
  };
  const bool is_f32 =
      std::all_of(plan.sides.begin(), plan.sides.end(), [](const Side& side) { return side.type == DType::kF32; });
  return is_f32 && plan.sides[kImage].dims.size() == 4 && weights.dims[0] == 1 && weights.dims[3] == 1 &&
         weights.dims[4] == 1 && all(plan.low, 0) && all(plan.high, 0);
}

class MergedPointwise final : public Kernel {
 public:
  MergedPointwise(const Plan& plan, bool has_steps) : plan_(plan), has_steps_(has_steps) {
    const Side& image = plan.sides[kImage];
    const Side& map = plan.sides[kMap];
    const Side& weights = plan.sides[kWeights];
    const std::int64_t places = map.dims[2] * map.dims[3];
    args_ = {.images = map.dims[0],
             .places = places,
             .inputs = image.dims[1],
             .outputs = map.dims[1],
             .in_image = has_steps ? image.dims[1] * places : image.strides[0],
             .in_feature = has_steps ? places : image.strides[1],
             .out_image = map.strides[0],
             .out_feature = map.strides[1],
             .weights_out = weights.strides[1],
             .weights_in = weights.strides[2]};
    is_turned_ = plan.form == Form::kBackwardData ||
                 (plan.form == Form::kBackwardWeights && weights.strides[2] != 1 && weights.dims[2] > 1);
    if (is_turned_) {
      std::swap(args_.inputs, args_.outputs);
      std::swap(args_.in_image, args_.out_image);
      std::swap(args_.in_feature, args_.out_feature);
      std::swap(args_.weights_in, args_.weights_out);
    }
    WorkspaceLayout layout;
    if (has_steps) dense_ = layout.add(map.dims[0] * image.dims[1] * places * dtype_size(DType::kF32));
    const kernels::KernelSet& set = kernels::kernel_set();
    product_ = layout.add(plan.form == Form::kBackwardWeights ? set.pointwise_gradient_workspace(args_)
                                                              : set.pointwise_workspace(args_));
    workspace_bytes_ = layout.bytes();
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const KernelArgs& run) const override {
    const kernels::KernelSet& set = kernels::kernel_set();
    float* const given = place(run, kImage);
    float* const dense = has_steps_ ? reinterpret_cast<float*>(run.workspace + dense_) : given;
    if (has_steps_ && plan_.form != Form::kBackwardData) gather(given, dense);
    kernels::PointwiseArgs args = args_;
    args.workspace = reinterpret_cast<float*>(run.workspace + product_);
    float* const map = place(run, kMap);
    args.image = is_turned_ ? map : dense;
    args.map = is_turned_ ? dense : map;
    if (plan_.form == Form::kBackwardWeights) {
      args.weights_gradient = place(run, kWeights);
      return set.pointwise_gradient(args);
    }
    args.weights = place(run, kWeights);
    set.pointwise(args);
    if (has_steps_ && plan_.form == Form::kBackwardData) spread(dense, given);
  }

 private:
  [[nodiscard]] float* place(const KernelArgs& args, Part part) const {
    const int operand = plan_.operands()[part];
    std::byte* const data =
        operand < 0 ? args.out[0] : const_cast<std::byte*>(args.in[static_cast<std::size_t>(operand)]);  // NOLINT
    return reinterpret_cast<float*>(data) + plan_.sides[part].offset;
  }

  // Calls f(offset in the image, stride in the image, offset among the places of windows) for each row of windows.
  template <class F>
  void for_each_row(F&& f) const {
    const Side& image = plan_.sides[kImage];
    const Side& map = plan_.sides[kMap];
    std::int64_t to = 0;
    for (std::int64_t n = 0; n < image.dims[0]; ++n)
      for (std::int64_t c = 0; c < image.dims[1]; ++c)
        for (std::int64_t y = 0; y < map.dims[2]; ++y, to += map.dims[3])
          f(n * image.strides[0] + c * image.strides[1] + y * plan_.strides[0] * image.strides[2],
            plan_.strides[1] * image.strides[3], to);
  }
  void gather(const float* image, float* dense) const {
    const std::int64_t width = plan_.sides[kMap].dims[3];
    for_each_row([&](std::int64_t from, std::int64_t step, std::int64_t to) {
      for (std::int64_t x = 0; x < width; ++x) dense[to + x] = image[from + x * step];
    });
  }
  void spread(const float* dense, float* image) const {
    const Side& side = plan_.sides[kImage];
    const std::int64_t width = plan_.sides[kMap].dims[3];
    std::fill_n(image, side.dims[0] * side.dims[1] * side.dims[2] * side.dims[3], 0.0F);
    for_each_row([&](std::int64_t to, std::int64_t step, std::int64_t from) {
      for (std::int64_t x = 0; x < width; ++x) image[to + x * step] = dense[from + x];
    });
  }

  Plan plan_;
  bool has_steps_;
  bool is_turned_ = false;  // the map takes the part of the image
  kernels::PointwiseArgs args_;
  std::int64_t dense_ = 0, product_ = 0;  // places in the workspace
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace

KernelRef make_merged_pointwise(const Plan& plan) {
  // A separate product for each image does not copy the places. It is fast for large images.
  constexpr std::int64_t kManyPlaces = 512;
  constexpr std::int64_t kFewest = 1 << 18;  // multiplications
  if (!has_merged_form(plan)) return nullptr;
  const Side& image = plan.sides[kImage];
  const Side& map = plan.sides[kMap];
  const std::int64_t places = map.dims[2] * map.dims[3];
  const bool has_steps = plan.strides[0] != 1 || plan.strides[1] != 1;
  if (stride_of_places(map) != 1 || (!has_steps && stride_of_places(image) != 1)) return nullptr;
  if (map.dims[0] * places * image.dims[1] * map.dims[1] < kFewest) return nullptr;
  if (plan.form == Form::kBackwardData && product(image.dims) != image.dims[0] * image.strides[0]) return nullptr;
  if (plan.form == Form::kBackwardWeights) {
    const Side& weights = plan.sides[kWeights];
    if (weights.strides[1] != 1 && weights.strides[2] != 1) return nullptr;
  } else if (!has_steps && places > kManyPlaces) {
    return nullptr;
  }
  return std::make_unique<MergedPointwise>(plan, has_steps);
}

}  // namespace tessera::convolution
