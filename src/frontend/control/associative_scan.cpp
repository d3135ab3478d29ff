// SPDX-License-Identifier: Apache-2.0
// The elements at odd positions of the result are the scan of the pairs (0, 1), (2, 3), …, which are half as many. Each
// of the others combines the result before it with one element (Blelloch, 1990).
#include "tessera/frontend/control/associative_scan.h"

#include "tensor/broadcast.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/structural.h"
#include "tracing/error_context.h"

namespace tessera::detail {
namespace {

class AssociativeScan {
 public:
  AssociativeScan(const Combine& combine, int dim, const std::source_location& where)
      : combine_(combine), dim_(dim), where_(where) {}

  [[nodiscard]] Tensors run(const Tensors& xs) const {
    const std::int64_t count = xs.front().dim(dim_);
    if (count < 2) return xs;
    const Tensors odd = run(combined(every_second(xs, 0, count / 2), every_second(xs, 1, count / 2)));
    Tensors even = range(xs, 0, 1);
    if (const std::int64_t more = (count - 1) / 2; more > 0) {
      const Tensors later = combined(range(odd, 0, more), every_second(xs, 2, more));
      for (std::size_t k = 0; k < even.size(); ++k) even[k] = concat({even[k], later[k]}, dim_, where_);
    }
    Tensors out;
    for (std::size_t k = 0; k < even.size(); ++k) out.push_back(interleaved(even[k], odd[k]));
    return out;
  }

 private:
  [[nodiscard]] Tensors range(const Tensors& xs, std::int64_t begin, std::int64_t end) const {
    Tensors out;
    for (const Tensor& x : xs) out.push_back(x.slice(dim_, begin, end, where_));
    return out;
  }
  // The elements first, first + 2, …, of which there are `count`.
  [[nodiscard]] Tensors every_second(const Tensors& xs, std::int64_t first, std::int64_t count) const {
    Tensors out;
    for (const Tensor& x : xs)
      out.push_back(trace().record(where_, [&](Builder&) {
        std::vector<SliceRange> ranges;
        for (const std::int64_t size : x.dims()) ranges.push_back({0, size, 1});
        at(ranges, dim_) = {first, first + 2 * count - 1, 2};
        return ops::slice(trace().use(x), std::move(ranges));
      }));
    return out;
  }
  // even[0], odd[0], even[1], …; odd may be one shorter.
  [[nodiscard]] Tensor interleaved(const Tensor& even, const Tensor& odd) const {
    const std::int64_t pairs = odd.dim(dim_);
    Dims dims = odd.dims();
    at(dims, dim_) = 2 * pairs;
    const Tensor first = even.slice(dim_, 0, pairs, where_).unsqueeze(dim_ + 1, where_);
    const Tensor both = concat({first, odd.unsqueeze(dim_ + 1, where_)}, dim_ + 1, where_).reshape(dims, where_);
    return even.dim(dim_) == pairs ? both : concat({both, even.slice(dim_, pairs, pairs + 1, where_)}, dim_, where_);
  }
  [[nodiscard]] Tensors combined(const Tensors& a, const Tensors& b) const {
    Tensors out = combine_(a, b);
    in_context("associative_scan", {}, where_, [&] {
      for (std::size_t k = 0; k < a.size(); ++k)
        require(out[k].type() == a[k].type(), "the function returns {} for tensor {} of its arguments, which is {}",
                out[k].type(), k, a[k].type());
    });
    return out;
  }

  const Combine& combine_;
  int dim_;
  const std::source_location& where_;
};

int checked_scan_dim(const Tensors& xs, int dim) {
  require(!xs.empty(), "needs a tree with at least one tensor");
  const int out = checked_dim(xs.front().type(), dim);
  for (const Tensor& x : xs)
    require(x.ndim() > out && x.dim(out) == xs.front().dim(out), "dim {} of every tensor must have {} elements, got {}",
            out, xs.front().dim(out), x.type());
  return out;
}

}  // namespace

Tensors associative_scan_tensors(const Combine& combine, const Tensors& xs, const AssociativeScanOptions& options,
                                 const std::source_location& where) {
  const int dim = in_context("associative_scan", {}, where, [&] { return checked_scan_dim(xs, options.dim); });
  const AssociativeScan scan(combine, dim, where);
  if (!options.reverse) return scan.run(xs);
  const auto turned = [&](const Tensors& tensors) {
    Tensors out;
    for (const Tensor& x : tensors) out.push_back(x.flip(dim, where));
    return out;
  };
  return turned(scan.run(turned(xs)));
}

}  // namespace tessera::detail
