// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/convolution/convolution_plan.h"
#include "tessera/base/text.h"
#include "tessera/ops/windows.h"

namespace tessera::convolution {
namespace {

struct Axis {
  std::int64_t size;
  std::int64_t stride;
};
Axis axis_of(const Type& type, std::int64_t dim) {
  return {at(type.dims(), dim), at(row_major_strides(type.dims()), dim)};
}
void add(Side& side, const Axis& axis) {
  side.dims.push_back(axis.size);
  side.strides.push_back(axis.stride);
}

class ConvolutionPlanner {
 public:
  explicit ConvolutionPlanner(const OpView& view)
      : view_(view), a_(view.as<ConvolutionAttributes>()), lhs_(view.operands[0]), rhs_(view.operands[1]) {}

  std::optional<Plan> plan() {
    const auto& dims = a_.window.dims;
    const auto turned = [](const WindowDim& w) { return w.size == 1 || w.reversed; };
    const auto upright = [](const WindowDim& w) { return w.size == 1 || !w.reversed; };
    const auto steps = [](const WindowDim& w) { return w.stride == 1; };
    const auto dense = [](const WindowDim& w) { return w.base_dilation == 1; };
    const auto all = [&](const auto& is) { return std::all_of(dims.begin(), dims.end(), is); };
    if (all(dense) && all(upright))
      plan_.form = is_weight_gradient() ? Form::kBackwardWeights : Form::kForward;
    else if (all(turned) && all(steps) && a_.batch_group_count == 1)
      plan_.form = Form::kBackwardData;
    else
      return std::nullopt;
    if (a_.batch_group_count > 1 && plan_.form == Form::kForward) return std::nullopt;
    if (!set_types()) return std::nullopt;
    add_batch_and_features();
    for (int i = 0; i < isize(dims); ++i)
      if (!add_image_dim(i)) return std::nullopt;
    if (dims.empty()) add_dummy_dim();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] bool is_weight_gradient() const {
    if (a_.batch_group_count > 1) return true;
    if (a_.feature_group_count > 1) return false;
    std::int64_t kernel = 1;
    std::int64_t result = 1;
    for (int i = 0; i < isize(a_.window.dims); ++i) {
      kernel *= at(a_.window.dims, i).size;
      result *= at(view_.result.dims(), at(a_.dim_labels.result_spatial, i));
    }
    return kernel > result;
  }

  bool set_types() {
    for (const DType type : {lhs_.dtype(), view_.result.dtype()})
      if (type != DType::kF32 && type != DType::kBF16) return false;
    for (Side& side : plan_.sides) side.type = lhs_.dtype();
    side(result_part()).type = view_.result.dtype();
    return true;
  }

  [[nodiscard]] Part result_part() const {
    return plan_.form == Form::kForward ? kMap : plan_.form == Form::kBackwardData ? kImage : kWeights;
  }
  Side& side(Part part) { return plan_.sides[part]; }

  // Adds the output features of the weights, divided into groups, and their input features.
  void add_weights(const Axis& outputs, const Axis& inputs, std::int64_t groups, bool groups_in_outputs) {
    Side& weights = side(kWeights);
    const Axis& grouped = groups_in_outputs ? outputs : inputs;
    const auto group_size = grouped.size / groups;
    add(weights, {groups, group_size * grouped.stride});
    add(weights, {groups_in_outputs ? group_size : outputs.size, outputs.stride});
    add(weights, {groups_in_outputs ? inputs.size : group_size, inputs.stride});
  }

  void add_batch_and_features() {
    const auto& labels = a_.dim_labels;
    const auto lhs = [&](std::int64_t d) { return axis_of(lhs_, d); };
    const auto rhs = [&](std::int64_t d) { return axis_of(rhs_, d); };
    const auto result = [&](std::int64_t d) { return axis_of(view_.result, d); };
    switch (plan_.form) {
      case Form::kForward:
        add(side(kImage), lhs(labels.lhs_batch));
        add(side(kImage), lhs(labels.lhs_feature));
        add(side(kMap), result(labels.result_batch));
        add(side(kMap), result(labels.result_feature));
        return add_weights(rhs(labels.rhs_output), rhs(labels.rhs_input), a_.feature_group_count, true);
      case Form::kBackwardData:
        add(side(kMap), lhs(labels.lhs_batch));
        add(side(kMap), lhs(labels.lhs_feature));
        add(side(kImage), result(labels.result_batch));
        add(side(kImage), result(labels.result_feature));
        return add_weights(rhs(labels.rhs_input), rhs(labels.rhs_output), a_.feature_group_count, false);
      case Form::kBackwardWeights: break;
    }
    add(side(kImage), lhs(labels.lhs_feature));
    add(side(kImage), lhs(labels.lhs_batch));
    add(side(kMap), rhs(labels.rhs_input));
    add(side(kMap), rhs(labels.rhs_output));
    add_weights(result(labels.result_feature), result(labels.result_batch), a_.batch_group_count, true);
  }

  // Derives the stride, dilation and padding of the forward convolution. Negative padding becomes a smaller image.
  bool add_image_dim(int i) {
    const WindowDim& w = at(a_.window.dims, i);
    Axis image = axis_of(lhs_, at(a_.dim_labels.lhs_spatial, i));
    Axis kernel = axis_of(rhs_, at(a_.dim_labels.rhs_spatial, i));
    Axis map = axis_of(view_.result, at(a_.dim_labels.result_spatial, i));
    std::int64_t stride = w.stride;
    std::int64_t dilation = w.dilation;
    std::int64_t low = w.low;
    if (plan_.form == Form::kBackwardWeights) {
      std::swap(kernel, map);
      std::swap(stride, dilation);
    } else if (plan_.form == Form::kBackwardData) {
      std::swap(image, map);
      stride = w.base_dilation;
      low = w.extent() - 1 - w.low;
    }
    if (low < 0) {
      if (plan_.form == Form::kBackwardData || image.size + low < 1) return false;
      side(kImage).offset -= low * image.stride;
      image.size += low;
      low = 0;
    }
    std::int64_t high = (map.size - 1) * stride + (kernel.size - 1) * dilation + 1 - image.size - low;
    if (high < 0) {
      if (plan_.form == Form::kBackwardData && -high >= stride) return false;
      if (plan_.form != Form::kBackwardData) image.size += high;
      if (image.size < 1) return false;
      high = 0;
    }
    add(side(kImage), image);
    add(side(kWeights), kernel);
    add(side(kMap), map);
    plan_.strides.push_back(stride);
    plan_.dilates.push_back(dilation - 1);
    plan_.low.push_back(low);
    plan_.high.push_back(high);
    return true;
  }

  void add_dummy_dim() {
    for (Side& side : plan_.sides) add(side, {1, 1});
    plan_.strides = {1};
    plan_.dilates = plan_.low = plan_.high = {0};
  }

  const OpView& view_;
  const ConvolutionAttributes& a_;
  const Type& lhs_;
  const Type& rhs_;
  Plan plan_;
};

}  // namespace

std::optional<Plan> plan_convolution(const OpView& view) { return ConvolutionPlanner(view).plan(); }

}  // namespace tessera::convolution
