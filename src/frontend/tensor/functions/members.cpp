// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/members.h"

#include "tessera/frontend/tensor/bounded.h"
#include "tessera/frontend/tensor/indexing.h"
#include "tessera/frontend/tensor/products.h"
#include "tessera/frontend/tensor/reductions.h"
#include "tessera/frontend/tensor/shaping.h"
#include "tessera/frontend/tensor/sorting.h"
#include "tessera/frontend/tensor/writes.h"

namespace tessera {

Operand TensorMembers::self(const std::source_location& where) const {
  return {static_cast<const Tensor&>(*this), where};
}

// ---- products and softmax -----------------------------------------------------------------------------------------------

Tensor TensorMembers::addmm(const Tensor& x, const Tensor& y, AddProductOptions options,
                            std::source_location where) const {
  return tessera::addmm(self(where), {x, where}, {y, where}, options);
}
Tensor TensorMembers::addmm(const Tensor& x, const Tensor& y, std::source_location where) const {
  return tessera::addmm(self(where), {x, where}, {y, where});
}
Tensor TensorMembers::baddbmm(const Tensor& x, const Tensor& y, AddProductOptions options,
                              std::source_location where) const {
  return tessera::baddbmm(self(where), {x, where}, {y, where}, options);
}
Tensor TensorMembers::baddbmm(const Tensor& x, const Tensor& y, std::source_location where) const {
  return tessera::baddbmm(self(where), {x, where}, {y, where});
}
Tensor TensorMembers::bmm(const Tensor& y, std::source_location where) const {
  return tessera::bmm(self(where), {y, where});
}
Tensor TensorMembers::outer(const Tensor& y, std::source_location where) const {
  return tessera::outer(self(where), {y, where});
}
Tensor TensorMembers::matmul(const Tensor& rhs, std::source_location where) const {
  return tessera::matmul(self(where), {rhs, where});
}
Tensor TensorMembers::softmax(int dim, std::source_location where) const { return tessera::softmax(self(where), dim); }
Tensor TensorMembers::softmin(int dim, std::source_location where) const { return tessera::softmin(self(where), dim); }
Tensor TensorMembers::log_softmax(int dim, std::source_location where) const {
  return tessera::log_softmax(self(where), dim);
}
Tensor TensorMembers::logsumexp(int dim, std::source_location where) const {
  return tessera::logsumexp(self(where), dim);
}

// ---- positions and parts ------------------------------------------------------------------------------------------------

Tensor TensorMembers::gather(int dim, const Tensor& index, std::source_location where) const {
  return tessera::gather(self(where), dim, {index, where});
}
Tensor TensorMembers::index_add(int dim, const Tensor& index, const Tensor& source, std::source_location where) const {
  return tessera::index_add(self(where), dim, {index, where}, {source, where});
}
Tensor TensorMembers::index_copy(int dim, const Tensor& index, const Tensor& source, std::source_location where) const {
  return tessera::index_copy(self(where), dim, {index, where}, {source, where});
}
Tensor TensorMembers::index_fill(int dim, const Tensor& index, const Operand& value) const {
  return tessera::index_fill(self(value.where()), dim, {index, value.where()}, value);
}
Tensor TensorMembers::index_put(const std::vector<Index>& indices, const Operand& values,
                                IndexPutOptions options) const {
  return tessera::index_put(self(values.where()), indices, values, options);
}
Tensor TensorMembers::index_select(int dim, const Tensor& index, std::source_location where) const {
  return tessera::index_select(self(where), dim, {index, where});
}
Tensor TensorMembers::masked_scatter(const Tensor& mask, const Tensor& source, std::source_location where) const {
  return tessera::masked_scatter(self(where), {mask, where}, {source, where});
}
Tensor TensorMembers::narrow(int dim, std::int64_t start, std::int64_t length, std::source_location where) const {
  return tessera::narrow(self(where), dim, start, length);
}
Tensor TensorMembers::narrow(int dim, const Tensor& start, std::int64_t length, std::source_location where) const {
  return tessera::narrow(self(where), dim, start, length);
}
Tensor TensorMembers::scatter(int dim, const Tensor& index, const Tensor& source, std::source_location where) const {
  return tessera::scatter(self(where), dim, {index, where}, {source, where});
}
Tensor TensorMembers::scatter_add(int dim, const Tensor& index, const Tensor& source,
                                  std::source_location where) const {
  return tessera::scatter_add(self(where), dim, {index, where}, {source, where});
}
Tensor TensorMembers::scatter_reduce(int dim, const Tensor& index, const Tensor& source, ScatterReduction reduction,
                                     ScatterReduceOptions options, std::source_location where) const {
  return tessera::scatter_reduce(self(where), dim, {index, where}, {source, where}, reduction, options);
}
Tensor TensorMembers::take(const Tensor& index, std::source_location where) const {
  return tessera::take(self(where), {index, where});
}
Tensor TensorMembers::take_along_dim(const Tensor& index, int dim, std::source_location where) const {
  return tessera::take_along_dim(self(where), {index, where}, dim);
}
Tensor TensorMembers::bincount(BincountOptions options, std::source_location where) const {
  return tessera::bincount(self(where), std::move(options));
}
Tensor TensorMembers::masked_select(const Tensor& mask, BoundedOptions options, std::source_location where) const {
  return tessera::masked_select(self(where), {mask, where}, options);
}
Tensor TensorMembers::nonzero(BoundedOptions options, std::source_location where) const {
  return tessera::nonzero(self(where), options);
}
Tensor TensorMembers::bincount(std::source_location where) const { return tessera::bincount(self(where)); }
Tensor TensorMembers::masked_select(const Tensor& mask, std::source_location where) const {
  return tessera::masked_select(self(where), {mask, where});
}
Tensor TensorMembers::nonzero(std::source_location where) const { return tessera::nonzero(self(where)); }
Tensor TensorMembers::repeat_interleave(const Tensor& counts, std::source_location where) const {
  return tessera::repeat_interleave(self(where), counts);
}
UniqueResult TensorMembers::unique(std::source_location where) const { return tessera::unique(self(where)); }
UniqueResult TensorMembers::unique(BoundedOptions options, std::source_location where) const {
  return tessera::unique(self(where), options);
}
Tensor TensorMembers::diag(std::int64_t offset, std::source_location where) const {
  return tessera::diag(self(where), offset);
}
Tensor TensorMembers::diag_embed(std::int64_t offset, int dim1, int dim2, std::source_location where) const {
  return tessera::diag_embed(self(where), offset, dim1, dim2);
}
Tensor TensorMembers::diagonal(std::int64_t offset, int dim1, int dim2, std::source_location where) const {
  return tessera::diagonal(self(where), offset, dim1, dim2);
}
Tensor TensorMembers::trace(std::source_location where) const { return tessera::trace(self(where)); }
Tensor TensorMembers::movedim(int source, int destination, std::source_location where) const {
  return tessera::movedim(self(where), source, destination);
}
Tensor TensorMembers::movedim(const std::vector<int>& sources, const std::vector<int>& destinations,
                              std::source_location where) const {
  return tessera::movedim(self(where), sources, destinations);
}
Tensor TensorMembers::swapaxes(int first, int second, std::source_location where) const {
  return tessera::swapaxes(self(where), first, second);
}
Tensor TensorMembers::pad(int dim, std::int64_t low, std::int64_t high, double value,
                          std::source_location where) const {
  return tessera::pad(self(where), dim, low, high, value);
}
Tensor TensorMembers::repeat(const std::vector<std::int64_t>& counts, std::source_location where) const {
  return tessera::repeat(self(where), Dims(counts.begin(), counts.end()));
}
Tensor TensorMembers::tile(const std::vector<std::int64_t>& counts, std::source_location where) const {
  return tessera::tile(self(where), Dims(counts.begin(), counts.end()));
}
Tensor TensorMembers::repeat_interleave(std::int64_t count, std::optional<int> dim, std::source_location where) const {
  return tessera::repeat_interleave(self(where), count, dim);
}
Tensor TensorMembers::repeat_interleave(const Tensor& counts, RepeatOptions options, std::source_location where) const {
  return tessera::repeat_interleave(self(where), counts, options);
}
Tensor TensorMembers::unfold(int dim, std::int64_t size, std::int64_t step, std::source_location where) const {
  return tessera::unfold(self(where), dim, size, step);
}
std::vector<Tensor> TensorMembers::unbind(int dim, std::source_location where) const {
  return tessera::unbind(self(where), dim);
}
Tensor TensorMembers::flip(int dim, std::source_location where) const { return tessera::flip(self(where), dim); }
Tensor TensorMembers::flip(const std::vector<int>& dims, std::source_location where) const {
  return tessera::flip(self(where), dims);
}
Tensor TensorMembers::roll(std::int64_t shift, int dim, std::source_location where) const {
  return tessera::roll(self(where), shift, dim);
}
Tensor TensorMembers::roll(const std::vector<std::int64_t>& shifts, const std::vector<int>& dims,
                           std::source_location where) const {
  return tessera::roll(self(where), shifts, dims);
}
Tensor TensorMembers::tril(std::int64_t diagonal, std::source_location where) const {
  return tessera::tril(self(where), diagonal);
}
Tensor TensorMembers::triu(std::int64_t diagonal, std::source_location where) const {
  return tessera::triu(self(where), diagonal);
}
std::vector<Tensor> TensorMembers::split(std::int64_t size, int dim, std::source_location where) const {
  return tessera::split(self(where), size, dim);
}
std::vector<Tensor> TensorMembers::split(const std::vector<std::int64_t>& sizes, int dim,
                                         std::source_location where) const {
  return tessera::split(self(where), sizes, dim);
}
std::vector<Tensor> TensorMembers::chunk(std::int64_t count, int dim, std::source_location where) const {
  return tessera::chunk(self(where), count, dim);
}

// ---- shapes and types ---------------------------------------------------------------------------------------------------

Tensor TensorMembers::clone(std::source_location where) const { return tessera::clone(self(where)); }
Tensor TensorMembers::contiguous() const { return static_cast<const Tensor&>(*this); }
Tensor TensorMembers::type_as(const Tensor& other, std::source_location where) const {
  return static_cast<const Tensor&>(*this).to(other.dtype(), where);
}
Tensor TensorMembers::expand_as(const Tensor& other, std::source_location where) const {
  return tessera::expand(self(where), other.dims());
}
Tensor TensorMembers::view_as(const Tensor& other, std::source_location where) const {
  return tessera::reshape(self(where), other.dims());
}
Tensor TensorMembers::reshape_as(const Tensor& other, std::source_location where) const {
  return tessera::reshape(self(where), other.dims());
}
Tensor TensorMembers::T(std::source_location where) const {
  Dims order;
  for (int d = static_cast<const Tensor&>(*this).ndim(); d-- > 0;) order.push_back(d);
  return tessera::permute(self(where), std::move(order));
}
Tensor TensorMembers::mT(std::source_location where) const { return static_cast<const Tensor&>(*this).t(where); }
Tensor TensorMembers::unflatten(int dim, const std::vector<std::int64_t>& sizes, std::source_location where) const {
  return tessera::unflatten(self(where), dim, {sizes.begin(), sizes.end()});
}

// ---- reductions ---------------------------------------------------------------------------------------------------------

Tensor TensorMembers::sum(ReduceOptions options, std::source_location where) const {
  return tessera::sum(self(where), std::move(options));
}
Tensor TensorMembers::mean(ReduceOptions options, std::source_location where) const {
  return tessera::mean(self(where), std::move(options));
}
Tensor TensorMembers::max(ReduceOptions options, std::source_location where) const {
  return tessera::max(self(where), std::move(options));
}
Tensor TensorMembers::min(ReduceOptions options, std::source_location where) const {
  return tessera::min(self(where), std::move(options));
}
Tensor TensorMembers::prod(ReduceOptions options, std::source_location where) const {
  return tessera::prod(self(where), std::move(options));
}
Tensor TensorMembers::any(ReduceOptions options, std::source_location where) const {
  return tessera::any(self(where), std::move(options));
}
Tensor TensorMembers::all(ReduceOptions options, std::source_location where) const {
  return tessera::all(self(where), std::move(options));
}
Tensor TensorMembers::amax(ReduceOptions options, std::source_location where) const {
  return tessera::amax(self(where), std::move(options));
}
Tensor TensorMembers::amin(ReduceOptions options, std::source_location where) const {
  return tessera::amin(self(where), std::move(options));
}
Tensor TensorMembers::count_nonzero(ReduceOptions options, std::source_location where) const {
  return tessera::count_nonzero(self(where), std::move(options));
}
Tensor TensorMembers::nansum(ReduceOptions options, std::source_location where) const {
  return tessera::nansum(self(where), std::move(options));
}
Tensor TensorMembers::nanmean(ReduceOptions options, std::source_location where) const {
  return tessera::nanmean(self(where), std::move(options));
}
Tensor TensorMembers::var(VarOptions options, std::source_location where) const {
  return tessera::var(self(where), std::move(options));
}
Tensor TensorMembers::var(int dim, std::source_location where) const { return tessera::var(self(where), dim); }
Tensor TensorMembers::std(VarOptions options, std::source_location where) const {
  return tessera::std(self(where), std::move(options));
}
Tensor TensorMembers::std(int dim, std::source_location where) const { return tessera::std(self(where), dim); }
Tensor TensorMembers::norm(NormOptions options, std::source_location where) const {
  return tessera::norm(self(where), std::move(options));
}
Tensor TensorMembers::cov(double correction, std::source_location where) const {
  return tessera::cov(self(where), correction);
}
Tensor TensorMembers::argmax(ArgOptions options, std::source_location where) const {
  return tessera::argmax(self(where), options);
}
Tensor TensorMembers::argmin(ArgOptions options, std::source_location where) const {
  return tessera::argmin(self(where), options);
}
Tensor TensorMembers::argmax(int dim, std::source_location where) const { return tessera::argmax(self(where), dim); }
Tensor TensorMembers::argmin(int dim, std::source_location where) const { return tessera::argmin(self(where), dim); }
Tensor TensorMembers::cumsum(int dim, std::source_location where) const { return tessera::cumsum(self(where), dim); }
Tensor TensorMembers::cumprod(int dim, std::source_location where) const { return tessera::cumprod(self(where), dim); }
Tensor TensorMembers::logcumsumexp(int dim, std::source_location where) const {
  return tessera::logcumsumexp(self(where), dim);
}

// ---- order --------------------------------------------------------------------------------------------------------------

SortResult TensorMembers::sort(SortOptions options, std::source_location where) const {
  return tessera::sort(self(where), options);
}
Tensor TensorMembers::argsort(SortOptions options, std::source_location where) const {
  return tessera::argsort(self(where), options);
}
SortResult TensorMembers::topk(std::int64_t k, TopKOptions options, std::source_location where) const {
  return tessera::topk(self(where), k, options);
}
SortResult TensorMembers::cummax(int dim, std::source_location where) const {
  return tessera::cummax(self(where), dim);
}
SortResult TensorMembers::cummin(int dim, std::source_location where) const {
  return tessera::cummin(self(where), dim);
}
Tensor TensorMembers::median(std::source_location where) const { return tessera::median(self(where)); }
SortResult TensorMembers::median(int dim, std::source_location where) const {
  return tessera::median(self(where), dim);
}
SortResult TensorMembers::median(MedianOptions options, std::source_location where) const {
  return tessera::median(self(where), options);
}
Tensor TensorMembers::quantile(double q, QuantileOptions options, std::source_location where) const {
  return tessera::quantile(self(where), q, options);
}
Tensor TensorMembers::quantile(const std::vector<double>& q, QuantileOptions options,
                               std::source_location where) const {
  return tessera::quantile(self(where), q, options);
}

}  // namespace tessera
