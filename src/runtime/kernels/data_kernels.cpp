// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements: iota, pad, concatenate, and views that need memory.
#include <algorithm>
#include <cstring>

#include "kernels/kernel.h"
#include "kernels/strided.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

class CopyKernel final : public Kernel {
 public:
  CopyKernel(std::int64_t element_bytes, const View& view)
      : offset_(view.offset * element_bytes),
        copy_(element_bytes, view.dims, view.strides, row_major_strides(view.dims)) {}
  void run(const KernelArgs& args) const override { copy_.run(args.in[0] + offset_, args.out[0]); }

 private:
  std::int64_t offset_;
  StridedCopy copy_;
};

class IotaKernel final : public Kernel {
 public:
  IotaKernel(const Type& type, std::int64_t dim) : type_(type), size_(at(type.dims(), dim)) {
    for (std::int64_t d = dim + 1; d < type.ndim(); ++d) inner_ *= at(type.dims(), d);
  }
  void run(const KernelArgs& args) const override {
    const std::int64_t count = type_.element_count();
    visit_dtype(type_.dtype(), [&]<class T>() {
      T* out = reinterpret_cast<T*>(args.out[0]);
      for (std::int64_t i = 0; i < count;)
        for (std::int64_t value = 0; value < size_ && i < count; ++value, i += inner_) {
          if constexpr (is_float(kDTypeOf<T>))
            std::fill_n(out + i, inner_, static_cast<T>(static_cast<double>(value)));
          else
            std::fill_n(out + i, inner_, static_cast<T>(value));
        }
    });
  }

 private:
  Type type_;
  std::int64_t size_;
  std::int64_t inner_ = 1;
};

// Fills the result with the padding value, then copies the operand's elements that negative padding does not remove.
class PadKernel final : public Kernel {
 public:
  explicit PadKernel(const OpView& view)
      : count_(view.result.element_count()), bytes_(dtype_size(view.result.dtype())), fill_(fill_function(bytes_)) {
    const auto& padding = view.as<PadAttributes>().padding;
    const Dims& from_dims = view.operands[0].dims();
    const Dims from_strides = row_major_strides(from_dims);
    const Dims to_strides = row_major_strides(view.result.dims());
    Dims box;
    Dims strides;
    for (std::size_t d = 0; d < padding.size(); ++d) {
      const std::int64_t step = padding[d].interior + 1;  // the position of element i is low + i * step
      const std::int64_t size = view.result.dims()[d];
      const std::int64_t first = padding[d].low >= 0 ? 0 : ceil_div(-padding[d].low, step);
      std::int64_t end = from_dims[d];
      while (end > first && padding[d].low + (end - 1) * step >= size) --end;
      box.push_back(std::max<std::int64_t>(0, end - first));
      strides.push_back(to_strides[d] * step);
      from_offset_ += first * from_strides[d] * bytes_;
      to_offset_ += (padding[d].low + first * step) * to_strides[d] * bytes_;
    }
    copy_ = StridedCopy(bytes_, box, from_strides, strides);
  }
  void run(const KernelArgs& args) const override {
    fill_(args.out[0], args.in[1], count_);
    if (copy_.element_count() > 0) copy_.run(args.in[0] + from_offset_, args.out[0] + to_offset_);
  }

 private:
  std::int64_t count_;
  std::int64_t bytes_;
  kernels::FillFunction fill_;
  std::int64_t from_offset_ = 0;
  std::int64_t to_offset_ = 0;
  StridedCopy copy_;
};

class ConcatenateKernel final : public Kernel {
 public:
  explicit ConcatenateKernel(const OpView& view) {
    const auto dim = view.as<DimensionsAttributes>().dimensions.front();
    const std::int64_t bytes = dtype_size(view.result.dtype());
    const Dims to = row_major_strides(view.result.dims());
    std::int64_t start = 0;
    for (const Type& part : view.operands) {
      offsets_.push_back(start * at(to, dim) * bytes);
      copies_.emplace_back(bytes, part.dims(), row_major_strides(part.dims()), to);
      start += at(part.dims(), dim);
    }
  }
  void run(const KernelArgs& args) const override {
    for (std::size_t i = 0; i < copies_.size(); ++i) copies_[i].run(args.in[i], args.out[0] + offsets_[i]);
  }

 private:
  std::vector<std::int64_t> offsets_;
  std::vector<StridedCopy> copies_;
};

}  // namespace

KernelRef make_copy(const OpView& view, const OperandViews& views) {
  const Dims& dims = view.operands[0].dims();
  const View operand = views[0].value_or(View{dims, row_major_strides(dims), 0});
  return std::make_unique<CopyKernel>(dtype_size(view.result.dtype()), view_through(view, operand));
}
KernelRef make_iota(const OpView& view, const OperandViews&) {
  return std::make_unique<IotaKernel>(view.result, view.as<IotaAttributes>().iota_dimension);
}
KernelRef make_pad(const OpView& view, const OperandViews&) { return std::make_unique<PadKernel>(view); }
KernelRef make_concatenate(const OpView& view, const OperandViews&) {
  return std::make_unique<ConcatenateKernel>(view);
}

}  // namespace tessera
