// SPDX-License-Identifier: Apache-2.0
//   (output, log_sum) attention(q, k, v, [mask], [offset], [key, [start]]), causal=true, window=64, scale=0.125, dropout=0.1
//   (d_q, d_k, d_v) attention-backward(q, k, v, d_output, log_sum, delta, [mask], [offset], [key, [start]]), …
//
// q [b,t,h,d], k [b,s,g,d], v [b,s,g,e], output [b,t,h,e], log_sum and delta [b,t,h]; head i reads key head i/(h/g).
// The rows and the keys of the scores are t and s. The ops are not ops of HLO: hlo_form() expands them.
#include "tessera/ops/attention.h"

#include <algorithm>

#include "attention_support.h"
#include "batch_rules.h"
#include "row_support.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {

namespace {

const Type& array_of(const OpView& view, int i, int ndim, std::string_view name) {
  const Type& type = rows::array_operand(view, i);
  require(type.ndim() == ndim, "{} must have {} dims, got {}", name, ndim, type);
  return type;
}

void check_operand(const OpView& view, int i, std::string_view name, const Type& expected) {
  require(at(view.operands, i) == expected, "{} must be {}, got {}", name, expected, at(view.operands, i));
}

void check_mask(const OpView& view, const AttentionForm& form, DType dtype) {
  const Type& mask = array_of(view, form.mask, 4, "the mask");
  require(mask.dtype() == DType::kPred || mask.dtype() == dtype, "the mask must be pred or {}, got {}",
          dtype_name(dtype), mask);
  const Dims full{form.batch, form.heads, form.rows, form.keys};
  for (int d = 0; d < 4; ++d)
    require(mask.dim(d) == 1 || mask.dim(d) == at(full, d), "the mask {} does not broadcast to the scores {}", mask,
            rows::dims_text(full));
}

}  // namespace

AttentionForm attention_form(const OpView& view) {
  AttentionForm form;
  form.attributes = view.as<AttentionAttributes>();
  form.is_backward = &view.op == &rows::kAttentionBackward;
  const Type& q = array_of(view, 0, 4, "q");
  const Type& k = array_of(view, 1, 4, "k");
  const Type& v = array_of(view, 2, 4, "v");
  const DType dtype = q.dtype();
  require(is_float(dtype) && !is_narrow(dtype), "takes f16, bf16, f32 or f64, got q {}", q);
  require(k.dtype() == dtype && v.dtype() == dtype, "element types differ: q {}, k {}, v {}", q, k, v);
  form.batch = q.dim(0), form.rows = q.dim(1), form.heads = q.dim(2), form.depth = q.dim(3);
  form.keys = k.dim(1), form.key_heads = k.dim(2), form.value_depth = v.dim(3);
  require(k.dim(0) == form.batch && k.dim(3) == form.depth, "q {} and k {} must have equal batches and depths", q, k);
  require(v.dim(0) == form.batch && v.dim(1) == form.keys && v.dim(2) == form.key_heads,
          "k {} and v {} must have equal batches, keys and heads", k, v);
  require(form.key_heads > 0 && form.heads % form.key_heads == 0,
          "the heads of q must be a multiple of those of k: q {}, k {}", q, k);
  int next = 3;
  if (form.is_backward) {
    const Type sums = Type::array(attention_sum_type(dtype), {form.batch, form.rows, form.heads});
    check_operand(view, 3, "d_output", Type::array(dtype, {form.batch, form.rows, form.heads, form.value_depth}));
    check_operand(view, 4, "log_sum", sums);
    check_operand(view, 5, "delta", sums);
    next = 6;
  }
  const AttentionAttributes& a = form.attributes;
  require(a.dropout >= 0 && a.dropout < 1, "the probability of dropout must be in [0, 1), got {}", a.dropout);
  constexpr std::int64_t kMostWindow = std::int64_t{1} << 30;  // sums of positions are s32
  require(a.window >= 0 && a.window <= kMostWindow && (a.window == 0 || a.causal),
          "window must be from 1 to {}, and is for causal attention, got window {} of {} attention", kMostWindow,
          a.window, a.causal ? "causal" : "other");
  require(a.dropout_dims.empty() || (a.dropout > 0 && a.dropout_dims.size() == 3),
          "dropout_dims must hold the heads, rows and keys of the complete scores of a dropout, got {}",
          [&] { return field_text(a.dropout_dims); });
  if (a.has_mask) form.mask = next++;
  if (a.has_offset) form.offset = next++;
  if (a.dropout > 0) form.key = next++;
  if (!a.dropout_dims.empty()) form.start = next++;
  require(isize(view.operands) == next, "these attributes need {} operands, got {}", next, view.operands.size());
  if (form.mask >= 0) check_mask(view, form, dtype);
  if (form.offset >= 0) check_operand(view, form.offset, "the offset", Type::scalar(DType::kS32));
  if (form.key >= 0) check_operand(view, form.key, "the key", Type::array(DType::kU32, {2}));
  if (form.start >= 0) check_operand(view, form.start, "the start", Type::array(DType::kS32, {4}));
  return form;
}

