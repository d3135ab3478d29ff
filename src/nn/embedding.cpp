// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/embedding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/frontend/tracing/known_ids.h"
#include "tessera/nn/initializers.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera::nn {
namespace {

Initializer with_zero_row(Initializer rows, std::int64_t zero) {
  return [rows = std::move(rows), zero](Builder& builder, const Type& type) {
    const Value values = rows(builder, type);
    const Value row = ops::iota(builder, type.with_dtype(DType::kS32), 0);
    const Value is_zero =
        ops::compare(row, ops::full(builder, row.type(), static_cast<double>(zero)), CompareDirection::kEq);
    return ops::select(is_zero, ops::full(builder, type, 0), values);
  };
}

// The table of a layer. `padding_idx` becomes a row number.
struct Table {
  Type type;
  Initializer rows;
};
Table table_of(std::string_view layer, const Dims& dims, DType dtype, double standard_deviation,
               std::optional<std::int64_t>& padding_idx) {
  const std::int64_t count = dims[0];
  require(count >= 1 && dims[1] >= 1, "{} needs a positive count and width, got {} and {}", layer, count, dims[1]);
  Table out{Type::array(dtype, dims), normal(0, standard_deviation)};
  if (!padding_idx) return out;
  require(*padding_idx >= -count && *padding_idx < count, "{}: padding_idx {} is not one of {} rows", layer,
          *padding_idx, count);
  if (*padding_idx < 0) *padding_idx += count;
  out.rows = with_zero_row(std::move(out.rows), *padding_idx);
  return out;
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t width, const Options& options)
    : padding_idx_(options.padding_idx) {
  Table table = table_of("Embedding", {count, width}, options.dtype, options.standard_deviation, padding_idx_);
  weight_ = add_parameter("weight", table.type, std::move(table.rows));
}

Tensor Embedding::forward(const Tensor& ids) {
  Tensor rows = embedding(at_call(weight_), ids);
  if (!padding_idx_) return rows;
  return where((ids == static_cast<double>(*padding_idx_)).unsqueeze(-1), rows.detach(), rows);
}

EmbeddingBag::EmbeddingBag(std::int64_t count, std::int64_t width, const Options& options) : options_(options) {
  Table table =
      table_of("EmbeddingBag", {count, width}, options.dtype, options.standard_deviation, options_.padding_idx);
  weight_ = add_parameter("weight", table.type, std::move(table.rows));
}

namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

// Rows of several bags, and which of them count (null: all), with a dim of size 1 in place of their width.
struct BagRows {
  Tensor values;
  Tensor counts;
};

Tensor counting(const Tensor& values, const Tensor& counts, double otherwise) {
  return counts.is_null() ? values : where(counts, values, otherwise);
}

// [bags, length, width] -> [bags, width]
Tensor reduced_rows(const BagRows& rows, BagMode mode) {
  if (mode == BagMode::kMax) {
    const Tensor largest = max(counting(rows.values, rows.counts, kLeast), {.dims = {1}});
    return rows.counts.is_null() ? largest : where(any(rows.counts, {.dims = {1}}), largest, 0.0);
  }
  Tensor total = sum(counting(rows.values, rows.counts, 0), {.dims = {1}});
  if (mode == BagMode::kSum) return total;
  if (rows.counts.is_null()) return total * (1 / static_cast<double>(std::max<std::int64_t>(1, rows.values.dim(1))));
  return total / maximum(sum(rows.counts.to(total.dtype()), {.dims = {1}}), 1.0);
}

// [n, width] -> [bags, width], where row i belongs to bag number bag_of[i], if there is such a bag.
Tensor reduced_bags(const Tensor& rows, const Tensor& bag_of, std::int64_t bags, BagMode mode) {
  const Type type = rows.type().with_dims({bags, rows.dim(1)});
  const auto counted = [&] {
    const Tensor ones = Tensor::ones(rows.type().with_dims({rows.dim(0), 1}));
    return Tensor::zeros(type.with_dims({bags, 1})).index_add(0, bag_of, ones);
  };
  if (mode == BagMode::kMax) {
    const Tensor index = bag_of.unsqueeze(1).broadcast_to(rows.dims());
    const Tensor largest = Tensor::full(type, kLeast).scatter_reduce(0, index, rows, ScatterReduction::kAmax);
    return where(counted() > 0.0, largest, 0.0);
  }
  const Tensor total = Tensor::zeros(type).index_add(0, bag_of, rows);
  return mode == BagMode::kSum ? total : total / maximum(counted(), 1.0);
}

void check_bags(const Tensor& ids, const Tensor& offsets, const Tensor& weights, const EmbeddingBag::Options& options) {
  require(!ids.is_null() && is_integer(ids.dtype()), "EmbeddingBag needs integer ids{}",
          [&] { return ids.is_null() ? std::string() : ", got " + ids.type().str(); });
  if (offsets.is_null())
    require(ids.ndim() == 2, "EmbeddingBag needs ids [bags, length], or ids [n] and offsets [bags], got {}",
            ids.type());
  else
    require(ids.ndim() == 1 && offsets.ndim() == 1 && is_integer(offsets.dtype()) &&
                (!options.include_last_offset || offsets.dim(0) >= 1),
            "EmbeddingBag needs integer offsets [bags] with ids [n], got {} and {}", offsets.type(), ids.type());
  if (weights.is_null()) return;
  require(options.mode == BagMode::kSum, "EmbeddingBag has per_sample_weights only for BagMode::kSum");
  require(weights.dims() == ids.dims() && is_float(weights.dtype()),
          "EmbeddingBag: per_sample_weights needs floats with the shape of the ids {}, got {}", ids.type(),
          weights.type());
}

}  // namespace

