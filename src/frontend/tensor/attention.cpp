// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/attention.h"

#include <cmath>

#include "tessera/ops/attention.h"
#include "tessera/ops/control_flow.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// The mask with 4 dims: leading dims of size 1 are added.
Value mask_of_scores(Value mask, DType dtype) {
  const int ndim = mask.type().ndim();
  require(ndim <= 4, "the mask must broadcast to [batch, heads, rows, keys], got {}", mask.type());
  Dims dims(static_cast<std::size_t>(4 - ndim), 1);
  dims.insert(dims.end(), mask.type().dims().begin(), mask.type().dims().end());
  const Value out = ops::reshape(mask, dims);
  const bool is_other_float = is_float(mask.type().dtype()) && mask.type().dtype() != dtype;
  return is_other_float ? ops::convert(out, dtype) : out;
}

// By value: the types of instructions move while more are recorded.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
ops::AttentionOperands options_of(const AttentionSettings& settings, Type q, Type k) {
  ops::AttentionOperands out{.causal = settings.causal, .window = settings.window, .dropout = settings.dropout};
  require(settings.dropout >= 0 && settings.dropout < 1, "the probability of dropout must be in [0, 1), got {}",
          settings.dropout);
  require(settings.window >= 0 && (settings.window == 0 || settings.causal),
          "window must not be negative, and is for causal attention, got {}", settings.window);
  require(settings.query_offset.is_null() || settings.causal, "query_offset is for causal attention");
  out.scale = settings.scale.value_or(1 / std::sqrt(static_cast<double>(q.dims().back())));
  if (!settings.mask.is_null()) out.mask = mask_of_scores(operand_value(settings.mask), q.dtype());
  if (!settings.query_offset.is_null()) {
    const Value offset = operand_value(settings.query_offset);
    require(offset.type().ndim() == 0 && is_integer(offset.type().dtype()),
            "query_offset must be a scalar of an integer type, got {}", offset.type());
    out.offset = narrowed(offset, DType::kS32);
  }
  if (settings.dropout == 0) return out;
  out.key = trace().random_key();
  if (const Value first = trace().first_row(); !first.is_null()) {  // the rows of a micro-batch
    Builder& builder = *first.builder;
    const Value row = ops::reshape(ops::convert(first, DType::kS32), {1});
    out.start = ops::concatenate({row, ops::full(builder, Type::array(DType::kS32, {3}), 0)}, 0);
    out.dropout_dims = {q.dim(2), q.dim(1), k.dim(1)};
  }
  return out;
}

template <class F>
Tensor recorded_attention(std::string_view name, const Tensor& q, const Tensor& k, const Tensor& v,
                          std::source_location where, F&& emit) {
  return in_context(name, {&q, &k, &v}, where, [&] {
    return trace().record(where, [&](Builder&) {
      const Value x = autocast_value(name, q);
      const Value y = autocast_value(name, k);
      return emit(x, y, autocast_value(name, v));
    });
  });
}

Value output_of(Value q, Value k, Value v, const AttentionSettings& settings) {
  for (const Value& x : {q, k, v})
    require(x.type().ndim() == 4, "q, k and v must have 4 dims, got {}, {} and {}", q.type(), k.type(), v.type());
  return ops::get_tuple_element(ops::attention(q, k, v, options_of(settings, q.type(), k.type())), 0);
}

// [.., rows, depth] -> [batch, rows, heads, depth].
Value with_heads_inside(Value x) {
  const Dims& d = x.type().dims();
  if (d.size() == 2) return ops::reshape(x, {1, d[0], 1, d[1]});
  if (d.size() == 3) return ops::reshape(x, {d[0], d[1], 1, d[2]});
  return ops::transpose(x, {0, 2, 1, 3});
}

// Checks q [.., heads, rows, depth], k [.., key heads, keys, depth] and v [.., key heads, keys, values], so that errors have
// the shapes of the caller.
void check_shapes(const Type& q, const Type& k, const Type& v) {
  const int ndim = q.ndim();
  require(ndim >= 2 && ndim <= 4 && k.ndim() == ndim && v.ndim() == ndim,
          "q, k and v must have equally many dims, 2 to 4, got {}, {} and {}", q, k, v);
  require(q.dim(ndim - 1) == k.dim(ndim - 1), "q and k must have the same depth (the last dim), got {} and {}", q, k);
  require(k.dim(ndim - 2) == v.dim(ndim - 2), "k and v must have equally many keys (dim {}), got {} and {}", ndim - 2,
          k, v);
  if (ndim > 2)
    require(q.dim(0) == k.dim(0) && k.dim(0) == v.dim(0), "q, k and v must have the same dim 0, got {}, {} and {}", q,
            k, v);
  if (ndim < 4) return;
  require(k.dim(1) == v.dim(1) && k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0,
          "k and v must have equally many heads (dim 1), and these must divide the heads of q, got {}, {} and {}", q, k,
          v);
}

}  // namespace

Tensor dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& settings,
                             std::source_location where) {
  return recorded_attention("dot_product_attention", q, k, v, where,
                            [&](Value x, Value y, Value z) { return output_of(x, y, z, settings); });
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionSettings& settings, std::source_location where) {
  return recorded_attention("scaled_dot_product_attention", q, k, v, where, [&](Value x, Value y, Value z) {
    const Dims dims = x.type().dims();
    check_shapes(x.type(), y.type(), z.type());
    const Value out = output_of(with_heads_inside(x), with_heads_inside(y), with_heads_inside(z), settings);
    if (dims.size() == 4) return ops::transpose(out, {0, 2, 1, 3});
    Dims back = dims;
    back.back() = z.type().dims().back();
    return ops::reshape(out, back);
  });
}

}  // namespace tessera
