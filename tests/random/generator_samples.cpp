// SPDX-License-Identifier: Apache-2.0
// Any op of the table, with operands that fit the samples of the conformance laws, and the possible pairs of op and
// annotation.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "random/generator.h"

#include "tessera/ops/elementwise.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::testing {
namespace {

using conformance::Sample;
using conformance::SampleOperand;

const std::map<std::string_view, std::vector<const Sample*>>& samples_by_op() {
  static const auto all = [] {
    std::map<std::string_view, std::vector<const Sample*>> out;
    for (const Sample& sample : conformance::op_samples()) out[sample.op].push_back(&sample);
    return out;
  }();
  return all;
}

// Returns the types of the op's instructions in the samples.
std::vector<Type> types_of(std::string_view op) {
  static std::map<std::string_view, std::vector<Type>> known;
  auto [found, fresh] = known.try_emplace(op);
  if (fresh)
    for (const Sample* sample : samples_by_op().at(op)) {
      const auto made = conformance::program_of(*sample);
      found->second.push_back(made.program.entry_computation()[made.subject].type);
    }
  return found->second;
}

bool any_leaf(std::string_view op, bool (*holds)(const Type&)) {
  for (const Type& type : types_of(op))
    for (const Type& leaf : type.leaves())
      if (holds(leaf)) return true;
  return false;
}

bool fits(const Type& type, ShardingKind kind) {
  const auto leaves = type.leaves();
  const auto any = [&](auto holds) { return std::any_of(leaves.begin(), leaves.end(), holds); };
  const auto dims = [](const Type& leaf) { return leaf.is_array() ? leaf.ndim() : 0; };
  switch (kind) {
    case ShardingKind::kReplicated: return !leaves.empty();
    case ShardingKind::kTuple: return leaves.size() > 1;
    case ShardingKind::kSeveralDims: return any([&](const Type& leaf) { return dims(leaf) > 1; });
    case ShardingKind::kUnreduced:
      return any([](const Type& leaf) { return leaf.is_array() && leaf.dtype() != DType::kPred; });
    case ShardingKind::kMaximal:
    case ShardingKind::kUnknown:
    case ShardingKind::kManual:
    case ShardingKind::kManualSubgroup: return any([](const Type& leaf) { return leaf.is_array(); });
    case ShardingKind::kShardAs:
    case ShardingKind::kShardLike: return type.is_array();
    default: return any([&](const Type& leaf) { return dims(leaf) > 0; });
  }
}

}  // namespace

bool is_regional(const OpDef& op) {
  return op.role == Role::kCollective || op.role == Role::kPartitionId || op.name == "all-gather-done" ||
         op.name == "all-reduce-done" || op.name == "collective-permute-done";
}

std::string_view impossible(const Feature& feature) {
  const OpDef& op = op_table().get(feature.op);
  const auto kind = feature.kind;
  const bool manual = kind == ShardingKind::kManual || kind == ShardingKind::kManualSubgroup;
  if (is_regional(op) && !manual) return "stands in manual regions only";
  const auto& types = types_of(op.name);
  if (std::any_of(types.begin(), types.end(), [&](const Type& type) { return fits(type, kind); })) return "";
  if (!any_leaf(op.name, [](const Type& leaf) { return leaf.is_array(); })) return "a token lies nowhere";
  if (kind == ShardingKind::kTuple) return "one array only";
  if (kind == ShardingKind::kShardAs || kind == ShardingKind::kShardLike) return "groups are of arrays, it is a tuple";
  if (kind == ShardingKind::kUnreduced) return "preds are no sums";
  if (kind == ShardingKind::kSeveralDims) return "no result of several dims";
  return "no result with dims to tile";
}

namespace {

const std::vector<Feature>& features() {
  static const auto all = [] {
    std::vector<Feature> out;
    for (int kind = 0; kind < kKindCount; ++kind)
      for (const OpDef* op : op_table().rows()) {
        const Feature feature{op->name, static_cast<ShardingKind>(kind)};
        if (impossible(feature).empty()) out.push_back(feature);
      }
    return out;
  }();
  return all;
}

}  // namespace

std::int64_t feature_count() { return isize(features()); }

// The stride and the count have no common factor, so that neighbouring seeds differ in op and kind.
Feature feature_of(std::uint64_t seed) {
  const auto count = static_cast<std::uint64_t>(feature_count());
  std::uint64_t stride = 257;
  while (std::gcd(stride, count) != 1) ++stride;
  return at(features(), static_cast<std::int64_t>(seed % count * stride % count));
}

