// SPDX-License-Identifier: Apache-2.0
// reduce by a known reduction over any dims. Adjacent dims that are all kept or all reduced are merged. Then the kernel
// either reduces each row to one number, or adds up rows elementwise.
#include <algorithm>
#include <array>
#include <cstring>

#include "fusion/accumulator.h"
#include "kernels/kernel.h"
#include "kernels/simd/kernel_set.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/structural.h"

namespace tessera {
using kernels::ReduceOp;

std::optional<ReduceOp> reduce_op(Reduction reduction, DType dtype) {
  switch (reduction) {
    case Reduction::kSum: return ReduceOp::kSum;
    case Reduction::kProduct: return ReduceOp::kProduct;
    case Reduction::kMin: return ReduceOp::kMin;
    case Reduction::kMax: return ReduceOp::kMax;
    case Reduction::kAnd: return dtype == DType::kPred ? std::optional(ReduceOp::kMin) : std::nullopt;
    case Reduction::kOr: break;
  }
  return dtype == DType::kPred ? std::optional(ReduceOp::kMax) : std::nullopt;
}

namespace {

struct Axis {
  std::int64_t size;
  std::int64_t stride;  // elements
};

// Calls f(offset) for every index of the axes.
template <class F>
void for_each_offset(const std::vector<Axis>& axes, F&& f, std::size_t depth = 0, std::int64_t offset = 0) {
  if (depth == axes.size()) {
    f(offset);
    return;
  }
  for (std::int64_t i = 0; i < axes[depth].size; ++i)
    for_each_offset(axes, f, depth + 1, offset + i * axes[depth].stride);
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const OpView& view, ReduceOp op) : dtype_(view.result.dtype()), is_extremum_(is_extremum(op)) {
    const auto& set = kernels::kernel_set();
    row_ = set.reduce_row[static_cast<int>(op)][static_cast<int>(dtype_)];
    columns_ = set.reduce_columns[static_cast<int>(op)][static_cast<int>(dtype_)];
    const Dims& reduced = view.as<DimensionsAttributes>().dimensions;
    const Dims& dims = view.operands[0].dims();
    const Dims strides = row_major_strides(dims);
    bool last_was_reduced = false;
    for (std::int64_t d = 0; d < isize(dims); ++d) {
      if (at(dims, d) == 1) continue;
      const bool is_reduced = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
      auto& axes = is_reduced ? reduced_ : kept_;
      const bool follows = !(kept_.empty() && reduced_.empty()) && last_was_reduced == is_reduced;
      if (follows)
        axes.back() = {axes.back().size * at(dims, d), at(strides, d)};
      else
        axes.push_back({at(dims, d), at(strides, d)});
      last_was_reduced = is_reduced;
    }
    inner_is_reduced_ = last_was_reduced;
    auto& axes = inner_is_reduced_ ? reduced_ : kept_;
    if (!axes.empty()) {
      inner_ = axes.back().size;
      axes.pop_back();
    }
    input_is_empty_ = view.operands[0].element_count() == 0;
    result_count_ = view.result.element_count();
  }

  void run(const KernelArgs& args) const override {
    visit_dtype(dtype_, [&]<class T>() {
      if (is_extremum_)
        fold<T, Accumulator<T, true>>(args);
      else
        fold<T, Accumulator<T, false>>(args);
    });
  }

 private:
  template <class T, class A>
  void fold(const KernelArgs& args) const {
    const T* in = reinterpret_cast<const T*>(args.in[0]);
    T* out = reinterpret_cast<T*>(args.out[0]);
    const auto init = static_cast<A>(*reinterpret_cast<const T*>(args.in[1]));
    if (input_is_empty_)
      std::fill_n(out, result_count_, static_cast<T>(init));
    else if (inner_is_reduced_)
      fold_rows<T, A>(in, out, init);
    else
      fold_columns<T, A>(in, out, init);
  }
  template <class T, class A>
  void fold_rows(const T* in, T* out, A init) const {
    for_each_offset(kept_, [&](std::int64_t kept) {
      A total = init;
      for_each_offset(reduced_, [&](std::int64_t reduced) { row_(in + kept + reduced, inner_, &total); });
      *out++ = static_cast<T>(total);
    });
  }
  template <class T, class A>
  void fold_columns(const T* in, T* out, A init) const {
    constexpr std::int64_t kBlock = 512;
    std::array<A, kBlock> totals;
    for_each_offset(kept_, [&](std::int64_t kept) {
      for (std::int64_t start = 0; start < inner_; start += kBlock) {
        const std::int64_t count = std::min(kBlock, inner_ - start);
        std::fill_n(totals.begin(), count, init);
        for_each_offset(reduced_,
                        [&](std::int64_t reduced) { columns_(in + kept + reduced + start, count, totals.data()); });
        for (std::int64_t i = 0; i < count; ++i) *out++ = static_cast<T>(at(totals, i));
      }
    });
  }

  DType dtype_;
  bool is_extremum_;
  kernels::ReduceRowFunction row_ = nullptr;
  kernels::ReduceColumnsFunction columns_ = nullptr;
  std::vector<Axis> kept_;  // without the innermost
  std::vector<Axis> reduced_;
  std::int64_t inner_ = 1;  // contiguous elements, either kept or reduced
  bool inner_is_reduced_ = false;
  bool input_is_empty_ = false;
  std::int64_t result_count_ = 0;
};

}  // namespace

KernelRef make_reduce(const OpView& view, const OperandViews&) {
  if (view.operands.size() != 2 || view.called.size() != 1) return nullptr;
  const auto reduction = reduction_of(*view.called[0]);
  if (!reduction) return nullptr;
  const auto op = reduce_op(*reduction, view.result.dtype());
  if (!op) return nullptr;
  return std::make_unique<ReduceKernel>(view, *op);
}

}  // namespace tessera
