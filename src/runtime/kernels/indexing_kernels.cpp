// SPDX-License-Identifier: Apache-2.0
// dynamic-slice, dynamic-update-slice, gather, scatter: windows at computed positions.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/kernel.h"
#include "kernels/strided.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/indexing.h"
#include "tessera/tensor/narrow_dtype.h"

namespace tessera {
namespace {

// Returns an integer element. Values that do not fit become the largest value.
std::int64_t index_at(DType dtype, const std::byte* data, std::int64_t i) {
  if (is_narrow_integer(dtype))
    return static_cast<std::int64_t>(narrow_value(dtype, static_cast<std::uint8_t>(data[i])));
  return visit_dtype(dtype, [&]<class T>() -> std::int64_t {
    if constexpr (is_integer(kDTypeOf<T>)) {
      const T value = reinterpret_cast<const T*>(data)[i];
      if constexpr (std::is_same_v<T, std::uint64_t>)
        return value > static_cast<T>(std::numeric_limits<std::int64_t>::max())
                   ? std::numeric_limits<std::int64_t>::max()
                   : static_cast<std::int64_t>(value);
      else
        return static_cast<std::int64_t>(value);
    } else {
      throw InternalError("an index that is not an integer");
    }
  });
}

bool contains(const Dims& dims, std::int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

// ---- dynamic slices -----------------------------------------------------------------------------------------------------------

// Returns the start of a window in bytes. The operands from `first` on are the start indices, which are clamped.
class WindowStart {
 public:
  WindowStart(const OpView& view, int first, const Dims& sizes) : first_(first) {
    const Type& x = view.operands[0];
    const Dims strides = row_major_strides(x.dims());
    for (int d = 0; d < x.ndim(); ++d) {
      types_.push_back(at(view.operands, first + d).dtype());
      limits_.push_back(x.dim(d) - at(sizes, d));
      strides_.push_back(at(strides, d) * dtype_size(x.dtype()));
    }
  }
  [[nodiscard]] std::int64_t offset(const KernelArgs& args) const {
    std::int64_t out = 0;
    for (int d = 0; d < isize(types_); ++d)
      out += std::clamp<std::int64_t>(index_at(at(types_, d), at(args.in, first_ + d), 0), 0, at(limits_, d)) *
             at(strides_, d);
    return out;
  }

 private:
  int first_;
  std::vector<DType> types_;
  Dims limits_;
  Dims strides_;
};

class DynamicSliceKernel final : public Kernel {
 public:
  explicit DynamicSliceKernel(const OpView& view)
      : start_(view, 1, view.result.dims()),
        copy_(dtype_size(view.result.dtype()), view.result.dims(), row_major_strides(view.operands[0].dims()),
              row_major_strides(view.result.dims())) {}
  void run(const KernelArgs& args) const override { copy_.run(args.in[0] + start_.offset(args), args.out[0]); }

 private:
  WindowStart start_;
  StridedCopy copy_;
};

class DynamicUpdateSliceKernel final : public Kernel {
 public:
  explicit DynamicUpdateSliceKernel(const OpView& view)
      : bytes_(view.result.byte_size()),
        start_(view, 2, view.operands[1].dims()),
        copy_(dtype_size(view.result.dtype()), view.operands[1].dims(), row_major_strides(view.operands[1].dims()),
              row_major_strides(view.result.dims())) {}
  void run(const KernelArgs& args) const override {
    const std::int64_t offset = start_.offset(args);
    if (args.out[0] != args.in[0] && bytes_ > 0) std::memcpy(args.out[0], args.in[0], static_cast<std::size_t>(bytes_));
    copy_.run(args.in[1], args.out[0] + offset);
  }

 private:
  std::int64_t bytes_;
  WindowStart start_;
  StridedCopy copy_;
};

// ---- gather and scatter -------------------------------------------------------------------------------------------------------

// The geometry that both ops share: for each index vector a window of the operand, and its position in the result (or
// updates).
struct Geometry {
  DType index_type = DType::kS32;
  // For each dim of the indices except that of the vector: its size, its stride in the indices and its stride in the
  // result.
  Dims batch_dims, index_strides, batch_strides;
  std::int64_t component_stride = 0;
  // For each component of an index vector: the stride of the operand dim, and the largest start.
  Dims component_strides, limits;
  // Operand batching dims: the number of the batch dim, and the stride in the operand.
  Dims along, along_strides;
  // The window: its sizes, and its strides in the operand and in the result.
  Dims window, operand_strides, result_strides;
};

struct Attributes {
  const Dims& window_dims;
  const Dims& dropped_dims;
  const Dims& index_map;
  const Dims& operand_batching;
  const Dims& indices_batching;
  std::int64_t index_vector_dim;
};

Geometry geometry_of(const Attributes& a, const Type& operand, const Type& indices, const Type& result,
                     const Dims& sizes) {
  Geometry out;
  out.index_type = indices.dtype();
  const Dims in_strides = row_major_strides(indices.dims());
  const Dims operand_strides = row_major_strides(operand.dims());
  const Dims result_strides = row_major_strides(result.dims());
  std::vector<std::int64_t> batch_of_indices_dim(indices.dims().size(), -1);
  int result_dim = 0;
  for (std::int64_t d = 0; d < indices.ndim(); ++d) {
    if (d == a.index_vector_dim) continue;
    while (contains(a.window_dims, result_dim)) ++result_dim;
    at(batch_of_indices_dim, d) = isize(out.batch_dims);
    out.batch_dims.push_back(at(indices.dims(), d));
    out.index_strides.push_back(at(in_strides, d));
    out.batch_strides.push_back(at(result_strides, result_dim++));
  }
  if (a.index_vector_dim < indices.ndim()) out.component_stride = at(in_strides, a.index_vector_dim);
  for (const auto d : a.index_map) {
    out.component_strides.push_back(at(operand_strides, d));
    out.limits.push_back(at(operand.dims(), d) - at(sizes, d));
  }
  for (std::size_t i = 0; i < a.operand_batching.size(); ++i) {
    out.along.push_back(at(batch_of_indices_dim, a.indices_batching[i]));
    out.along_strides.push_back(at(operand_strides, a.operand_batching[i]));
  }
  std::size_t k = 0;
  for (std::int64_t d = 0; d < operand.ndim(); ++d) {
    if (contains(a.dropped_dims, d) || contains(a.operand_batching, d)) continue;
    out.window.push_back(at(sizes, d));
    out.operand_strides.push_back(at(operand_strides, d));
    out.result_strides.push_back(at(result_strides, a.window_dims[k++]));
  }
  return out;
}

// Calls f(element of the operand at the start of the window, element of the result, whether all starts are in range)
// for each window. Starts out of range are clamped.
template <class F>
void for_each_window(const Geometry& g, const std::byte* indices, F&& f) {
  for_each_index(g.batch_dims, [&](const Dims& batch) {
    std::int64_t first = 0;
    std::int64_t result = 0;
    std::int64_t operand = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      first += batch[i] * g.index_strides[i];
      result += batch[i] * g.batch_strides[i];
    }
    for (std::size_t i = 0; i < g.along.size(); ++i) operand += at(batch, g.along[i]) * g.along_strides[i];
    bool inside = true;
    for (std::size_t k = 0; k < g.limits.size(); ++k) {
      const std::int64_t start =
          index_at(g.index_type, indices, first + static_cast<std::int64_t>(k) * g.component_stride);
      const std::int64_t clamped = std::clamp<std::int64_t>(start, 0, std::max<std::int64_t>(0, g.limits[k]));
      inside = inside && start == clamped && g.limits[k] >= 0;
      operand += clamped * g.component_strides[k];
    }
    f(operand, result, inside);
  });
}

class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const OpView& view) : bytes_(dtype_size(view.result.dtype())) {
    const auto& a = view.as<GatherAttributes>();
    geometry_ = geometry_of({a.offset_dims, a.collapsed_slice_dims, a.start_index_map, a.operand_batching_dims,
                             a.start_indices_batching_dims, a.index_vector_dim},
                            view.operands[0], view.operands[1], view.result, a.slice_sizes);
    copy_ = StridedCopy(bytes_, geometry_.window, geometry_.operand_strides, geometry_.result_strides);
    is_empty_ = view.result.element_count() == 0;
  }
  void run(const KernelArgs& args) const override {
    if (is_empty_) return;
    for_each_window(geometry_, args.in[1], [&](std::int64_t from, std::int64_t to, bool) {
      copy_.run(args.in[0] + from * bytes_, args.out[0] + to * bytes_);
    });
  }

