// SPDX-License-Identifier: Apache-2.0
// Convolutions by oneDNN for f32 and bf16. Operands are reordered to the layouts that oneDNN prefers. The reference
// evaluation handles what oneDNN does not support.
#include <algorithm>
#include <array>

#include "executable/workspace.h"
#include "kernels/convolution/convolution_plan.h"
#include "kernels/onednn_call.h"

namespace tessera {
namespace {

using Memory = dnnl::memory;
using Tag = Memory::data_type;
using convolution::Form;
using convolution::kImage;
using convolution::kMap;
using convolution::kWeights;
using convolution::Part;
using convolution::Side;

Tag tag_of(DType dtype) { return dtype == DType::kBF16 ? Tag::bf16 : Tag::f32; }

// A primitive, the names of its arguments and the layouts that it prefers.
struct Compiled {
  OneDnnCall call;
  std::array<int, 3> names;
  std::array<Memory::desc, 3> wanted;
};

template <class Made>
Compiled compiled(const typename Made::primitive_desc& description, const std::array<int, 3>& names,
                  const std::array<Memory::desc, 3>& wanted) {
  return {OneDnnCall::of<Made>(description, {{names[0], wanted[0]}, {names[1], wanted[1]}, {names[2], wanted[2]}}),
          names, wanted};
}

// What oneDNN takes for dims.
Memory::dims numbers(const Dims& dims) { return {dims.begin(), dims.end()}; }

Compiled compile(const convolution::Plan& plan, Tag operand, Tag result) {
  const auto any = [&](Part part, Tag type) {
    return Memory::desc(numbers(plan.sides[part].dims), type, Memory::format_tag::any);
  };
  const Memory::dims strides = numbers(plan.strides);
  const Memory::dims dilates = numbers(plan.dilates);
  const Memory::dims low = numbers(plan.low);
  const Memory::dims high = numbers(plan.high);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::primitive_attr attributes = with_given_scratchpad();
  const auto forward_of = [&](Tag image, Tag weights, Tag map, dnnl::prop_kind kind) {
    return dnnl::convolution_forward::primitive_desc(
        {kind, algorithm, any(kImage, image), any(kWeights, weights), any(kMap, map), strides, dilates, low, high},
        attributes, cpu_engine());
  };
  if (plan.form == Form::kForward) {
    const auto d = forward_of(operand, operand, result, dnnl::prop_kind::forward_inference);
    return compiled<dnnl::convolution_forward>(d, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                               {d.src_desc(), d.weights_desc(), d.dst_desc()});
  }
  const auto hint = forward_of(operand, operand, operand, dnnl::prop_kind::forward_training);
  if (plan.form == Form::kBackwardData) {
    const dnnl::convolution_backward_data::primitive_desc d(
        {algorithm, any(kImage, result), any(kWeights, operand), any(kMap, operand), strides, dilates, low, high},
        attributes, cpu_engine(), hint);
    return compiled<dnnl::convolution_backward_data>(d, {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                                     {d.diff_src_desc(), d.weights_desc(), d.diff_dst_desc()});
  }
  const dnnl::convolution_backward_weights::primitive_desc d(
      {algorithm, any(kImage, operand), any(kWeights, result), any(kMap, operand), strides, dilates, low, high},
      attributes, cpu_engine(), hint);
  return compiled<dnnl::convolution_backward_weights>(d, {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                                                      {d.src_desc(), d.diff_weights_desc(), d.diff_dst_desc()});
}

// Computes bf16 natively if the processor supports it, and otherwise in f32 (oneDNN's emulation takes three times as
// long).
std::optional<Compiled> compile_somehow(const convolution::Plan& plan, Tag operand, Tag result) {
  const auto bits = [](dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); };
  const auto wanted = bits(dnnl::cpu_isa::avx512_core_bf16);
  const bool has_bf16 = (bits(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  for (const auto& [x, y] : {std::pair(operand, result), std::pair(Tag::f32, Tag::f32)}) try {
      if (x == Tag::bf16 && !has_bf16) continue;
      return compile(plan, x, y);
    } catch (const dnnl::error& error) {
      // The reference evaluation handles types and sizes that oneDNN does not support.
      if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments) throw;
    }
  return std::nullopt;
}

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const convolution::Plan& plan, Compiled compiled)
      : sides_(plan.sides), compiled_(std::move(compiled)), operand_(plan.operands()), stream_(cpu_engine()) {
    WorkspaceLayout layout;
    std::int64_t scratchpad = compiled_.call.scratchpad_bytes();
    for (std::size_t part = 0; part < sides_.size(); ++part) {
      const Memory::desc own(numbers(sides_[part].dims), tag_of(sides_[part].type), numbers(sides_[part].strides));
      const Memory::desc& wanted = compiled_.wanted[part];
      if (own == wanted) continue;
      const auto& from = is_result(part) ? wanted : own;
      const auto& to = is_result(part) ? own : wanted;
      reorders_[part] = OneDnnCall::of<dnnl::reorder>({cpu_engine(), from, cpu_engine(), to, with_given_scratchpad()},
                                                      {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
      places_[part] = layout.add(static_cast<std::int64_t>(wanted.get_size()));
      scratchpad = std::max(scratchpad, reorders_[part].scratchpad_bytes());
    }
    scratchpad_ = layout.add(scratchpad);
    workspace_bytes_ = layout.bytes();
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const KernelArgs& args) const override {
    std::byte* scratchpad = args.workspace + scratchpad_;
    std::array<std::byte*, 3> own{};
    std::array<std::byte*, 3> use{};
    for (std::size_t part = 0; part < own.size(); ++part) {
      std::byte* data = is_result(part)
                            ? args.out[0]
                            : const_cast<std::byte*>(args.in[static_cast<std::size_t>(operand_[part])]);  // NOLINT
      own[part] = data + sides_[part].offset * dtype_size(sides_[part].type);
      use[part] = reorders_[part] ? args.workspace + places_[part] : own[part];
      if (reorders_[part] && !is_result(part)) reorder(part, own[part], use[part], scratchpad);
    }
    const auto& names = compiled_.names;
    compiled_.call.run(stream_, {{names[0], use[0]}, {names[1], use[1]}, {names[2], use[2]}}, scratchpad);
    for (std::size_t part = 0; part < own.size(); ++part)
      if (reorders_[part] && is_result(part)) reorder(part, use[part], own[part], scratchpad);
  }

 private:
  [[nodiscard]] bool is_result(std::size_t part) const { return operand_[part] < 0; }
  void reorder(std::size_t part, const std::byte* from, std::byte* to, std::byte* scratchpad) const {
    reorders_[part].run(stream_, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, scratchpad);
  }

  std::array<Side, 3> sides_;
  Compiled compiled_;
  std::array<int, 3> operand_;  // -1: the result
  std::array<OneDnnCall, 3> reorders_;
  std::array<std::int64_t, 3> places_{};  // of reordered operands in the workspace
  std::int64_t scratchpad_ = 0;
  std::int64_t workspace_bytes_ = 0;
  dnnl::stream stream_;  // of the rank that owns this kernel
};

}  // namespace

KernelRef make_convolution(const OpView& view, const OperandViews&) {
  if (view.result.element_count() == 0 || view.operands[0].element_count() == 0 ||
      view.operands[1].element_count() == 0)
    return nullptr;
  const auto plan = convolution::plan_convolution(view);
  if (!plan) return nullptr;
  if (auto merged = convolution::make_merged_pointwise(*plan)) return merged;
  if (auto products = convolution::make_pointwise(*plan)) return products;
  if (auto winograd = convolution::make_winograd(*plan)) return winograd;
  auto compiled = compile_somehow(*plan, tag_of(view.operands[0].dtype()), tag_of(view.result.dtype()));
  if (!compiled) return nullptr;
  return std::make_unique<ConvolutionKernel>(*plan, std::move(*compiled));
}

}  // namespace tessera
