// SPDX-License-Identifier: Apache-2.0
// reduce-window by a known reduction and select-and-scatter by a comparison, for floats. The dims after the last dim
// with a window form one contiguous run of elements, which is processed elementwise.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernel.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/windows.h"

namespace tessera {
namespace {

bool passes(const WindowDim& w) { return w == WindowDim{.reversed = w.reversed}; }

// The elements that the windows along each dim read, as offsets.
class Reader {
 public:
  using Offsets = std::vector<std::int64_t>;

  Reader(const std::vector<WindowDim>& window, const Dims& dims, const Dims& results) : outer_(results) {
    const Dims strides = row_major_strides(dims);
    while (!outer_.empty() && passes(at(window, isize(outer_) - 1))) {
      run_ *= outer_.back();
      outer_.pop_back();
    }
    for (int d = 0; d < isize(outer_); ++d) {
      const WindowDim& w = at(window, d);
      std::vector<Offsets> taps(static_cast<std::size_t>(at(outer_, d)));
      for (std::int64_t o = 0; o < at(outer_, d); ++o)
        for (auto [k, limit] = w.taps(o, at(dims, d)); k < limit; ++k) {
          const auto element = w.element_at(o * w.stride - w.low + k * w.dilation, at(dims, d));
          if (element >= 0) at(taps, o).push_back(element * at(strides, d));
        }
      taps_.push_back(std::move(taps));
    }
    if (outer_.empty()) {
      last_ = {{0}};
      return;
    }
    last_ = std::move(taps_.back());
    taps_.pop_back();
    outer_.pop_back();
  }
  [[nodiscard]] std::int64_t run() const { return run_; }

  /// Calls f(position of the run in the result, first, last). Its window reads the runs at first[i] + last[j], in
  /// row-major order of the window.
  template <class F>
  void for_each(F&& f) const {
    Offsets first;
    Offsets next;
    std::int64_t place = 0;
    for_each_index(outer_, [&](const Dims& position) {
      first.assign(1, 0);
      for (std::size_t d = 0; d < position.size(); ++d) {
        next.clear();
        for (const auto offset : first)
          for (const auto tap : at(taps_[d], position[d])) next.push_back(offset + tap);
        first.swap(next);
      }
      for (const Offsets& last : last_) {
        f(place, first, last);
        place += run_;
      }
    });
  }

 private:
  Dims outer_;  // the result's dims before the last dim with a window
  std::int64_t run_ = 1;
  std::vector<std::vector<Offsets>> taps_;  // by dim and result index
  std::vector<Offsets> last_;
};

std::vector<WindowDim> window_of(const OpView& view) {
  const auto& given = view.as<WindowAttributes>().window.dims;
  return given.empty() ? std::vector<WindowDim>(view.operands[0].dims().size()) : given;
}

template <class T>
using Wide =
    std::conditional_t<std::is_same_v<T, float>, double, std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <class T, class Combine>
void fold(const Reader& reader, const T* x, T init, T* out, Combine combine) {
  std::vector<Wide<T>> total(static_cast<std::size_t>(reader.run()));
  reader.for_each([&](std::int64_t place, const Reader::Offsets& first, const Reader::Offsets& last) {
    if (total.size() == 1) {
      auto sum = static_cast<Wide<T>>(init);
      for (const auto a : first)
        for (const auto b : last) sum = combine(sum, static_cast<Wide<T>>(x[a + b]));
      out[place] = static_cast<T>(sum);
      return;
    }
    std::fill(total.begin(), total.end(), static_cast<Wide<T>>(init));
    for (const auto a : first)
      for (const auto b : last) {
        const T* from = x + a + b;
        for (std::size_t i = 0; i < total.size(); ++i) total[i] = combine(total[i], static_cast<Wide<T>>(from[i]));
      }
    for (std::size_t i = 0; i < total.size(); ++i) out[place + static_cast<std::int64_t>(i)] = static_cast<T>(total[i]);
  });
}

template <class T>
class ReduceWindowKernel final : public Kernel {
 public:
  ReduceWindowKernel(const OpView& view, Reduction reduction)
      : reader_(window_of(view), view.operands[0].dims(), view.result.dims()), reduction_(reduction) {}
  void run(const KernelArgs& args) const override {
    const auto* x = reinterpret_cast<const T*>(args.in[0]);
    const T init = *reinterpret_cast<const T*>(args.in[1]);
    auto* out = reinterpret_cast<T*>(args.out[0]);
    using W = Wide<T>;
    const auto nan_or = [](W a, W b, W otherwise) { return std::isnan(a) || std::isnan(b) ? a + b : otherwise; };
    switch (reduction_) {
      case Reduction::kSum: return fold(reader_, x, init, out, [](W a, W b) { return a + b; });
      case Reduction::kProduct: return fold(reader_, x, init, out, [](W a, W b) { return a * b; });
      case Reduction::kMin: return fold(reader_, x, init, out, [&](W a, W b) { return nan_or(a, b, b < a ? b : a); });
      default: return fold(reader_, x, init, out, [&](W a, W b) { return nan_or(a, b, a < b ? b : a); });
    }
  }