 private:
  std::int64_t bytes_;
  Geometry geometry_;
  StridedCopy copy_;
  bool is_empty_ = false;
};

enum class Combiner : std::uint8_t { kAssign, kSum, kProduct, kMin, kMax };

std::optional<Combiner> combiner_of(const Computation& computation) {
  if (is_overwrite(computation)) return Combiner::kAssign;
  switch (reduction_of(computation).value_or(Reduction::kAnd)) {
    case Reduction::kSum: return Combiner::kSum;
    case Reduction::kProduct: return Combiner::kProduct;
    case Reduction::kMin: return Combiner::kMin;
    case Reduction::kMax: return Combiner::kMax;
    default: return std::nullopt;
  }
}

template <class T>
T combined(Combiner combiner, T old, T update) {
  if (combiner == Combiner::kAssign) return update;
  if constexpr (kDTypeOf<T> == DType::kF16 || kDTypeOf<T> == DType::kBF16) {
    return T(combined<float>(combiner, static_cast<float>(old), static_cast<float>(update)));
  } else if constexpr (is_float(kDTypeOf<T>)) {
    switch (combiner) {
      case Combiner::kSum: return old + update;
      case Combiner::kProduct: return old * update;
      case Combiner::kMin: return old != old ? old : (update != update ? update : std::min(old, update));
      default: return old != old ? old : (update != update ? update : std::max(old, update));
    }
  } else {
    switch (combiner) {
      case Combiner::kSum: return static_cast<T>(static_cast<std::uint64_t>(old) + static_cast<std::uint64_t>(update));
      case Combiner::kProduct:
        return static_cast<T>(static_cast<std::uint64_t>(old) * static_cast<std::uint64_t>(update));
      case Combiner::kMin: return std::min(old, update);
      default: return std::max(old, update);
    }
  }
}

