// SPDX-License-Identifier: Apache-2.0
// Convolutions with windows of three by three elements by Winograd's algorithm (simd/winograd/winograd_kernels.cpp). The gradient
// of the image is a convolution of the map with the turned weights.
#include <algorithm>

#include "kernels/convolution/convolution_plan.h"
#include "kernels/simd/kernel_set.h"
#include "tessera/base/options.h"

namespace tessera::convolution {
namespace {

constexpr std::int64_t kWindow = 3;
constexpr std::int64_t kTile = 4;  // results along each dim

// Features, batch and images of a side, if the elements of its rows are contiguous.
std::optional<kernels::WinogradSide> winograd_side(const Side& side) {
  if (side.strides[3] != 1 && side.dims[3] > 1) return std::nullopt;
  return kernels::WinogradSide{.features = side.dims[1],
                               .height = side.dims[2],
                               .width = side.dims[3],
                               .image_stride = side.strides[0],
                               .feature_stride = side.strides[1],
                               .row_stride = side.strides[2]};
}

bool has_winograd_form(const Plan& plan) {
  const Side& weights = plan.sides[kWeights];
  const auto all = [](const Dims& dims, std::int64_t value) {
    return std::all_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d == value; });
  };
  const bool is_f32 =
      std::all_of(plan.sides.begin(), plan.sides.end(), [](const Side& side) { return side.type == DType::kF32; });
  return is_f32 && weights.dims.size() == 5 && weights.dims[0] == 1 && weights.dims[3] == kWindow &&
         weights.dims[4] == kWindow && all(plan.strides, 1) && all(plan.dilates, 0) &&
         std::all_of(plan.low.begin(), plan.low.end(), [](std::int64_t low) { return low < kWindow; });
}

// Few features do not pay for the transforms, and small maps fill too little of their tiles.
bool winograd_pays(const kernels::WinogradArgs& args) {
  constexpr std::int64_t kFewestFeatures = 16;
  constexpr std::int64_t kFewestTiles = 16;
  const std::int64_t tiles = ceil_div(args.out.height, kTile) * ceil_div(args.out.width, kTile);
  const std::int64_t places = (kTile + kWindow - 1) * (kTile + kWindow - 1);
  return std::min(args.in.features, args.out.features) >= kFewestFeatures && args.images * tiles >= kFewestTiles &&
         3 * places * tiles <= 2 * kWindow * kWindow * args.out.height * args.out.width;
}

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(const Plan& plan, const kernels::WinogradArgs& args)
      : plan_(plan), args_(args), is_gradient_(plan.form == Form::kBackwardWeights) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    const kernels::KernelSet& set = kernels::kernel_set();
    return is_gradient_ ? set.winograd_gradient_workspace(args_) : set.winograd_workspace(args_);
  }

  void run(const KernelArgs& run) const override {
    kernels::WinogradArgs args = args_;
    args.workspace = reinterpret_cast<float*>(run.workspace);
    args.image = place(run, plan_.form == Form::kBackwardData ? kMap : kImage);
    args.map = place(run, plan_.form == Form::kBackwardData ? kImage : kMap);
    float* const weights = place(run, kWeights);
    const kernels::KernelSet& set = kernels::kernel_set();
    if (is_gradient_) {
      args.weights_gradient = weights;
      return set.winograd_gradient(args);
    }
    // The turned weights begin at the last element of the window.
    const bool is_turned = plan_.form == Form::kBackwardData;
    args.weights = is_turned ? weights - (kWindow - 1) * (args.weights_y + args.weights_x) : weights;
    set.winograd(args);
  }

 private:
  [[nodiscard]] float* place(const KernelArgs& args, Part part) const {
    const int operand = plan_.operands()[part];
    std::byte* const data =
        operand < 0 ? args.out[0] : const_cast<std::byte*>(args.in[static_cast<std::size_t>(operand)]);  // NOLINT
    return reinterpret_cast<float*>(data) + plan_.sides[part].offset;
  }

  Plan plan_;
  kernels::WinogradArgs args_;
  bool is_gradient_;
};

}  // namespace

KernelRef make_winograd(const Plan& plan) {
  if (!options().flag("TESSERA_WINOGRAD") || !has_winograd_form(plan)) return nullptr;
  const bool is_turned = plan.form == Form::kBackwardData;
  const auto in = winograd_side(plan.sides[is_turned ? kMap : kImage]);
  const auto out = winograd_side(plan.sides[is_turned ? kImage : kMap]);
  if (!in || !out) return nullptr;
  const Dims& strides = plan.sides[kWeights].strides;  // group, output, input, rows, columns
  const std::int64_t sign = is_turned ? -1 : 1;
  const kernels::WinogradArgs args{.images = plan.sides[kImage].dims[0],
                                   .in = *in,
                                   .out = *out,
                                   .low_y = is_turned ? kWindow - 1 - plan.low[0] : plan.low[0],
                                   .low_x = is_turned ? kWindow - 1 - plan.low[1] : plan.low[1],
                                   .weights_out = strides[is_turned ? 2 : 1],
                                   .weights_in = strides[is_turned ? 1 : 2],
                                   .weights_y = sign * strides[3],
                                   .weights_x = sign * strides[4]};
  if (!winograd_pays(args)) return nullptr;
  return std::make_unique<WinogradKernel>(plan, args);
}

}  // namespace tessera::convolution
