// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/linear_cross_entropy.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/base/error.h"
#include "tessera/frontend/control/checkpoint.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/frontend/tracing/known_ids.h"

namespace tessera::nn {
namespace {

void check_linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                                const LinearCrossEntropyOptions& options) {
  require(!hidden.is_null() && !weight.is_null() && !labels.is_null(),
          "linear_cross_entropy needs hidden values, a weight and labels, got a null tensor");
  require(hidden.ndim() >= 2 && weight.ndim() == 2 && weight.dim(1) == hidden.dim(-1),
          "linear_cross_entropy needs hidden [..., d] and weight [classes, d], got {} and {}", hidden.type(),
          weight.type());
  Dims rows = hidden.dims();
  rows.pop_back();
  require(labels.dims() == rows, "linear_cross_entropy: hidden {} needs labels [{}], got {}", hidden.type(),
          fmt::join(rows, ","), labels.type());
  require(options.bias.is_null() || options.bias.dims() == Dims{weight.dim(0)},
          "linear_cross_entropy: the bias needs one number for each of {} classes, got {}", weight.dim(0),
          [&] { return options.bias.type().str(); });
  require(options.chunks >= 1, "linear_cross_entropy: chunks must be at least 1, got {}", options.chunks);
  require(options.reduction == LossReduction::kMean || options.reduction == LossReduction::kSum,
          "linear_cross_entropy reduces losses to kMean or kSum");
}

CrossEntropyParts parts_of_rows(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                                const LinearCrossEntropyOptions& options) {
  Tensor logits = dot(hidden, weight, {.lhs_contracting = {hidden.ndim() - 1}, .rhs_contracting = {1}});
  if (!options.bias.is_null()) logits = logits + options.bias.to(logits.dtype());
  return cross_entropy_parts(logits, labels, options.ignore_index, options.label_smoothing);
}

}  // namespace

CrossEntropyParts linear_cross_entropy_parts(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                                             const LinearCrossEntropyOptions& options) {
  check_linear_cross_entropy(hidden, weight, labels, options);
  const int positions = hidden.ndim() - 2;
  const std::int64_t size = hidden.dim(positions);
  const std::int64_t chunks = std::min(options.chunks, std::max<std::int64_t>(size, 1));
  if (chunks == 1) return parts_of_rows(hidden, weight, labels, options);
  // Slices of the labels are computed values, which are not checked.
  tessera::detail::check_ids(
      labels,
      {.function = "linear_cross_entropy", .what = "label", .count = weight.dim(0), .ignored = options.ignore_index},
      {&hidden, &weight, &labels}, trace().call_site(std::source_location::current()));
  const auto of_chunk = checkpoint([&](const Tensor& h, const Tensor& l) {
    const CrossEntropyParts parts = parts_of_rows(h, weight, l, options);
    return std::vector<Tensor>{parts.sum, parts.count};
  });
  CrossEntropyParts out;
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t start = i * size / chunks;
    const std::int64_t limit = (i + 1) * size / chunks;
    auto one = of_chunk;
    const std::vector<Tensor> parts = one(hidden.slice(positions, start, limit), labels.slice(positions, start, limit));
    out.sum = out.sum.is_null() ? parts[0] : out.sum + parts[0];
    out.count = out.count.is_null() ? parts[1] : out.count + parts[1];
  }
  return out;
}

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                            const LinearCrossEntropyOptions& options) {
  const CrossEntropyParts parts = linear_cross_entropy_parts(hidden, weight, labels, options);
  return options.reduction == LossReduction::kSum ? parts.sum : parts.sum / maximum(parts.count, 1.0);
}

}  // namespace tessera::nn
