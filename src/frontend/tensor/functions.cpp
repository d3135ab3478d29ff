// SPDX-License-Identifier: Apache-2.0
// Layer norm, embedding, losses, dropout.
#include "tessera/frontend/tensor/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "tensor/softmax_parts.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/frontend/tracing/known_ids.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// gather clamps computed ids.
void check_known(const Operand& ids, const detail::IdRange& range, const Operand& other) {
  if (!ids.is_number()) check_ids(ids.tensor(), range, {&other.tensor(), &ids.tensor()}, other.where());
}

}  // namespace

Tensor embedding(Operand table, Operand ids) {
  if (!table.tensor().is_null() && table.tensor().ndim() > 0)
    check_known(ids, {.function = "embedding", .what = "id", .count = table.tensor().dim(0)}, table);
  return recorded("embedding", table, [&](Value v) { return ops::take_rows(v, operand_value(ids)); });
}

Tensor layer_norm(Operand x, Operand weight, Operand bias, double epsilon) {
  return recorded("layer_norm", x, [&](Value v) {
    const Value wide = widened(v);
    const int last = wide.type().ndim() - 1;
    const auto average = [&](Value a) {
      const Value total = ops::reduce(a, Reduction::kSum, {last});
      return ops::multiply(total, constant_like(total, 1.0 / static_cast<double>(a.type().dim(last))));
    };
    const Value centered = ops::subtract(wide, along(average(wide), wide, last));
    const Value variance = average(ops::multiply(centered, centered));
    const Value scale = ops::rsqrt(ops::add(variance, constant_like(variance, epsilon)));
    const Value normal = ops::multiply(centered, along(scale, wide, last));
    const auto row = [&](const Operand& o) {
      return ops::broadcast(narrowed(operand_value(o), wide.type().dtype()), wide.type().dims(), {last});
    };
    return narrowed(ops::add(ops::multiply(normal, row(weight)), row(bias)), v.type().dtype());
  });
}

// ---- losses -------------------------------------------------------------------------------------------------------------

namespace {

struct LossValues {
  Value sum;
  Value count;
};

// Converts labels to a type that can represent every class and the ignored label.
Value as_ids(Value labels) {
  const DType dtype = labels.type().dtype();
  if (dtype == DType::kS32 || dtype == DType::kS64) return labels;
  return ops::convert(labels, dtype_size(dtype) < 8 ? DType::kS32 : DType::kS64);
}

// The shifted logit of the label. With label smoothing, the mean of all shifted logits, weighted by the smoothed labels:
// one sum over the classes either way, so that devices exchange no more numbers.
Value target_logit(Value shifted, Value is_label, double label_smoothing) {
  const int last = shifted.type().ndim() - 1;
  if (label_smoothing == 0)
    return ops::reduce(ops::select(is_label, shifted, constant_like(shifted, 0)), Reduction::kSum, {last});
  const double each = label_smoothing / static_cast<double>(shifted.type().dim(last));
  const Value weights =
      ops::select(is_label, constant_like(shifted, 1 - label_smoothing + each), constant_like(shifted, each));
  return ops::reduce(ops::multiply(shifted, weights), Reduction::kSum, {last});
}

// The class dim may be sharded. Therefore a comparison of positions selects the label's logit instead of a gather.
LossValues cross_entropy_values(Value logits, Value labels, std::int64_t ignore_index, double label_smoothing) {
  Builder& builder = *logits.builder;
  const int last = logits.type().ndim() - 1;
  require(is_integer(labels.type().dtype()), "labels must be integers, got {}", labels.type());
  Dims expected = logits.type().dims();
  expected.pop_back();
  require(labels.type().dims() == expected, "logits {} need labels [{}], got {}", logits.type(),
          fmt::join(expected, ","), labels.type());
  labels = as_ids(labels);
  const Value wide = widened(logits);
  const Exponentials e = exponentials(wide, last);
  const Value classes = ops::iota(builder, wide.type().with_dtype(labels.type().dtype()), last);
  const Value is_label = ops::compare(classes, along(labels, wide, last), CompareDirection::kEq);
  const Value picked = target_logit(e.shifted, is_label, label_smoothing);
  const Value losses = ops::subtract(ops::log(e.sum), picked);
  const Value counts =
      ops::compare(labels, constant_like(labels, static_cast<double>(ignore_index)), CompareDirection::kNe);
  Dims all;
  for (int d = 0; d < last; ++d) all.push_back(d);
  const Value kept = ops::select(counts, losses, constant_like(losses, 0));
  return {ops::reduce(kept, Reduction::kSum, all),
          ops::reduce(ops::convert(counts, losses.type().dtype()), Reduction::kSum, all)};
}

}  // namespace

namespace {

void check_labels(const Operand& logits, const Operand& labels, std::int64_t ignore_index, double label_smoothing = 0) {
  in_context("cross_entropy", {&logits.tensor(), &labels.tensor()}, logits.where(), [&] {
    require(label_smoothing >= 0 && label_smoothing <= 1, "label_smoothing must be in [0, 1], got {}", label_smoothing);
  });
  if (!logits.tensor().is_null() && logits.tensor().ndim() > 0)
    check_known(
        labels,
        {.function = "cross_entropy", .what = "label", .count = logits.tensor().dim(-1), .ignored = ignore_index},
        logits);
}

}  // namespace

CrossEntropyParts cross_entropy_parts(Operand logits, Operand labels, std::int64_t ignore_index,
                                      double label_smoothing) {
  check_labels(logits, labels, ignore_index, label_smoothing);
  Value count;
  CrossEntropyParts out;
  out.sum = recorded("cross_entropy", logits, labels, [&](Value v, Value l) {
    const LossValues values = cross_entropy_values(v, l, ignore_index, label_smoothing);
    count = values.count;
    return values.sum;
  });
  out.count = trace().wrap(count);
  return out;
}

Tensor cross_entropy(Operand logits, Operand labels, std::int64_t ignore_index) {
  check_labels(logits, labels, ignore_index);
  return recorded("cross_entropy", logits, labels, [&](Value v, Value l) {
    const LossValues values = cross_entropy_values(v, l, ignore_index, 0);
    return ops::divide(values.sum, ops::maximum(values.count, constant_like(values.count, 1)));
  });
}

// ---- random -------------------------------------------------------------------------------------------------------------

Tensor dropout(Operand x, double p) {
  in_context("dropout", {&x.tensor()}, x.where(),
             [&] { require(p >= 0 && p < 1, "the probability must be in [0, 1), got {}", p); });
  if (p == 0) return recorded("dropout", x, [](Value v) { return v; });
  return recorded("dropout", x, [&](Value v) {
    // Draws in f32 for every type of x, so that masks do not depend on the element type.
    const Value uniform = ops::random_uniform(trace().random_key(), v.type().dims(), DType::kF32, trace().first_row());
    const Value keep = ops::compare(uniform, constant_like(uniform, p), CompareDirection::kGe);
    return ops::select(keep, ops::multiply(v, constant_like(v, 1 / (1 - p))), constant_like(v, 0));
  });
}

Tensor random_uniform(const Type& type, std::source_location where) {
  return trace().record(where, [&](Builder&) {
    return ops::random_uniform(trace().random_key(), type.dims(), type.dtype(), trace().first_row());
  });
}

}  // namespace tessera