namespace rows {
namespace {

Type infer_forward(const OpView& view) {
  const AttentionForm form = attention_form(view);
  const DType dtype = view.operands[0].dtype();
  return declared_or(view, Type::tuple({Type::array(dtype, {form.batch, form.rows, form.heads, form.value_depth}),
                                        Type::array(attention_sum_type(dtype), {form.batch, form.rows, form.heads})}));
}
Type infer_backward(const OpView& view) {
  attention_form(view);
  const auto plain = [](const Type& type) { return Type::array(type.dtype(), type.dims()); };
  return declared_or(view, Type::tuple({plain(view.operands[0]), plain(view.operands[1]), plain(view.operands[2])}));
}

// ---- factors --------------------------------------------------------------------------------------------------------

// In the backward pass, the gradients of k and v are sums over rows and over the heads that share them, and that of q
// is a sum over keys. In the forward pass, a softmax needs all keys.
FactorMap factors_attention(const OpView& view) {
  const AttentionForm form = attention_form(view);
  const FactorKind summed = form.is_backward ? FactorKind::kReduce : FactorKind::kPass;
  FactorMap map;
  const int batch = map.add(form.batch);
  const int rows = map.add(form.rows, summed);
  const int keys = map.add(form.keys, form.is_backward ? FactorKind::kReduce : FactorKind::kBlocked);
  const int depth = map.add(form.depth, FactorKind::kBlocked);
  const int value_depth = map.add(form.value_depth, FactorKind::kBlocked);
  DimFactors shared;  // the dim of key heads
  if (form.key_heads > 1) shared.push_back(map.add(form.key_heads));
  DimFactors heads = shared;
  if (form.group() > 1) heads.push_back(map.add(form.group(), summed));
  const TensorFactors q{{batch}, {rows}, heads, {depth}};
  const TensorFactors k{{batch}, {keys}, shared, {depth}};
  const TensorFactors v{{batch}, {keys}, shared, {value_depth}};
  const TensorFactors output{{batch}, {rows}, heads, {value_depth}};
  const TensorFactors sums{{batch}, {rows}, heads};
  map.operands = {q, k, v};
  if (form.is_backward) map.operands.insert(map.operands.end(), {output, sums, sums});
  if (form.mask >= 0) {
    TensorFactors mask{{batch}, heads, {rows}, {keys}};
    for (int d = 0; d < 4; ++d)
      if (at(view.operands, form.mask).dim(d) == 1) at(mask, d).clear();
    map.operands.push_back(std::move(mask));
  }
  if (form.offset >= 0) map.operands.emplace_back();
  for (const int i : {form.key, form.start})
    if (i >= 0) map.operands.push_back(add_factors(map, at(view.operands, i), FactorKind::kBlocked));
  if (form.is_backward)
    map.results = {q, k, v};
  else
    map.results = {output, sums};
  return map;
}

// ---- localize -------------------------------------------------------------------------------------------------------

// The first position of a shard, as an s32 scalar; null if the dim is unsharded.
Value first_position(LocalizeContext& context, int operand, int dim) {
  const Sharding& sharding = at(context.operand_shardings, operand);
  return sharding.tiles(dim) > 1 ? context.start_of_operand(operand, dim) : Value{};
}
Value sum_of_positions(Value a, Value b) { return a.is_null() ? b : b.is_null() ? a : ops::add(a, b); }

// Row i sees the keys to i + offset, counted from the first row and key of the complete scores.
void shift_offset(LocalizeContext& context, AttentionForm& form) {
  const Value row = first_position(context, 0, 1);
  const Value key = first_position(context, 1, 1);
  if (!form.attributes.causal || (row.is_null() && key.is_null())) return;
  Value offset = form.offset >= 0 ? at(context.operands, form.offset) : ops::scalar(context.builder, DType::kS32, 0);
  offset = sum_of_positions(offset, row);
  if (!key.is_null()) offset = ops::subtract(offset, key);
  if (form.offset >= 0) {
    at(context.operands, form.offset) = offset;
    return;
  }
  form.attributes.has_offset = true;
  const int place = form.mask >= 0 ? form.mask + 1 : form.is_backward ? 6 : 3;
  context.operands.insert(context.operands.begin() + place, offset);
  form.key += form.key >= 0 ? 1 : 0;
  form.start += form.start >= 0 ? 1 : 0;
}

// The dropout of a shard is a part of the complete dropout.
void shift_start(LocalizeContext& context, AttentionForm& form) {
  if (form.attributes.dropout == 0) return;
  const std::vector<Value> own{first_position(context, 0, 0), first_position(context, 0, 2),
                               first_position(context, 0, 1), first_position(context, 1, 1)};
  if (std::all_of(own.begin(), own.end(), [](const Value& v) { return v.is_null(); })) return;
  std::vector<Value> parts;
  for (const Value& position : own)
    parts.push_back(ops::reshape(position.is_null() ? ops::scalar(context.builder, DType::kS32, 0) : position, {1}));
  const Value shift = ops::concatenate(parts, 0);
  if (form.start >= 0) {
    at(context.operands, form.start) = ops::add(at(context.operands, form.start), shift);
    return;
  }
  form.attributes.dropout_dims = {form.heads, form.rows, form.keys};
  context.operands.push_back(shift);
}

Value localize_attention(LocalizeContext& context) {
  AttentionForm form = attention_form(context.view);
  shift_offset(context, form);
  shift_start(context, form);
  return emit_local(context, context.operands, make_attributes(form.attributes));
}

// ---- gradient -------------------------------------------------------------------------------------------------------

Value optional_operand(const std::vector<Value>& operands, int i) { return i >= 0 ? at(operands, i) : Value{}; }

std::vector<Value> gradient_attention(GradientContext& c) {
  const AttentionForm form = attention_form(c.view);
  const DType sum_type = attention_sum_type(c.view.operands[0].dtype());
  const Value output = ops::get_tuple_element(c.result, 0);
  const Value log_sum = ops::get_tuple_element(c.result, 1);
  Value d_output = at(c.d_results, 0);
  const Value d_log_sum = at(c.d_results, 1);
  Value delta{};
  if (d_output.is_null())
    d_output = ops::full(c.builder, output.type(), 0);
  else
    delta = ops::reduce(ops::multiply(ops::convert(d_output, sum_type), ops::convert(output, sum_type)),
                        Reduction::kSum, {3});
  if (!d_log_sum.is_null()) delta = delta.is_null() ? ops::negate(d_log_sum) : ops::subtract(delta, d_log_sum);
  if (delta.is_null()) return std::vector<Value>(c.operands.size());
  const ops::AttentionOperands options = attention_options(form, c.operands);
  const Value all =
      ops::attention_backward(c.operand(0), c.operand(1), c.operand(2), d_output, log_sum, delta, options);
  std::vector<Value> out(c.operands.size());
  for (int i = 0; i < 3; ++i) at(out, i) = ops::get_tuple_element(all, i);
  if (form.mask >= 0 && c.needs(form.mask) && is_float(at(c.view.operands, form.mask).dtype()))
    at(out, form.mask) = attention_mask_gradient(form, c.operands, d_output, log_sum, delta);
  return out;
}

// ---- cost -----------------------------------------------------------------------------------------------------------

// All scores count, also those that a mask hides.
double flops_attention(const OpView& view) {
  const AttentionForm form = attention_form(view);
  const double scores = static_cast<double>(form.batch) * static_cast<double>(form.heads) *
                        static_cast<double>(form.rows) * static_cast<double>(form.keys);
  const auto depth = static_cast<double>(form.depth);
  const auto value_depth = static_cast<double>(form.value_depth);
  return 2 * scores * (form.is_backward ? 3 * depth + 2 * value_depth : depth + value_depth);
}

}  // namespace

const OpDef kAttention{.name = "attention",
                       .min_operands = 3,
                       .max_operands = 7,
                       .reads_strides = true,
                       .parse = parse_attributes<AttentionAttributes>,
                       .infer = infer_forward,
                       .evaluate = evaluate_attention,
                       .gradient_kind = GradientKind::kFunction,
                       .gradient = gradient_attention,
                       .batch = batch_attention,
                       .factors = factors_attention,
                       .localize = localize_attention,
                       .hlo_form = attention_in_hlo,
                       .flops = flops_attention};

const OpDef kAttentionBackward{.name = "attention-backward",
                               .min_operands = 6,
                               .max_operands = 10,
                               .reads_strides = true,
                               .parse = parse_attributes<AttentionAttributes>,
                               .infer = infer_backward,
                               .evaluate = evaluate_attention_backward,
                               .gradient_kind = GradientKind::kForm,
                               .batch = batch_attention,
                               .factors = factors_attention,
                               .localize = localize_attention,
                               .hlo_form = attention_backward_in_hlo,
                               .flops = flops_attention};

}  // namespace rows