class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(const OpView& view, Combiner combiner) : type_(view.result), combiner_(combiner) {
    const auto& a = view.as<ScatterAttributes>();
    const Type& updates = view.operands[2];
    Dims sizes(type_.dims().size(), 1);
    std::size_t k = 0;
    for (std::int64_t d = 0; d < type_.ndim(); ++d)
      if (!contains(a.inserted_window_dims, d) && !contains(a.input_batching_dims, d))
        at(sizes, d) = at(updates.dims(), a.update_window_dims[k++]);
    geometry_ = geometry_of({a.update_window_dims, a.inserted_window_dims, a.scatter_dims_to_operand_dims,
                             a.input_batching_dims, a.scatter_indices_batching_dims, a.index_vector_dim},
                            type_, view.operands[1], updates, sizes);
    is_empty_ = updates.element_count() == 0;
  }
  void run(const KernelArgs& args) const override {
    if (args.out[0] != args.in[0] && type_.byte_size() > 0)
      std::memcpy(args.out[0], args.in[0], static_cast<std::size_t>(type_.byte_size()));
    if (is_empty_) return;
    visit_dtype(type_.dtype(), [&]<class T>() {
      T* out = reinterpret_cast<T*>(args.out[0]);
      const T* updates = reinterpret_cast<const T*>(args.in[2]);
      for_each_window(geometry_, args.in[1], [&](std::int64_t to, std::int64_t from, bool inside) {
        if (inside) combine_window<T>(0, out + to, updates + from);
      });
    });
  }

 private:
  template <class T>
  void combine_window(std::size_t dim, T* out, const T* updates) const {
    if (dim == geometry_.window.size()) {
      *out = combined<T>(combiner_, *out, *updates);
      return;
    }
    const std::int64_t size = geometry_.window[dim];
    const std::int64_t to = geometry_.operand_strides[dim];
    const std::int64_t from = geometry_.result_strides[dim];
    if (dim + 1 < geometry_.window.size()) {
      for (std::int64_t i = 0; i < size; ++i) combine_window<T>(dim + 1, out + i * to, updates + i * from);
    } else {
      for (std::int64_t i = 0; i < size; ++i) out[i * to] = combined<T>(combiner_, out[i * to], updates[i * from]);
    }
  }

  Type type_;
  Combiner combiner_;
  Geometry geometry_;
  bool is_empty_ = false;
};

}  // namespace

KernelRef make_dynamic_slice(const OpView& view, const OperandViews&) {
  return std::make_unique<DynamicSliceKernel>(view);
}
KernelRef make_dynamic_update_slice(const OpView& view, const OperandViews&) {
  return std::make_unique<DynamicUpdateSliceKernel>(view);
}
KernelRef make_gather(const OpView& view, const OperandViews&) { return std::make_unique<GatherKernel>(view); }
KernelRef make_scatter(const OpView& view, const OperandViews&) {
  if (view.operands.size() != 3 || view.called.size() != 1) return nullptr;
  const auto combiner = combiner_of(*view.called[0]);
  if (!combiner || (view.result.dtype() == DType::kPred && combiner != Combiner::kAssign)) return nullptr;
  return std::make_unique<ScatterKernel>(view, *combiner);
}

}  // namespace tessera
