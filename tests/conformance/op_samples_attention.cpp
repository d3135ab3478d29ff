// SPDX-License-Identifier: Apache-2.0
// attention and attention-backward: heads that share keys, masks, dropout.
#include "conformance/op_samples.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

using Values = std::vector<Value>;

// The sizes of a sample, and its optional operands: a mask of the given type, an offset, a key of a dropout, a start.
struct Case {
  std::string label;
  DType dtype = DType::kF64;
  std::int64_t batch = 2, rows = 5, heads = 3, key_heads = 3, keys = 7, depth = 4, value_depth = 5;
  ops::AttentionOperands options{};
  std::vector<SampleOperand> mask{};
  bool has_offset = false;
  bool has_start = false;
};

ops::AttentionOperands with_operands(const Case& c, const Values& v, std::size_t next) {
  ops::AttentionOperands options = c.options;
  if (!c.mask.empty()) options.mask = v[next++];
  if (c.has_offset) options.offset = v[next++];
  if (options.dropout > 0) options.key = v[next++];
  if (c.has_start) {
    options.start = v[next];
    options.dropout_dims = {c.heads + 1, c.rows + 3, c.keys + 2};
  }
  return options;
}

void add(std::vector<Sample>& out, const Case& c) {
  const auto array = [&](Dims dims) { return Type::array(c.dtype, std::move(dims)); };
  const DType sums = c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const std::vector<SampleOperand> arrays{{array({c.batch, c.rows, c.heads, c.depth})},
                                          {array({c.batch, c.keys, c.key_heads, c.depth})},
                                          {array({c.batch, c.keys, c.key_heads, c.value_depth})}};
  std::vector<SampleOperand> optional = c.mask;
  if (c.has_offset) optional.push_back({Type::scalar(DType::kS32), 1, 3});
  if (c.options.dropout > 0) optional.push_back({u32(2), 0, 1e9});
  if (c.has_start) optional.push_back({s32(4), 0, 3});
  Sample forward{.op = "attention", .label = c.label, .operands = arrays, .build = [c](Builder&, const Values& v) {
                   return ops::attention(v[0], v[1], v[2], with_operands(c, v, 3));
                 }};
  Sample backward{
      .op = "attention-backward", .label = c.label, .operands = arrays, .build = [c](Builder&, const Values& v) {
        return ops::attention_backward(v[0], v[1], v[2], v[3], v[4], v[5], with_operands(c, v, 6));
      }};
  const Type lines = Type::array(sums, {c.batch, c.rows, c.heads});
  backward.operands.push_back({array({c.batch, c.rows, c.heads, c.value_depth})});
  backward.operands.push_back({lines, 1, 4});
  backward.operands.push_back({lines});
  for (Sample* sample : {&forward, &backward}) {
    sample->operands.insert(sample->operands.end(), optional.begin(), optional.end());
    out.push_back(std::move(*sample));
  }
}

}  // namespace

std::vector<Sample> attention_samples() {
  std::vector<Sample> out;
  add(out, {.label = "plain", .options = {.scale = 0.5}});
  add(out, {.label = "causal", .rows = 7, .options = {.causal = true, .scale = 0.7}});
  add(out, {.label = "grouped",
            .heads = 6,
            .key_heads = 2,
            .options = {.causal = true, .scale = 0.4},
            .mask = {{f64(1, 6, 1, 7)}},
            .has_offset = true});
  add(out, {.label = "window", .rows = 7, .options = {.causal = true, .window = 3, .scale = 0.7}});
  add(out, {.label = "window_with_offset",
            .heads = 6,
            .key_heads = 2,
            .options = {.causal = true, .window = 2, .scale = 0.4},
            .has_offset = true});
  add(out, {.label = "one_key_head", .batch = 1, .heads = 3, .key_heads = 1, .options = {.scale = 0.6}});
  add(out, {.label = "added_mask", .options = {.scale = 0.5}, .mask = {{f64(2, 1, 5, 7)}}});
  add(out, {.label = "pred_mask", .heads = 6, .key_heads = 3, .options = {.scale = 0.5}, .mask = {{pred(1, 1, 5, 7)}}});
  add(out, {.label = "dropout", .options = {.causal = true, .scale = 0.5, .dropout = 0.3}});
  add(out, {.label = "dropout_of_a_part",
            .heads = 6,
            .key_heads = 2,
            .options = {.scale = 0.5, .dropout = 0.4},
            .mask = {{f64(1, 1, 1, 7)}},
            .has_start = true});
  add(out, {.label = "f32", .dtype = DType::kF32, .rows = 7, .options = {.causal = true, .scale = 0.5}});
  add(out, {.label = "bf16", .dtype = DType::kBF16, .options = {.scale = 0.5}, .mask = {{bf16(2, 3, 1, 7)}}});
  add(out, {.label = "f16", .dtype = DType::kF16, .options = {.scale = 0.5}});
  return out;
}

}  // namespace tessera::conformance
