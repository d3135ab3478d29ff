// SPDX-License-Identifier: Apache-2.0
#include "conformance/op_samples.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_table.h"

namespace tessera::conformance {
namespace {

using Unary = Value (*)(Value);
using Binary = Value (*)(Value, Value);

// The ranges avoid the edges of the domain, so that finite differences are meaningful.
struct UnaryRow {
  const char* op;
  Unary build;
  double low = -2;
  double high = 2;
};
constexpr UnaryRow kFloatUnary[] = {
    {"negate", ops::negate},
    {"abs", ops::abs},
    {"sign", ops::sign},
    {"exponential", ops::exp},
    {"exponential-minus-one", ops::exp_minus_one},
    {"log", ops::log, 0.3, 3},
    {"log-plus-one", ops::log_plus_one, -0.7, 3},
    {"sqrt", ops::sqrt, 0.3, 3},
    {"rsqrt", ops::rsqrt, 0.3, 3},
    {"cbrt", ops::cbrt, 0.3, 3},
    {"tanh", ops::tanh},
    {"tan", ops::tan, -1.2, 1.2},
    {"sine", ops::sin},
    {"cosine", ops::cos},
    {"logistic", ops::logistic},
    {"erf", ops::erf},
    {"floor", ops::floor},
    {"ceil", ops::ceil},
    {"round-nearest-even", ops::round_nearest_even},
    {"round-nearest-afz", ops::round_nearest_afz},
    {"is-finite", ops::is_finite},
    {"acos", ops::acos, -0.8, 0.8},
    {"acosh", ops::acosh, 1.3, 3},
    {"asin", ops::asin, -0.8, 0.8},
    {"asinh", ops::asinh},
    {"atanh", ops::atanh, -0.8, 0.8},
    {"cosh", ops::cosh},
    {"sinh", ops::sinh},
};
constexpr UnaryRow kIntegerUnary[] = {{"negate", ops::negate}, {"abs", ops::abs},
                                      {"sign", ops::sign},     {"not", ops::logical_not},
                                      {"popcnt", ops::popcnt}, {"count-leading-zeros", ops::count_leading_zeros}};

struct BinaryRow {
  const char* op;
  Binary build;
  double low = -2;
  double high = 2;
};
constexpr BinaryRow kFloatBinary[] = {
    {"add", ops::add},
    {"subtract", ops::subtract},
    {"multiply", ops::multiply},
    {"divide", ops::divide, 0.4, 3},
    {"remainder", ops::remainder, 0.4, 3},
    {"power", ops::power, 0.4, 3},
    {"maximum", ops::maximum},
    {"minimum", ops::minimum},
    {"atan2", ops::atan2, 0.4, 3},
};
constexpr BinaryRow kIntegerBinary[] = {{"add", ops::add},
                                        {"subtract", ops::subtract},
                                        {"multiply", ops::multiply},
                                        {"divide", ops::divide},
                                        {"remainder", ops::remainder},
                                        {"power", ops::power},
                                        {"maximum", ops::maximum},
                                        {"minimum", ops::minimum},
                                        {"and", ops::logical_and},
                                        {"or", ops::logical_or},
                                        {"xor", ops::logical_xor},
                                        {"shift-left", ops::shift_left},
                                        {"shift-right-arithmetic", ops::shift_right_arithmetic},
                                        {"shift-right-logical", ops::shift_right_logical}};
constexpr BinaryRow kPredBinary[] = {{"add", ops::add},         {"multiply", ops::multiply}, {"maximum", ops::maximum},
                                     {"minimum", ops::minimum}, {"and", ops::logical_and},   {"or", ops::logical_or},
                                     {"xor", ops::logical_xor}};

Sample unary(const UnaryRow& row, const Type& type, double low, double high) {
  return {.op = row.op,
          .label = type.str(),
          .operands = {{type, low, high}},
          .build = [build = row.build](Builder&, const std::vector<Value>& v) { return build(v[0]); }};
}
Sample binary(const BinaryRow& row, const Type& type, double low, double high) {
  return {.op = row.op,
          .label = type.str(),
          .operands = {{type, low, high}, {type, low, high}},
          .build = [build = row.build](Builder&, const std::vector<Value>& v) { return build(v[0], v[1]); }};
}

void add_compares(std::vector<Sample>& out) {
  const auto compare = [&](const Type& type, CompareDirection direction, CompareType kind) {
    out.push_back(
        {.op = "compare",
         .label = type.str() + field_text(direction) + field_text(kind),
         .operands = {{type}, {type}},
         .build = [=](Builder&, const std::vector<Value>& v) { return ops::compare(v[0], v[1], direction, kind); }});
  };
  compare(f64(3, 5), CompareDirection::kLt, CompareType::kDefault);
  compare(bf16(7), CompareDirection::kGe, CompareType::kTotalOrder);
  compare(f32(3, 5), CompareDirection::kNe, CompareType::kFloat);
  compare(s32(3, 5), CompareDirection::kEq, CompareType::kSigned);
  compare(u32(5), CompareDirection::kGt, CompareType::kUnsigned);
  compare(pred(5), CompareDirection::kLe, CompareType::kDefault);
}

void add_select_and_clamp(std::vector<Sample>& out) {
  const auto select = [&](const Type& predicate, const Type& type) {
    out.push_back({.op = "select",
                   .label = predicate.str() + type.str(),
                   .operands = {{predicate}, {type}, {type}},
                   .build = [](Builder&, const std::vector<Value>& v) { return ops::select(v[0], v[1], v[2]); }});
  };
  select(pred(3, 5), f64(3, 5));
  select(pred(), f64(3, 5));
  select(pred(5), pred(5));
  select(pred(5), s32(5));
  const auto clamp = [&](const Type& bound, const Type& type) {
    out.push_back({.op = "clamp",
                   .label = bound.str() + type.str(),
                   .operands = {{bound, -1.2, -0.6}, {type}, {bound, 0.6, 1.2}},
                   .build = [](Builder&, const std::vector<Value>& v) { return ops::clamp(v[0], v[1], v[2]); }});
  };
  clamp(f64(3, 5), f64(3, 5));
  clamp(f64(), f64(3, 5));
  clamp(array(DType::kS8, {}), array(DType::kS8, {7}));
}

void add_conversions(std::vector<Sample>& out) {
  const auto convert = [&](const Type& from, const Type& to) {
    out.push_back({.op = "convert",
                   .label = from.str() + "to" + to.str(),
                   .operands = {{from, -300, 300}},
                   .build = [to](Builder& b, const std::vector<Value>& v) {
                     return b.emit(op_table().get("convert"), {v[0]}, nullptr, {.type = to});
                   }});
  };
  convert(f64(3, 5), f64(3, 5));
  convert(f32(3, 5), bf16(3, 5));
  convert(bf16(3, 5), f32(3, 5));
  convert(f32(3, 5), array(DType::kS8, {3, 5}));
  convert(s32(3, 5), array(DType::kF16, {3, 5}));
  convert(pred(5), f32(5));
  convert(s32(5), pred(5));
  const auto bitcast = [&](const Type& from, const Type& to) {
    out.push_back({.op = "bitcast-convert",
                   .label = from.str() + "to" + to.str(),
                   .operands = {{from}},
                   .build = [to](Builder&, const std::vector<Value>& v) { return ops::bitcast_convert(v[0], to); }});
  };
  bitcast(f32(3, 5), u32(3, 5));
  bitcast(f64(3, 5), u32(3, 5, 2));
  bitcast(u32(3, 2), array(DType::kS64, {3}));
  bitcast(u32(3), array(DType::kBF16, {3, 2}));
  bitcast(f64(3), array(DType::kU64, {3}));
  bitcast(f64(3), f64(3));
}

}  // namespace

std::vector<Sample> elementwise_samples() {
  std::vector<Sample> out;
  for (const auto& row : kFloatUnary) {
    out.push_back(unary(row, f64(3, 5), row.low, row.high));
    out.push_back(unary(row, bf16(7), row.low, row.high));
    out.push_back(unary(row, f32(2, 3, 5), row.low, row.high));
  }
  for (const auto& row : kIntegerUnary)
    for (const auto& type : {s32(3, 5), array(DType::kU8, {7}), array(DType::kS64, {5})})
      out.push_back(unary(row, type, -90, 90));
  out.push_back(unary({"not", ops::logical_not}, pred(3, 5), -1, 1));
  for (const auto& row : kFloatBinary)
    for (const auto& type : {f64(3, 5), f32(), array(DType::kF16, {7})})
      out.push_back(binary(row, type, row.low, row.high));
  for (const auto& row : kIntegerBinary)
    for (const auto& type : {s32(3, 5), array(DType::kU8, {7}), array(DType::kS64, {5})})
      out.push_back(binary(row, type, -9, 9));
  for (const auto& row : kPredBinary) out.push_back(binary(row, pred(3, 5), -1, 1));
  add_compares(out);
  add_select_and_clamp(out);
  add_conversions(out);
  return out;
}

}  // namespace tessera::conformance
