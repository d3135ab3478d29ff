// SPDX-License-Identifier: Apache-2.0
#include "conformance/op_samples.h"
#include "tessera/ops/host_memory.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

using Values = std::vector<Value>;

void add_made(std::vector<Sample>& out) {
  out.push_back({.op = "parameter",
                 .operands = {{f64(3, 5)}},
                 .build = [](Builder&, const Values& v) { return v[0]; },
                 .splits = false});
  for (const auto& type : {f64(3, 5), bf16(7), f32(5, 1), s32(2, 3, 5), pred(5)})
    out.push_back({.op = "constant", .label = type.str(), .build = [type](Builder& b, const Values&) {
                     return ops::constant(b, random_literal(type, -9, 9, 3));
                   }});
  out.push_back({.op = "constant", .label = "splat", .build = [](Builder& b, const Values&) {
                   return ops::constant(b, Literal::from<float>({3, 2}, {7, 7, 7, 7, 7, 7}));
                 }});
  out.push_back({.op = "constant", .label = "not-finite", .build = [](Builder& b, const Values&) {
                   const float inf = std::numeric_limits<float>::infinity();
                   return ops::constant(b, Literal::from<float>({2, 2}, {inf, -inf, -0.0F, 1.0e-41F}));
                 }});
  for (const auto& [type, dim] :
       {std::pair(s32(3, 5), 1), {f32(5), 0}, {array(DType::kU8, {5, 3}), 0}, {bf16(3, 5), 0}})
    out.push_back({.op = "iota", .label = type.str(), .build = [type, dim](Builder& b, const Values&) {
                     return ops::iota(b, type, dim);
                   }});
}

void add_moved(std::vector<Sample>& out) {
  const auto broadcast = [&](const Type& from, const Dims& to, const Dims& dimensions) {
    out.push_back({.op = "broadcast",
                   .label = from.str() + field_text(dimensions),
                   .operands = {{from}},
                   .build = [=](Builder&, const Values& v) { return ops::broadcast(v[0], to, dimensions); }});
  };
  broadcast(f64(3, 5), {2, 3, 5}, {1, 2});
  broadcast(f64(3, 5), {5, 2, 3}, {2, 0});
  broadcast(f64(), {3, 5}, {});
  broadcast(pred(5), {5, 3}, {0});
  broadcast(bf16(1, 5), {1, 3, 5}, {0, 2});
  const auto reshape = [&](const Type& from, const Dims& to) {
    out.push_back({.op = "reshape",
                   .label = from.str() + field_text(to),
                   .operands = {{from}},
                   .build = [=](Builder&, const Values& v) { return ops::reshape(v[0], to); }});
  };
  reshape(f64(6, 5), {2, 3, 5});
  reshape(f64(2, 3, 5), {6, 5});
  reshape(f64(6, 4), {4, 6});
  reshape(f64(1, 6, 1), {6});
  reshape(s32(4, 6), {2, 12});
  reshape(f32(3, 5), {5, 3});
  reshape(f32(12, 5), {3, 4, 5, 1});
  reshape(f32(1), {});
  const auto transpose = [&](const Type& from, const Dims& permutation) {
    out.push_back({.op = "transpose",
                   .label = from.str() + field_text(permutation),
                   .operands = {{from}},
                   .build = [=](Builder&, const Values& v) { return ops::transpose(v[0], permutation); }});
  };
  transpose(f64(3, 5), {1, 0});
  transpose(f64(2, 3, 5), {2, 0, 1});
  transpose(array(DType::kS16, {2, 3, 5}), {1, 2, 0});
  for (const auto& dims : {Dims{0}, Dims{1, 0}, Dims{}})
    out.push_back({.op = "reverse",
                   .label = field_text(dims),
                   .operands = {{f64(3, 5)}},
                   .build = [dims](Builder&, const Values& v) { return ops::reverse(v[0], dims); }});
  out.push_back({.op = "move-to-host", .label = "", .operands = {{f64(3, 5)}}, .build = [](Builder&, const Values& v) {
                   return ops::move_to_host(v[0]);
                 }});
  out.push_back(
      {.op = "move-to-device", .label = "", .operands = {{f64(3, 5)}}, .build = [](Builder&, const Values& v) {
         return ops::move_to_device(v[0]);
       }});
}