bool is_attention(const OpDef& op) { return &op == &rows::kAttention || &op == &rows::kAttentionBackward; }

DType attention_sum_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

ops::AttentionOperands attention_options(const AttentionForm& form, const std::vector<Value>& operands) {
  const AttentionAttributes& a = form.attributes;
  return {.causal = a.causal,
          .window = a.window,
          .scale = a.scale,
          .dropout = a.dropout,
          .mask = rows::optional_operand(operands, form.mask),
          .offset = rows::optional_operand(operands, form.offset),
          .key = rows::optional_operand(operands, form.key),
          .start = rows::optional_operand(operands, form.start),
          .dropout_dims = a.dropout_dims};
}

namespace ops {
namespace {

Value emit_attention(const OpDef& op, std::vector<Value> operands, const AttentionOperands& options) {
  AttentionAttributes a{
      .causal = options.causal, .window = options.window, .scale = options.scale, .dropout = options.dropout};
  a.has_mask = !options.mask.is_null();
  a.has_offset = !options.offset.is_null();
  if (options.dropout > 0 && !options.start.is_null()) a.dropout_dims = options.dropout_dims;
  if (a.has_mask) operands.push_back(options.mask);
  if (a.has_offset) operands.push_back(options.offset);
  if (options.dropout > 0) operands.push_back(options.key);
  if (!a.dropout_dims.empty()) operands.push_back(options.start);
  Builder& builder = *operands.front().builder;
  return builder.emit(op, operands, make_attributes(std::move(a)));
}

}  // namespace

Value attention(Value q, Value k, Value v, const AttentionOperands& options) {
  return emit_attention(rows::kAttention, {q, k, v}, options);
}
Value attention_backward(Value q, Value k, Value v, Value d_output, Value log_sum, Value delta,
                         const AttentionOperands& options) {
  return emit_attention(rows::kAttentionBackward, {q, k, v, d_output, log_sum, delta}, options);
}

}  // namespace ops
}  // namespace tessera
