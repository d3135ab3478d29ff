// SPDX-License-Identifier: Apache-2.0
// The functions of one tensor as members: x.relu(), x.softmax(-1), x.sum({0, 1}). The headers with these functions
// describe them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <vector>

#include "tessera/frontend/tensor/elementwise_members.h"
#include "tessera/frontend/tensor/reduce_options.h"
#include "tessera/frontend/tensor/sizes.h"

namespace tessera {

class Index;
class Operand;
class Tensor;
struct AddProductOptions;
struct BincountOptions;
struct BoundedOptions;
struct RepeatOptions;
struct SortResult;
struct UniqueResult;

/// The base of Tensor. The templates below also return a Tensor. Their result type is `auto` because Tensor is not
/// complete here.
class TensorMembers : public ElementwiseMembers {
 public:
  // ---- products and softmax, as the functions in products.h and reductions.h ----------------------------------------

  [[nodiscard]] Tensor addmm(const Tensor& x, const Tensor& y, AddProductOptions options,
                             std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor addmm(const Tensor& x, const Tensor& y,
                             std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor baddbmm(const Tensor& x, const Tensor& y, AddProductOptions options,
                               std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor baddbmm(const Tensor& x, const Tensor& y,
                               std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor bmm(const Tensor& y, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor outer(const Tensor& y, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor matmul(const Tensor& rhs, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor softmax(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log_softmax(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor softmin(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor logsumexp(int dim, std::source_location where = std::source_location::current()) const;

  // ---- positions and parts, as the functions in indexing.h, writes.h, bounded.h and shaping.h -----------------------

  [[nodiscard]] Tensor gather(int dim, const Tensor& index,
                              std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor index_add(int dim, const Tensor& index, const Tensor& source,
                                 std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor index_copy(int dim, const Tensor& index, const Tensor& source,
                                  std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor index_fill(int dim, const Tensor& index, const Operand& value) const;
  [[nodiscard]] Tensor index_put(const std::vector<Index>& indices, const Operand& values,
                                 IndexPutOptions options = {}) const;
  [[nodiscard]] Tensor index_select(int dim, const Tensor& index,
                                    std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor masked_scatter(const Tensor& mask, const Tensor& source,
                                      std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor narrow(int dim, std::int64_t start, std::int64_t length,
                              std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor narrow(int dim, const Tensor& start, std::int64_t length,
                              std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor scatter(int dim, const Tensor& index, const Tensor& source,
                               std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor scatter_add(int dim, const Tensor& index, const Tensor& source,
                                   std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor scatter_reduce(int dim, const Tensor& index, const Tensor& source, ScatterReduction reduction,
                                      ScatterReduceOptions options = {},
                                      std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor take(const Tensor& index, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor take_along_dim(const Tensor& index, int dim,
                                      std::source_location where = std::source_location::current()) const;
  // Without options, these five throw the error that explains which bound is needed.
  [[nodiscard]] Tensor bincount(BincountOptions options,
                                std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor bincount(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor masked_select(const Tensor& mask, BoundedOptions options,
                                     std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor masked_select(const Tensor& mask,
                                     std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor nonzero(BoundedOptions options,
                               std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor nonzero(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor repeat_interleave(const Tensor& counts, RepeatOptions options,
                                         std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor repeat_interleave(const Tensor& counts,
                                         std::source_location where = std::source_location::current()) const;
  [[nodiscard]] UniqueResult unique(BoundedOptions options,
                                    std::source_location where = std::source_location::current()) const;
  [[nodiscard]] UniqueResult unique(std::source_location where = std::source_location::current()) const;

  [[nodiscard]] Tensor diag(std::int64_t offset = 0,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor diag_embed(std::int64_t offset = 0, int dim1 = -2, int dim2 = -1,
                                  std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor diagonal(std::int64_t offset = 0, int dim1 = 0, int dim2 = 1,
                                std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor trace(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor flip(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor flip(const std::vector<int>& dims,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor movedim(int source, int destination,
                               std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor movedim(const std::vector<int>& sources, const std::vector<int>& destinations,
                               std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor swapaxes(int first, int second,
                                std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor pad(int dim, std::int64_t low, std::int64_t high, double value = 0,
                           std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor repeat(const std::vector<std::int64_t>& counts,
                              std::source_location where = std::source_location::current()) const;
  template <DimNumber... More>
  [[nodiscard]] auto repeat(FirstSize first, More... more) const {
    const auto counts = sizes_of(first, more...);
    return repeat({counts.begin(), counts.end()}, first.where);
  }
  [[nodiscard]] Tensor tile(const std::vector<std::int64_t>& counts,
                            std::source_location where = std::source_location::current()) const;
  template <DimNumber... More>
  [[nodiscard]] auto tile(FirstSize first, More... more) const {
    const auto counts = sizes_of(first, more...);
    return tile({counts.begin(), counts.end()}, first.where);
  }
  [[nodiscard]] Tensor repeat_interleave(std::int64_t count, std::optional<int> dim = {},
                                         std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor unfold(int dim, std::int64_t size, std::int64_t step,
                              std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> unbind(int dim = 0,
                                           std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor roll(std::int64_t shift, int dim,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor roll(const std::vector<std::int64_t>& shifts, const std::vector<int>& dims,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor tril(std::int64_t diagonal = 0,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor triu(std::int64_t diagonal = 0,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> split(std::int64_t size, int dim = 0,
                                          std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, int dim = 0,
                                          std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> chunk(std::int64_t count, int dim = 0,
                                          std::source_location where = std::source_location::current()) const;

  // ---- shapes and types ---------------------------------------------------------------------------------------------

  /// A tensor with the value that this one has now. A gradient flows through it, in contrast to detach().
  [[nodiscard]] Tensor clone(std::source_location where = std::source_location::current()) const;
  /// Returns the tensor itself, because every tensor is stored in row-major order.
  [[nodiscard]] Tensor contiguous() const;
  /// The tensor with the element type of the other one.
  [[nodiscard]] Tensor type_as(const Tensor& other, std::source_location where = std::source_location::current()) const;
  /// The tensor, broadcast to the shape of the other one.
  [[nodiscard]] Tensor expand_as(const Tensor& other,
                                 std::source_location where = std::source_location::current()) const;
  /// The same elements in the shape of the other tensor.
  [[nodiscard]] Tensor view_as(const Tensor& other, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor reshape_as(const Tensor& other,
                                  std::source_location where = std::source_location::current()) const;
  // NOLINTBEGIN(readability-identifier-naming): names of PyTorch
  /// The tensor with its dims in reversed order.
  [[nodiscard]] Tensor T(std::source_location where = std::source_location::current()) const;
  /// The tensor with its last two dims exchanged, as t().
  [[nodiscard]] Tensor mT(std::source_location where = std::source_location::current()) const;
  // NOLINTEND(readability-identifier-naming)
  [[nodiscard]] Tensor unflatten(int dim, const std::vector<std::int64_t>& sizes,
                                 std::source_location where = std::source_location::current()) const;

  // ---- reductions, as the functions in reductions.h -----------------------------------------------------------------

  [[nodiscard]] Tensor sum(ReduceOptions options = {},
                           std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto sum(T dim, std::source_location where = std::source_location::current()) const {
    return sum(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto sum(std::initializer_list<T> dims,
                         std::source_location where = std::source_location::current()) const {
    return sum(over_dims(dims), where);
  }
  [[nodiscard]] Tensor mean(ReduceOptions options = {},
                            std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto mean(T dim, std::source_location where = std::source_location::current()) const {
    return mean(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto mean(std::initializer_list<T> dims,
                          std::source_location where = std::source_location::current()) const {
    return mean(over_dims(dims), where);
  }
  [[nodiscard]] Tensor max(ReduceOptions options = {},
                           std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto max(T dim, std::source_location where = std::source_location::current()) const {
    return max(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto max(std::initializer_list<T> dims,
                         std::source_location where = std::source_location::current()) const {
    return max(over_dims(dims), where);
  }
  [[nodiscard]] Tensor min(ReduceOptions options = {},
                           std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto min(T dim, std::source_location where = std::source_location::current()) const {
    return min(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto min(std::initializer_list<T> dims,
                         std::source_location where = std::source_location::current()) const {
    return min(over_dims(dims), where);
  }
  [[nodiscard]] Tensor prod(ReduceOptions options = {},
                            std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto prod(T dim, std::source_location where = std::source_location::current()) const {
    return prod(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto prod(std::initializer_list<T> dims,
                          std::source_location where = std::source_location::current()) const {
    return prod(over_dims(dims), where);
  }
  [[nodiscard]] Tensor any(ReduceOptions options = {},
                           std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto any(T dim, std::source_location where = std::source_location::current()) const {
    return any(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto any(std::initializer_list<T> dims,
                         std::source_location where = std::source_location::current()) const {
    return any(over_dims(dims), where);
  }
  [[nodiscard]] Tensor all(ReduceOptions options = {},
                           std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto all(T dim, std::source_location where = std::source_location::current()) const {
    return all(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto all(std::initializer_list<T> dims,
                         std::source_location where = std::source_location::current()) const {
    return all(over_dims(dims), where);
  }
  [[nodiscard]] Tensor amax(ReduceOptions options = {},
                            std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto amax(T dim, std::source_location where = std::source_location::current()) const {
    return amax(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto amax(std::initializer_list<T> dims,
                          std::source_location where = std::source_location::current()) const {
    return amax(over_dims(dims), where);
  }
  [[nodiscard]] Tensor amin(ReduceOptions options = {},
                            std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto amin(T dim, std::source_location where = std::source_location::current()) const {
    return amin(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto amin(std::initializer_list<T> dims,
                          std::source_location where = std::source_location::current()) const {
    return amin(over_dims(dims), where);
  }
  [[nodiscard]] Tensor count_nonzero(ReduceOptions options = {},
                                     std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto count_nonzero(T dim, std::source_location where = std::source_location::current()) const {
    return count_nonzero(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto count_nonzero(std::initializer_list<T> dims,
                                   std::source_location where = std::source_location::current()) const {
    return count_nonzero(over_dims(dims), where);
  }
  [[nodiscard]] Tensor nansum(ReduceOptions options = {},
                              std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto nansum(T dim, std::source_location where = std::source_location::current()) const {
    return nansum(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto nansum(std::initializer_list<T> dims,
                            std::source_location where = std::source_location::current()) const {
    return nansum(over_dims(dims), where);
  }
  [[nodiscard]] Tensor nanmean(ReduceOptions options = {},
                               std::source_location where = std::source_location::current()) const;
  template <DimNumber T>
  [[nodiscard]] auto nanmean(T dim, std::source_location where = std::source_location::current()) const {
    return nanmean(over_dims({dim}), where);
  }
  template <DimNumber T>
  [[nodiscard]] auto nanmean(std::initializer_list<T> dims,
                             std::source_location where = std::source_location::current()) const {
    return nanmean(over_dims(dims), where);
  }
  [[nodiscard]] Tensor var(VarOptions options = {}, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor var(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor std(VarOptions options = {}, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor std(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor norm(NormOptions options = {},
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor cov(double correction = 1, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor argmax(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor argmax(ArgOptions options = {},
                              std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor argmin(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor argmin(ArgOptions options = {},
                              std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor cumsum(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor cumprod(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor logcumsumexp(int dim, std::source_location where = std::source_location::current()) const;

  // ---- order, as the functions in sorting.h -------------------------------------------------------------------------

  [[nodiscard]] SortResult sort(SortOptions options = {},
                                std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor argsort(SortOptions options = {},
                               std::source_location where = std::source_location::current()) const;
  [[nodiscard]] SortResult topk(std::int64_t k, TopKOptions options = {},
                                std::source_location where = std::source_location::current()) const;
  [[nodiscard]] SortResult cummax(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] SortResult cummin(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor median(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] SortResult median(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] SortResult median(MedianOptions options,
                                  std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor quantile(double q, QuantileOptions options = {},
                                std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor quantile(const std::vector<double>& q, QuantileOptions options = {},
                                std::source_location where = std::source_location::current()) const;

 private:
  friend class Tensor;
  TensorMembers() = default;  // only as the base of Tensor
  [[nodiscard]] Operand self(const std::source_location& where) const;
};

}  // namespace tessera