Tensor EmbeddingBag::forward(const Tensor& ids, const Tensor& offsets, const Tensor& per_sample_weights) {
  check_bags(ids, offsets, per_sample_weights, options_);
  if (!offsets.is_null())
    tessera::detail::check_offsets(offsets, {.function = "EmbeddingBag", .count = ids.dim(0)}, {&offsets, &ids},
                                   detail::current_call());
  const DType dtype = weight_.dtype();
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor rows = embedding(at_call(weight_), ids).to(wide);
  if (!per_sample_weights.is_null()) rows = rows * per_sample_weights.to(wide).unsqueeze(-1);
  Tensor counts;
  if (options_.padding_idx) counts = ids != static_cast<double>(*options_.padding_idx);
  if (offsets.is_null()) {
    const Tensor of_rows = counts.is_null() ? counts : counts.unsqueeze(-1);
    return reduced_rows({rows, of_rows}, options_.mode).to(dtype);
  }
  const std::int64_t bags = offsets.dim(0) - (options_.include_last_offset ? 1 : 0);
  const Tensor position = Tensor::iota(ids.type().with_dtype(offsets.dtype()), 0);
  Tensor bag_of = searchsorted(offsets, position, {.right = true}) - 1.0;
  if (!counts.is_null()) bag_of = where(counts, bag_of, static_cast<double>(bags));
  return reduced_bags(rows, bag_of, bags, options_.mode).to(dtype);
}

HookHandle add_embedding_noise(Embedding& embedding, double alpha) {
  require(alpha >= 0 && std::isfinite(alpha), "the noise of an embedding needs alpha >= 0, got {}", alpha);
  return embedding.register_forward_hook([alpha](Module& module, const std::vector<Tensor>&, std::vector<Tensor>& out) {
    if (!module.is_training()) return;
    Tensor& x = out.at(0);
    require(x.ndim() == 3, "the noise of an embedding needs ids [batch, time], got a result {}", x.type());
    const double most = alpha / std::sqrt(static_cast<double>(x.dim(1) * x.dim(2)));
    // Drawn in f32 for every type, as the masks of dropout.
    const Tensor unit = random_uniform(Type::array(DType::kF32, x.dims()));
    x = x + ((unit * 2.0 - 1.0) * most).to(x.dtype());
  });
}

}  // namespace tessera::nn
