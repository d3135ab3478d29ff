// SPDX-License-Identifier: Apache-2.0
// Convolutions by oneDNN, f32 and bf16: reordered where it is faster on a layout of its own. What it cannot do is left to the reference.
#include <algorithm>
#include <array>
#include <deque>
#include <dnnl.hpp>
#include <unordered_map>

#include "convolution_plan.h"
#include "memory.h"

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

const dnnl::engine& cpu_engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);  // immutable and safe to share
  return kEngine;
}

Tag tag_of(DType dtype) { return dtype == DType::kBF16 ? Tag::bf16 : Tag::f32; }

// A primitive and the layouts it wants.
struct Compiled {
  dnnl::primitive primitive;
  std::array<Memory::desc, 3> wanted;
};

Compiled compile(const convolution::Plan& plan, Tag operand, Tag result) {
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
std::optional<Compiled> compile_somehow(const convolution::Plan& plan, Tag operand, Tag result) {
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
  ConvolutionKernel(const convolution::Plan& plan, Compiled compiled, const std::array<int, 3>& operand)
      : sides_(plan.sides), compiled_(std::move(compiled)), operand_(operand), stream_(cpu_engine()) {
    for (std::size_t part = 0; part < sides_.size(); ++part) {
      own_[part] = Memory::desc(sides_[part].dims, tag_of(sides_[part].type), sides_[part].strides);
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
      const auto shift = sides_[part].offset * dtype_size(sides_[part].type);
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
  const auto plan = convolution::plan_convolution(view);
  if (!plan) return nullptr;
  if (auto products = convolution::make_pointwise(*plan)) return products;
  auto compiled = compile_somehow(*plan, tag_of(view.operands[0].dtype()), tag_of(view.result.dtype()));
  if (!compiled) return nullptr;
  return std::make_unique<ConvolutionKernel>(*plan, std::move(*compiled), plan->operands());
}

}  // namespace tessera