void add_sliced(std::vector<Sample>& out) {
  const auto slice = [&](const Type& from, const std::vector<SliceRange>& ranges) {
    out.push_back({.op = "slice",
                   .label = from.str() + field_text(ranges),
                   .operands = {{from}},
                   .build = [=](Builder&, const Values& v) { return ops::slice(v[0], ranges); }});
  };
  slice(f64(7, 5), {{1, 6, 2}, {0, 5, 1}});
  slice(f64(7, 5), {{0, 7, 1}, {2, 2, 1}});
  slice(f64(7, 5), {{2, 7, 3}, {1, 4, 1}});
  slice(pred(7, 5), {{6, 7, 1}, {0, 5, 1}});
  const auto pad = [&](const Type& from, const std::vector<PaddingDim>& padding) {
    out.push_back({.op = "pad",
                   .label = from.str() + field_text(padding),
                   .operands = {{from}, {Type::scalar(from.dtype())}},
                   .build = [=](Builder&, const Values& v) { return ops::pad(v[0], v[1], padding); }});
  };
  pad(f64(3, 5), {{1, 2, 1}, {0, 0, 0}});
  pad(f64(3, 5), {{-1, 0, 2}, {0, -2, 0}});
  pad(f64(5), {{-2, 3, 0}});
  pad(s32(5, 3), {{0, 0, 0}, {-1, 1, 1}});
  const auto concatenate = [&](const std::vector<SampleOperand>& parts, int dim) {
    out.push_back({.op = "concatenate",
                   .label = fmt::format("{}x{}", parts.size(), dim),
                   .operands = parts,
                   .build = [=](Builder&, const Values& v) { return ops::concatenate(v, dim); }});
  };
  concatenate({{f64(2, 5)}, {f64(3, 5)}, {f64(1, 5)}}, 0);
  concatenate({{f64(3, 2)}, {f64(3, 5)}}, 1);
  concatenate({{s32(3, 5)}}, 1);
}

void add_handed_on(std::vector<Sample>& out) {
  out.push_back({.op = "copy",
                 .operands = {{f64(3, 5)}},
                 .build = [](Builder&, const Values& v) { return ops::copy(v[0]); },
                 .takes_anything = true});
  out.push_back({.op = "tuple",
                 .operands = {{f64(3, 5)}, {s32(2)}},
                 .build = [](Builder& b, const Values& v) { return ops::tuple(b, v); },
                 .splits = false,
                 .takes_anything = true});
  out.push_back({.op = "get-tuple-element",
                 .operands = {{Type::tuple({f64(3), Type::tuple({s32(2), pred()}), f64(2, 2)})}},
                 .build = [](Builder&, const Values& v) { return ops::get_tuple_element(v[0], 1); },
                 .splits = false});
  out.push_back({.op = "get-tuple-element",
                 .label = "of tuple",
                 .operands = {{f64(3, 5)}, {f64(2)}},
                 .build = [](Builder& b, const Values& v) { return ops::get_tuple_element(ops::tuple(b, v), 1); },
                 .splits = false});
  out.push_back({.op = "opt-barrier",
                 .operands = {{f64(3, 5)}},
                 .build = [](Builder&, const Values& v) { return ops::opt_barrier({v[0]})[0]; },
                 .takes_anything = true});
  out.push_back({.op = "opt-barrier",
                 .label = "of two",
                 .operands = {{f64(3, 5)}, {f64(2)}},
                 .build = [](Builder&, const Values& v) { return ops::opt_barrier(v)[1]; },
                 .splits = false,
                 .takes_anything = true});
  out.push_back({.op = "after-all",
                 .operands = {{Type::token()}, {Type::token()}},
                 .build = [](Builder& b, const Values& v) { return b.emit(op_table().get("after-all"), v); },
                 .splits = false});
  out.push_back(
      {.op = "partition-id", .build = [](Builder& b, const Values&) { return ops::partition_id(b); }, .splits = false});
  out.push_back({.op = "replica-id",
                 .build = [](Builder& b, const Values&) { return b.emit(op_table().get("replica-id"), {}); },
                 .splits = false});
}

}  // namespace

std::vector<Sample> structural_samples() {
  std::vector<Sample> out;
  add_made(out);
  add_moved(out);
  add_sliced(out);
  add_handed_on(out);
  return out;
}

}  // namespace tessera::conformance
