// SPDX-License-Identifier: Apache-2.0
// Convolutions by oneDNN, f32 and bf16. HLO says with one op what oneDNN calls three:
//
//   forward           result = image * kernel
//   backward data     the kernel turned round: result = the image's gradient, lhs = that of the map, spread by the stride
//   backward weights  windows larger than the result, or groups in the batch: result = the kernel's gradient, rhs = that of the map
//
// Each works on image [n, c, ..], weights [g, o, i, ..] and map [n, o, ..]: HLO's arrays under other strides, reordered where oneDNN
// is faster on a layout of its own. What it cannot do is left to the reference.
#include <algorithm>
#include <array>
#include <deque>
#include <dnnl.hpp>
#include <unordered_map>

#include "kernel.h"
#include "memory.h"
#include "tessera/base/text.h"
#include "tessera/ops/windows.h"

namespace tessera {
namespace {

using Memory = dnnl::memory;
using Tag = Memory::data_type;

enum class Form : std::uint8_t { kForward, kBackwardData, kBackwardWeights };
enum Part : std::uint8_t { kImage, kWeights, kMap };

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);  // immutable and safe to share
  return engine;
}

std::optional<Tag> tag_of(DType dtype) {
  if (dtype == DType::kF32) return Tag::f32;
  if (dtype == DType::kBF16) return Tag::bf16;
  return std::nullopt;
}

// One of the three arrays, as HLO lays it out.
struct Side {
  Memory::dims dims;
  Memory::dims strides;
  std::int64_t offset = 0;  // elements
  Tag type = Tag::f32;
};

// A convolution in oneDNN's words.
struct Plan {
  Form form = Form::kForward;
  std::array<Side, 3> sides;
  Memory::dims strides, dilates, low, high;
};

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

