// SPDX-License-Identifier: Apache-2.0
// The functions of one tensor as members: x.relu(), x.softmax(-1), x.sum({0, 1}). The functions in pointwise.h,
// products.h, indexing.h, shaping.h and reductions.h describe them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <vector>

#include "tessera/frontend/tensor/reduce_options.h"

namespace tessera {

struct ClampOptions;
class Operand;
class Tensor;

/// The base of Tensor. Reductions over one dim or several return a Tensor, too: `auto` because Tensor is incomplete here.
class TensorMembers {
 public:
  // ---- elementwise, as the functions in pointwise.h -----------------------------------------------------------------

  [[nodiscard]] Tensor abs(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor ceil(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor cos(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor erf(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor exp(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor expm1(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor floor(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor isfinite(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor isnan(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log1p(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor reciprocal(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor relu(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor round(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor rsqrt(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sigmoid(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sign(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sin(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor sqrt(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor square(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor tanh(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor pow(const Operand& exponent) const;
  [[nodiscard]] Tensor clamp(ClampOptions bounds, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor masked_fill(const Operand& mask, double value) const;

  // ---- products and softmax, as the functions in products.h and reductions.h ----------------------------------------

  [[nodiscard]] Tensor matmul(const Tensor& rhs, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor softmax(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor log_softmax(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor logsumexp(int dim, std::source_location where = std::source_location::current()) const;

  // ---- positions and parts, as the functions in indexing.h and shaping.h --------------------------------------------

  [[nodiscard]] Tensor gather(int dim, const Tensor& index,
                              std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor index_select(int dim, const Tensor& index,
                                    std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor scatter(int dim, const Tensor& index, const Tensor& source,
                               std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor scatter_add(int dim, const Tensor& index, const Tensor& source,
                                   std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor flip(const std::vector<int>& dims,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor roll(std::int64_t shift, int dim,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor tril(std::int64_t diagonal = 0,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor triu(std::int64_t diagonal = 0,
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> split(std::int64_t size, int dim = 0,
                                          std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::vector<Tensor> chunk(std::int64_t count, int dim = 0,
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
  [[nodiscard]] Tensor var(VarOptions options = {}, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor var(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor std(VarOptions options = {}, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor std(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor norm(NormOptions options = {},
                            std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor argmax(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor argmin(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor cumsum(int dim, std::source_location where = std::source_location::current()) const;
  [[nodiscard]] Tensor cumprod(int dim, std::source_location where = std::source_location::current()) const;

 private:
  friend class Tensor;
  TensorMembers() = default;  // only as the base of Tensor
  [[nodiscard]] Operand self(const std::source_location& where) const;
};

}  // namespace tessera