 private:
  Reader reader_;
  Reduction reduction_;
};

template <class T>
class SelectAndScatterKernel final : public Kernel {
 public:
  SelectAndScatterKernel(const OpView& view, CompareDirection direction)
      : reader_(window_of(view), view.operands[0].dims(), view.operands[1].dims()),
        direction_(direction),
        count_(view.result.element_count()) {}
  void run(const KernelArgs& args) const override {
    const auto* x = reinterpret_cast<const T*>(args.in[0]);
    const auto* source = reinterpret_cast<const T*>(args.in[1]);
    auto* out = reinterpret_cast<T*>(args.out[0]);
    std::fill(out, out + count_, *reinterpret_cast<const T*>(args.in[2]));
    reader_.for_each([&](std::int64_t place, const Reader::Offsets& first, const Reader::Offsets& last) {
      if (first.empty() || last.empty()) return;
      for (std::int64_t i = 0; i < reader_.run(); ++i) {
        std::int64_t best = first.front() + last.front() + i;
        for (const auto a : first)
          for (const auto b : last)
            if (!keeps(static_cast<double>(x[best]), static_cast<double>(x[a + b + i]))) best = a + b + i;
        out[best] = static_cast<T>(static_cast<Wide<T>>(out[best]) + static_cast<Wide<T>>(source[place + i]));
      }
    });
  }

 private:
  // The comparison may be false for an element and itself, but then the first element also stays.
  [[nodiscard]] bool keeps(double a, double b) const {
    switch (direction_) {
      case CompareDirection::kGe: return a >= b;
      case CompareDirection::kGt: return a > b;
      case CompareDirection::kLe: return a <= b;
      case CompareDirection::kLt: return a < b;
      case CompareDirection::kEq: return a == b;
      case CompareDirection::kNe: break;
    }
    return a != b;
  }

  Reader reader_;
  CompareDirection direction_;
  std::int64_t count_;
};

template <template <class> class K, class How>
KernelRef of_floats(DType dtype, const OpView& view, How how) {
  if (dtype == DType::kF32) return std::make_unique<K<float>>(view, how);
  if (dtype == DType::kF64) return std::make_unique<K<double>>(view, how);
  if (dtype == DType::kBF16) return std::make_unique<K<BFloat16>>(view, how);
  return nullptr;
}

}  // namespace

KernelRef make_reduce_window(const OpView& view, const OperandViews&) {
  if (view.operands.size() != 2) return nullptr;
  const auto reduction = reduction_of(*view.called[0]);
  if (!reduction) return nullptr;
  if (KernelRef running = make_running_reduction(view, *reduction)) return running;
  return of_floats<ReduceWindowKernel>(view.result.dtype(), view, *reduction);
}

KernelRef make_select_and_scatter(const OpView& view, const OperandViews&) {
  const auto direction = comparison_of(*view.called[0]);
  if (!direction || reduction_of(*view.called[1]) != Reduction::kSum) return nullptr;
  return of_floats<SelectAndScatterKernel>(view.result.dtype(), view, *direction);
}

}  // namespace tessera
