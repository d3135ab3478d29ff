// SPDX-License-Identifier: Apache-2.0
// reduce-window whose windows all begin at the first element, or all end at the last one, along one dim: cumulative sums
// and their gradients. One pass over the elements instead of one for each result.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/kernel.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/windows.h"

namespace tessera {
namespace {

// The elements are [outer, count, inner], the results [outer, results, inner].
struct RunningShape {
  std::int64_t outer = 1;
  std::int64_t count = 1;
  std::int64_t results = 1;
  std::int64_t inner = 1;
  std::int64_t low = 0;
  std::int64_t size = 1;
  bool is_suffix = false;
};

std::optional<RunningShape> running_shape(const OpView& view) {
  const auto& window = view.as<WindowAttributes>().window.dims;
  RunningShape out;
  int dim = -1;
  for (int d = 0; d < isize(window); ++d) {
    const WindowDim& w = at(window, d);
    if (w.size == 1 && w.stride == 1 && w.low == 0 && w.high == 0 && w.base_dilation == 1) continue;
    if (dim >= 0 || w.stride != 1 || w.dilation != 1 || w.base_dilation != 1) return std::nullopt;
    dim = d;
  }
  if (dim < 0) return std::nullopt;
  const Dims& dims = view.operands[0].dims();
  for (int d = 0; d < isize(dims); ++d) (d < dim ? out.outer : d > dim ? out.inner : out.count) *= at(dims, d);
  out.results = view.result.dim(dim);
  out.low = at(window, dim).low;
  out.size = at(window, dim).size;
  // Result o reads the elements [o - low, o - low + size).
  const bool is_prefix = out.results - 1 - out.low <= 0;
  out.is_suffix = !is_prefix && out.size - out.low >= out.count;
  return is_prefix || out.is_suffix ? std::optional(out) : std::nullopt;
}

template <class T>
using RunningWide = std::conditional_t<std::is_integral_v<T>,
                                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>, double>;

template <class T>
class RunningKernel final : public Kernel {
 public:
  using W = RunningWide<T>;
  RunningKernel(const RunningShape& shape, Reduction reduction) : shape_(shape), reduction_(reduction) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return shape_.inner * static_cast<std::int64_t>(sizeof(W));
  }
  void run(const KernelArgs& args) const override {
    switch (reduction_) {
      case Reduction::kSum: return run_with(args, [](W a, W b) { return wrapped(a, b, std::plus<>()); });
      case Reduction::kProduct: return run_with(args, [](W a, W b) { return wrapped(a, b, std::multiplies<>()); });
      case Reduction::kMin:
        return run_with(args, [](W a, W b) { return is_nan(a) || b < a || is_nan(b) ? nan_or(a, b) : a; });
      default: return run_with(args, [](W a, W b) { return is_nan(a) || a < b || is_nan(b) ? nan_or(a, b) : a; });
    }
  }

 private:
  static bool is_nan(W x) {
    if constexpr (std::is_floating_point_v<W>) return std::isnan(x);
    return false;
  }
  static W nan_or(W a, W b) { return is_nan(a) ? a : b; }
  // Integers wrap around.
  template <class Op>
  static W wrapped(W a, W b, Op op) {
    if constexpr (std::is_integral_v<W>)
      return static_cast<W>(op(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
    else
      return op(a, b);
  }

  template <class Combine>
  void run_with(const KernelArgs& args, Combine combine) const {
    const auto* x = reinterpret_cast<const T*>(args.in[0]);
    // The sign of 8-bit integers is kept.
    const auto init = static_cast<W>(*reinterpret_cast<const T*>(args.in[1]));  // NOLINT(bugprone-signed-char-misuse)
    auto* out = reinterpret_cast<T*>(args.out[0]);
    auto* total = reinterpret_cast<W*>(args.workspace);
    const auto& s = shape_;
    for (std::int64_t i = 0; i < s.outer; ++i, x += s.count * s.inner, out += s.results * s.inner) {
      std::fill(total, total + s.inner, init);
      const auto include = [&](std::int64_t k) {
        for (std::int64_t j = 0; j < s.inner; ++j) total[j] = combine(total[j], static_cast<W>(x[k * s.inner + j]));
      };
      const auto store = [&](std::int64_t o) {
        for (std::int64_t j = 0; j < s.inner; ++j) out[o * s.inner + j] = static_cast<T>(total[j]);
      };
      if (s.is_suffix) {
        std::int64_t first = s.count;
        for (std::int64_t o = s.results - 1; o >= 0; --o) {
          while (first > std::clamp<std::int64_t>(o - s.low, 0, s.count)) include(--first);
          store(o);
        }
      } else {
        std::int64_t limit = 0;
        for (std::int64_t o = 0; o < s.results; ++o) {
          while (limit < std::clamp<std::int64_t>(o - s.low + s.size, 0, s.count)) include(limit++);
          store(o);
        }
      }
    }
  }

  RunningShape shape_;
  Reduction reduction_;
};

}  // namespace

KernelRef make_running_reduction(const OpView& view, Reduction reduction) {
  const bool is_known = reduction == Reduction::kSum || reduction == Reduction::kProduct ||
                        reduction == Reduction::kMin || reduction == Reduction::kMax;
  const auto shape = running_shape(view);
  if (!shape || !is_known || view.result.dtype() == DType::kPred) return nullptr;
  return visit_dtype(view.result.dtype(), [&]<class T>() -> KernelRef {
    if constexpr (std::is_same_v<T, bool>)
      return nullptr;
    else
      return std::make_unique<RunningKernel<T>>(*shape, reduction);
  });
}

}  // namespace tessera