class Planner {
 public:
  explicit Planner(const OpView& view)
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
    const auto operand = tag_of(lhs_.dtype());
    const auto result = tag_of(view_.result.dtype());
    if (!operand || !result) return false;
    for (Side& side : plan_.sides) side.type = *operand;
    side(result_part()).type = *result;
    return true;
  }

  [[nodiscard]] Part result_part() const {
    return plan_.form == Form::kForward ? kMap : plan_.form == Form::kBackwardData ? kImage : kWeights;
  }
  Side& side(Part part) { return plan_.sides[part]; }

  // Of the weights: their output features, cut into groups, and their input features.
  void add_weights(const Axis& outputs, const Axis& inputs, std::int64_t groups, bool groups_in_outputs) {
    Side& weights = side(kWeights);
    const Axis& grouped = groups_in_outputs ? outputs : inputs;
    const auto cut = grouped.size / groups;
    add(weights, {groups, cut * grouped.stride});
    add(weights, {groups_in_outputs ? cut : outputs.size, outputs.stride});
    add(weights, {groups_in_outputs ? inputs.size : cut, inputs.stride});
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

  // The forward convolution's step, dilation and padding; padding that cuts becomes a smaller image.
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

// A primitive and the layouts it wants.
struct Compiled {
  dnnl::primitive primitive;
  std::array<Memory::desc, 3> wanted;
};

Compiled compile(const Plan& plan, Tag operand, Tag result) {
  const auto any = [&](Part part, Tag type) {
    return Memory::desc(plan.sides[part].dims, type, Memory::format_tag::any);
  };
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto forward_of = [&](Tag image, Tag weights, Tag map, dnnl::prop_kind kind) {
    return dnnl::convolution_forward::primitive_desc({kind, algorithm, any(kImage, image), any(kWeights, weights),
                                                      any(kMap, map), plan.strides, plan.dilates, plan.low, plan.high},
                                                     cpu_engine());
  };
  if (plan.form == Form::kForward) {
    const auto d = forward_of(operand, operand, result, dnnl::prop_kind::forward_inference);
    return {dnnl::convolution_forward(d), {d.src_desc(), d.weights_desc(), d.dst_desc()}};
  }
  if (plan.form == Form::kBackwardData) {
    const auto hint = forward_of(operand, operand, operand, dnnl::prop_kind::forward_training);
    const dnnl::convolution_backward_data::primitive_desc d(
        {algorithm, any(kImage, result), any(kWeights, operand), any(kMap, operand), plan.strides, plan.dilates,
         plan.low, plan.high},
        cpu_engine(), hint);
    return {dnnl::convolution_backward_data(d), {d.diff_src_desc(), d.weights_desc(), d.diff_dst_desc()}};
  }
  const auto hint = forward_of(operand, operand, operand, dnnl::prop_kind::forward_training);
  const dnnl::convolution_backward_weights::primitive_desc d(
      {algorithm, any(kImage, operand), any(kWeights, result), any(kMap, operand), plan.strides, plan.dilates, plan.low,
       plan.high},
      cpu_engine(), hint);
  return {dnnl::convolution_backward_weights(d), {d.src_desc(), d.diff_weights_desc(), d.diff_dst_desc()}};
}

// bf16 as it is where the processor has it, else in f32 (oneDNN's emulation takes three times as long).
std::optional<Compiled> compile_somehow(const Plan& plan, Tag operand, Tag result) {
  const auto bits = [](dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); };
  const auto wanted = bits(dnnl::cpu_isa::avx512_core_bf16);
  const bool has_bf16 = (bits(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  for (const auto& [x, y] : {std::pair(operand, result), std::pair(Tag::f32, Tag::f32)}) try {
      if (x == Tag::bf16 && !has_bf16) continue;
      return compile(plan, x, y);
    } catch (const dnnl::error& error) {
      // What oneDNN lacks for these types or sizes, the reference evaluation runs.
      if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments) throw;
    }
  return std::nullopt;
}

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const Plan& plan, Compiled compiled, const std::array<int, 3>& operand)
      : sides_(plan.sides), compiled_(std::move(compiled)), operand_(operand), stream_(cpu_engine()) {
    for (std::size_t part = 0; part < sides_.size(); ++part) {
      own_[part] = Memory::desc(sides_[part].dims, sides_[part].type, sides_[part].strides);
      if (own_[part] == compiled_.wanted[part]) continue;
      const auto& from = is_result(part) ? compiled_.wanted[part] : own_[part];
      const auto& to = is_result(part) ? own_[part] : compiled_.wanted[part];
      reorders_[part] = dnnl::reorder({cpu_engine(), from, cpu_engine(), to});
    }
    const bool backward_data = plan.form == Form::kBackwardData;
    const bool backward_weights = plan.form == Form::kBackwardWeights;
    names_ = {backward_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
              backward_weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
              backward_data || backward_weights ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST};
  }

  void run(const KernelArgs& args) const override {
    std::deque<DeviceMemory> scratch;
    std::unordered_map<int, Memory> arguments;
    std::array<Memory, 3> own;
    for (std::size_t part = 0; part < own.size(); ++part) {
      const auto shift = sides_[part].offset * static_cast<std::int64_t>(Memory::data_type_size(sides_[part].type));
      std::byte* data = is_result(part)
                            ? args.out[0]
                            : const_cast<std::byte*>(args.in[static_cast<std::size_t>(operand_[part])]);  // NOLINT
      own[part] = Memory(own_[part], cpu_engine(), data + shift);
      Memory use = own[part];
      if (reorders_[part]) {
        scratch.emplace_back(rank_memory().pool, static_cast<std::int64_t>(compiled_.wanted[part].get_size()));
        use = Memory(compiled_.wanted[part], cpu_engine(), scratch.back().data());
        if (!is_result(part)) reorders_[part].execute(stream_, own[part], use);
      }
      arguments.emplace(names_[part], use);
    }
    compiled_.primitive.execute(stream_, arguments);
    for (std::size_t part = 0; part < own.size(); ++part)
      if (is_result(part) && reorders_[part]) reorders_[part].execute(stream_, arguments.at(names_[part]), own[part]);
  }

 private:
  [[nodiscard]] bool is_result(std::size_t part) const { return operand_[part] < 0; }

  std::array<Side, 3> sides_;
  Compiled compiled_;
  std::array<int, 3> operand_;  // -1: the result
  std::array<Memory::desc, 3> own_;
  mutable std::array<dnnl::reorder, 3> reorders_;
  std::array<int, 3> names_{};
  mutable dnnl::stream stream_;  // of the rank that owns this kernel
};

}  // namespace

KernelRef make_convolution(const OpView& view, const OperandViews&) {
  if (view.result.element_count() == 0 || view.operands[0].element_count() == 0 ||
      view.operands[1].element_count() == 0)
    return nullptr;
  const auto plan = Planner(view).plan();
  if (!plan) return nullptr;
  auto compiled = compile_somehow(*plan, *tag_of(view.operands[0].dtype()), *tag_of(view.result.dtype()));
  if (!compiled) return nullptr;
  const std::array<int, 3> operand = plan->form == Form::kForward        ? std::array<int, 3>{0, 1, -1}
                                     : plan->form == Form::kBackwardData ? std::array<int, 3>{-1, 1, 0}
                                                                         : std::array<int, 3>{0, -1, 1};
  return std::make_unique<ConvolutionKernel>(*plan, std::move(*compiled), operand);
}

}  // namespace tessera
