// SPDX-License-Identifier: Apache-2.0
// sort by a comparison of one operand, and topk. Both sort pairs of an integer key and a position.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/kernel.h"
#include "tessera/base/text.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/linear_algebra.h"

namespace tessera {
namespace {

struct OrderedKey {
  std::int64_t key;
  std::int64_t position;
};

// An integer with the order of the value. The order of floats is the total order.
template <class T>
std::int64_t order_of(T value) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return static_cast<std::int64_t>(value) ^ std::numeric_limits<std::int64_t>::min();
  } else if constexpr (is_float(kDTypeOf<T>)) {
    const auto bits = std::bit_cast<std::int64_t>(static_cast<double>(value));
    return bits < 0 ? bits ^ std::numeric_limits<std::int64_t>::max() : bits;
  } else {
    return static_cast<std::int64_t>(value);
  }
}

// Reads the line at `x`; smaller keys come first.
template <class T>
void read_keys(const T* x, std::int64_t step, std::int64_t n, bool descending, OrderedKey* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t key = order_of(x[i * step]);
    out[i] = {descending ? ~key : key, i};
  }
}

void insertion_sort(OrderedKey* keys, std::int64_t n) {
  for (std::int64_t i = 1; i < n; ++i) {
    const OrderedKey moved = keys[i];
    std::int64_t place = i;
    for (; place > 0 && keys[place - 1].key > moved.key; --place) keys[place] = keys[place - 1];
    keys[place] = moved;
  }
}

// Sorts n pairs; equal keys keep their order. Uses as much memory at `other`; returns where the result is.
const OrderedKey* merge_keys(OrderedKey* keys, OrderedKey* other, std::int64_t n) {
  constexpr std::int64_t kRun = 16;
  for (std::int64_t begin = 0; begin < n; begin += kRun) insertion_sort(keys + begin, std::min(kRun, n - begin));
  for (std::int64_t width = kRun; width < n; width *= 2, std::swap(keys, other))
    for (std::int64_t begin = 0; begin < n; begin += 2 * width) {
      const std::int64_t middle = std::min(begin + width, n);
      const std::int64_t end = std::min(begin + 2 * width, n);
      std::merge(keys + begin, keys + middle, keys + middle, keys + end, other + begin,
                 [](const OrderedKey& a, const OrderedKey& b) { return a.key < b.key; });
    }
  return keys;
}

void copy_element(std::byte* to, const std::byte* from, std::int64_t size) {
  std::memcpy(to, from, static_cast<std::size_t>(size));
}

class SortKernel final : public Kernel {
 public:
  SortKernel(const OpView& view, const SortOrder& order)
      : key_type_(at(view.operands, order.operand).dtype()),
        key_(order.operand),
        descending_(order.direction == CompareDirection::kGt) {
    const auto dim = static_cast<int>(view.as<SortAttributes>().dimensions.front());
    const Dims& dims = view.operands[0].dims();
    for (int d = 0; d < isize(dims); ++d) (d < dim ? outer_ : d > dim ? inner_ : count_) *= at(dims, d);
    for (const Type& type : view.operands) sizes_.push_back(dtype_size(type.dtype()));
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return 2 * count_ * static_cast<std::int64_t>(sizeof(OrderedKey));
  }
  void run(const KernelArgs& args) const override {
    auto* keys = reinterpret_cast<OrderedKey*>(args.workspace);
    visit_dtype(key_type_, [&]<class T>() {
      const auto* x = reinterpret_cast<const T*>(at(args.in, key_));
      for (std::int64_t i = 0; i < outer_; ++i)
        for (std::int64_t j = 0; j < inner_; ++j) {
          const std::int64_t base = i * count_ * inner_ + j;
          read_keys(x + base, inner_, count_, descending_, keys);
          place(args, base, merge_keys(keys, keys + count_, count_));
        }
    });
  }

 private:
  void place(const KernelArgs& args, std::int64_t base, const OrderedKey* sorted) const {
    for (std::size_t k = 0; k < sizes_.size(); ++k) {
      if (args.out[k] == nullptr) continue;
      const std::int64_t size = sizes_[k];
      for (std::int64_t i = 0; i < count_; ++i)
        copy_element(args.out[k] + (base + i * inner_) * size, args.in[k] + (base + sorted[i].position * inner_) * size,
                     size);
    }
  }

  DType key_type_;
  int key_;
  bool descending_;
  std::int64_t outer_ = 1;
  std::int64_t count_ = 1;
  std::int64_t inner_ = 1;
  std::vector<std::int64_t> sizes_;
};

// Keeps the k first pairs in order while it reads a line. For many results, sorting the line is faster.
class TopKKernel final : public Kernel {
 public:
  TopKKernel(const OpView& view, const TopKAttributes& attributes)
      : dtype_(view.operands[0].dtype()),
        count_(view.operands[0].dims().back()),
        lines_(count_ == 0 ? 0 : view.operands[0].element_count() / count_),
        k_(attributes.k),
        descending_(attributes.largest) {}
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return 2 * count_ * static_cast<std::int64_t>(sizeof(OrderedKey));
  }
  void run(const KernelArgs& args) const override {
    auto* keys = reinterpret_cast<OrderedKey*>(args.workspace);
    visit_dtype(dtype_, [&]<class T>() {
      const auto* x = reinterpret_cast<const T*>(args.in[0]);
      for (std::int64_t line = 0; line < lines_; ++line, x += count_) {
        read_keys(x, 1, count_, descending_, keys);
        const OrderedKey* first =
            k_ <= kMostInserted ? insert_keys(keys, keys + count_) : merge_keys(keys, keys + count_, count_);
        for (std::int64_t i = 0; i < k_; ++i) {
          if (args.out[0] != nullptr) reinterpret_cast<T*>(args.out[0])[line * k_ + i] = x[first[i].position];
          if (args.out[1] != nullptr)
            reinterpret_cast<std::int32_t*>(args.out[1])[line * k_ + i] = static_cast<std::int32_t>(first[i].position);
        }
      }
    });
  }

 private:
  static constexpr std::int64_t kMostInserted = 64;

  const OrderedKey* insert_keys(const OrderedKey* keys, OrderedKey* first) const {
    std::int64_t held = 0;
    for (std::int64_t i = 0; i < count_ && k_ > 0; ++i) {
      if (held == k_ && keys[i].key >= first[k_ - 1].key) continue;
      std::int64_t place = held < k_ ? held++ : k_ - 1;
      for (; place > 0 && first[place - 1].key > keys[i].key; --place) first[place] = first[place - 1];
      first[place] = keys[i];
    }
    return first;
  }

  DType dtype_;
  std::int64_t count_;
  std::int64_t lines_;
  std::int64_t k_;
  bool descending_;
};

}  // namespace

KernelRef make_sort(const OpView& view, const OperandViews&) {
  const auto order = sort_order(view);
  if (!order) return nullptr;
  const DType dtype = at(view.operands, order->operand).dtype();
  const bool is_total = !is_float(dtype) || order->type == CompareType::kTotalOrder;
  const bool is_strict = order->direction == CompareDirection::kLt || order->direction == CompareDirection::kGt;
  // Comparisons of integers as those of the other sign, and of floats that may be NaN, have other orders.
  const bool is_own = is_float(dtype) || order->type == CompareType::kDefault;
  return is_total && is_strict && is_own ? std::make_unique<SortKernel>(view, *order) : nullptr;
}

KernelRef make_topk(const OpView& view, const OperandViews&) {
  const auto attributes = top_k_of(view);
  return attributes ? std::make_unique<TopKKernel>(view, *attributes) : nullptr;
}

}  // namespace tessera