Id Generator::sampled(std::string_view op) {
  std::vector<const Sample*> fitting;
  for (const Sample* sample : samples_by_op().at(op)) {
    const auto made = conformance::program_of(*sample);
    if (fits(made.program.entry_computation()[made.subject].type, feature_.kind)) fitting.push_back(sample);
  }
  if (op != feature_.op || fitting.empty()) fitting = samples_by_op().at(op);
  return sampled(*dice_.pick(fitting));
}

Id Generator::sampled(const Sample& sample) {
  if (sample.op == "parameter") return is_manual() ? called_parameter() : parameter(sample.operands[0].type).id;
  std::vector<Value> operands;
  for (const SampleOperand& operand : sample.operands) operands.push_back(value_of(operand));
  const Id first = builder().computation().size();
  const Value made = sample.build(builder(), operands);
  Id subject = made.id;
  for (Id id = first; id < builder().computation().size(); ++id)
    if (builder()[id].op->name == sample.op) subject = id;
  return subject;
}

Value Generator::any_sample() {
  const auto& rows = op_table().rows();
  const OpDef* op = dice_.pick(rows);
  const bool may_branch = op->role == Role::kConditional && is_manual();  // devices would take different branches
  if (is_regional(*op) || may_branch || op->role == Role::kParameter) return {};
  return done(builder().value(sampled(op->name)));
}

// If only a -done op may read the value, returns the result of the -done op.
Value Generator::done(Value started) {
  const OpDef& op = *started.instruction().op;
  const std::string name(op.name);
  const bool update = name == "async-update";
  if (!update && !name.ends_with("-start") && name != "send" && name != "recv") return started;
  const std::string base = update ? "async" : name.substr(0, name.ends_with("-start") ? name.size() - 6 : name.size());
  const Type data = name == "recv" ? started.type().elements().front() : Type::token();
  EmitOptions options;
  if (name == "send") options.type = Type::token();
  if (name == "recv") options.type = Type::tuple({data, Type::token()});
  return builder().emit(op_table().get(base + "-done"), {started}, nullptr, std::move(options));
}

Value Generator::within(Value x, double low, double high) {
  const DType dtype = x.type().dtype();
  if (dtype == DType::kPred || is_complex(dtype) || is_narrow(dtype)) return x;
  if (is_integer(dtype)) {
    low = is_unsigned_int(dtype) ? 0 : std::round(low);
    high = std::round(high);
  }
  return ops::clamp(ops::scalar(builder(), dtype, low), x, ops::scalar(builder(), dtype, high));
}

Value Generator::value_of(const SampleOperand& operand) {
  const Type& type = operand.type;
  if (type.is_token()) return builder().emit(op_table().get("after-all"), {});
  if (type.is_tuple()) {
    std::vector<Value> elements;
    for (const Type& element : type.elements()) elements.push_back(value_of({element, operand.low, operand.high}));
    return ops::tuple(builder(), elements);
  }
  return within(array_of(type), operand.low, operand.high);
}

// Returns an exact value of this type, or converts one. Sometimes adds a parameter.
Value Generator::array_of(const Type& type) {
  constexpr int kMostParameters = 8;
  std::vector<Value> same;
  std::vector<Value> exact;
  for (const Entry& entry : scope_->values) {
    if (!entry.exact || is_narrow(entry.value.type().dtype())) continue;
    exact.push_back(entry.value);
    if (entry.value.type().dims() == type.dims()) same.push_back(entry.value);
  }
  const bool may_add = scope_->is_entry && parameters_ < kMostParameters;
  if (may_add && (exact.empty() || dice_.one_in(same.empty() ? 2 : 4))) {
    const Value fresh = parameter(type);
    put(fresh);
    return fresh;
  }
  if (exact.empty()) exact.push_back(ops::iota(builder(), Type::array(DType::kS32, {7}), 0));
  Value x = same.empty() ? resized(dice_.pick(exact), type.dims()) : dice_.pick(same);
  if (is_complex(x.type().dtype()) && !is_complex(type.dtype())) x = ops::real(x);
  return x.type().dtype() == type.dtype() ? x : ops::convert(x, type.dtype());
}

// Returns the elements of x in order, truncated or padded.
Value Generator::resized(Value x, const Dims& dims) {
  const auto have = x.type().element_count();
  const auto want = product(dims);
  x = ops::reshape(x, {have});
  if (have > want) x = ops::slice_dim(x, 0, have - want, have);
  if (have < want)
    x = ops::pad(x, number(x.type().dtype(), 1), {{(want - have) / 2, want - have - (want - have) / 2, 0}});
  return ops::reshape(x, dims);
}

}  // namespace tessera::testing
