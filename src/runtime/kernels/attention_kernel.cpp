// SPDX-License-Identifier: Apache-2.0
// attention and attention-backward: the operands and their strides for the loops in simd/attention_kernels.cpp.
#include <cmath>

#include "kernels/kernel.h"
#include "kernels/simd/attention_args.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const OpView& view, const OperandViews& views)
      : form_(attention_form(view)), functions_(kernels::attention_functions(view.operands[0].dtype())) {
    for (int i = 0; i < isize(view.operands); ++i) {
      const Type& type = at(view.operands, i);
      places_.push_back(at(views, i).value_or(View{type.dims(), row_major_strides(type.dims()), 0}));
      offsets_.push_back(places_.back().offset * dtype_size(type.dtype()));
    }
    set_sizes(view);
    workspace_bytes_ = form_.is_backward ? functions_.backward_workspace(args_) : functions_.forward_workspace(args_);
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const KernelArgs& given) const override {
    kernels::AttentionArgs args = args_;
    const auto data = [&](int i) { return at(given.in, i) + at(offsets_, i); };
    args.q.data = data(0);
    args.k.data = data(1);
    args.v.data = data(2);
    if (form_.is_backward) {
      args.d_output.data = data(3);
      args.log_sum.data = data(4);
      args.delta.data = data(5);
    }
    if (form_.mask >= 0) args.mask = data(form_.mask);
    if (form_.offset >= 0) args.offset = *reinterpret_cast<const std::int32_t*>(data(form_.offset));
    if (form_.key >= 0)
      for (int i = 0; i < 2; ++i) args.key[i] = element<std::uint32_t>(data(form_.key), form_.key, i);
    if (form_.start >= 0)
      for (int i = 0; i < 4; ++i) args.start[i] = element<std::int32_t>(data(form_.start), form_.start, i);
    for (std::size_t i = 0; i < given.out.size(); ++i) args.out[i] = given.out[i];
    args.workspace = given.workspace;
    form_.is_backward ? functions_.backward(args) : functions_.forward(args);
  }

 private:
  template <class T>
  [[nodiscard]] T element(const std::byte* data, int operand, int i) const {
    return reinterpret_cast<const T*>(data)[i * at(places_, operand).strides[0]];
  }
  // [batch, rows, heads, columns], or without columns.
  [[nodiscard]] kernels::AttentionArray array(int operand) const {
    const Dims& s = at(places_, operand).strides;
    return {nullptr, s[0], s[1], s[2], s.size() > 3 ? s[3] : 0};
  }
  void set_sizes(const OpView& view) {
    const AttentionAttributes& a = form_.attributes;
    args_.dtype = view.operands[0].dtype();
    args_.batch = form_.batch, args_.rows = form_.rows, args_.heads = form_.heads, args_.depth = form_.depth;
    args_.keys = form_.keys, args_.key_heads = form_.key_heads, args_.value_depth = form_.value_depth;
    args_.q = array(0);
    args_.k = array(1);
    args_.v = array(2);
    if (form_.is_backward) {
      args_.d_output = array(3);
      args_.log_sum = array(4);
      args_.delta = array(5);
    }
    args_.scale = a.scale;
    args_.causal = a.causal;
    args_.window = a.window;
    if (form_.mask >= 0) {
      const Type& mask = at(view.operands, form_.mask);
      args_.mask_is_pred = mask.dtype() == DType::kPred;
      for (int d = 0; d < 4; ++d) args_.mask_strides[d] = mask.dim(d) == 1 ? 0 : at(at(places_, form_.mask).strides, d);
    }
    if (form_.key < 0) return;
    args_.dropout_threshold =
        static_cast<std::uint32_t>(std::ceil(static_cast<double>(static_cast<float>(a.dropout)) * 0x1p24));
    args_.kept_factor = 1 / (1 - a.dropout);
    const Dims complete = a.dropout_dims.empty() ? Dims{form_.heads, form_.rows, form_.keys} : a.dropout_dims;
    for (int d = 0; d < 3; ++d) args_.complete[d] = at(complete, d);
    args_.philox_rounds = kernels::kernel_set().philox_rounds;
  }

  AttentionForm form_;
  kernels::AttentionFunctions functions_;
  std::vector<View> places_;           // of the operands
  std::vector<std::int64_t> offsets_;  // in bytes
  kernels::AttentionArgs args_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace

KernelRef make_attention(const OpView& view, const OperandViews& views) {
  return std::make_unique<AttentionKernel>(view, views);
}

}  // namespace tessera
