// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/autocast.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tensor/autocast_values.h"
#include "tensor/broadcast.h"
#include "tessera/autodiff/gradients.h"
#include "tessera/base/error.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/elementwise.h"

namespace tessera {
namespace {

// The types of the scopes of a rank, the innermost last; nullopt: a scope that is not enabled.
struct AutocastScopes {
  std::vector<std::optional<DType>> types;
};

std::optional<DType> autocast_type() {
  const auto& types = RankContext::current().get<AutocastScopes>().types;
  return types.empty() ? std::nullopt : types.back();
}

using Rules = std::map<std::string, AutocastRule, std::less<>>;

// The names of functions as in their errors.
constexpr std::string_view kInLowerType =
    "linear matmul bmm addmm baddbmm dot tensordot einsum conv1d conv2d conv_transpose1d conv_transpose2d "
    "dot_product_attention "
    "scaled_dot_product_attention";
constexpr std::string_view kInF32 =
    "softmax softmin log_softmax logsumexp layer_norm normalize_channels channel_statistics cross_entropy sum nansum "
    "mean "
    "nanmean prod cumsum cumprod norm normalize pairwise_distance cdist cosine_similarity cov var std exponential "
    "expm1 log log1p log2 "
    "log10 "
    "power rsqrt reciprocal softplus acos asin tan cosh sinh";
constexpr std::string_view kInWidestType =
    "add subtract multiply divide div maximum minimum remainder fmod floor_divide atan2 hypot logaddexp xlogy lerp "
    "outer kron compare select concat";

const Rules& autocast_rules() {
  static const Rules kRules = [] {
    Rules out;
    for (const auto& [names, rule] :
         {std::pair(kInLowerType, AutocastRule::kLower), std::pair(kInF32, AutocastRule::kFull),
          std::pair(kInWidestType, AutocastRule::kWidest)})
      for (const std::string& name : split(names, ' ')) out[name] = rule;
    return out;
  }();
  return kRules;
}

bool is_cast(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

Value converted(Value value, DType to) { return value.type().dtype() == to ? value : ops::convert(value, to); }

// The gradient of a parameter has its type, so products accumulate it there.
Value converted_parameter(Value value, DType to) {
  Builder& builder = *value.builder;
  const NotesRef before = builder.default_notes;
  builder.default_notes =
      with_frontend_attribute(before, kSumTypeAttribute, std::string(dtype_name(value.type().dtype())));
  const Value out = converted(value, to);
  builder.default_notes = before;
  return out;
}

}  // namespace

std::optional<AutocastRule> autocast_rule(std::string_view function) {
  const auto found = autocast_rules().find(function);
  return found == autocast_rules().end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> autocast_functions(AutocastRule rule) {
  std::vector<std::string> out;
  for (const auto& [name, its_rule] : autocast_rules())
    if (its_rule == rule) out.push_back(name);
  return out;
}

Autocast::Autocast(DType dtype, bool enabled) {
  require(dtype == DType::kBF16 || dtype == DType::kF16, "Autocast is for bf16 and f16, got {}", dtype_name(dtype));
  RankContext::current().get<AutocastScopes>().types.push_back(enabled ? std::optional(dtype) : std::nullopt);
}

Autocast::~Autocast() { RankContext::current().get<AutocastScopes>().types.pop_back(); }

Value autocast_value(std::string_view function, const Operand& operand) {
  const Value value = operand_value(operand);
  const std::optional<DType> lower = autocast_type();
  if (!lower || operand.is_number() || !is_cast(value.type().dtype())) return value;
  const std::optional<AutocastRule> rule = autocast_rule(function);
  if (rule == AutocastRule::kFull) return converted(value, DType::kF32);
  if (rule != AutocastRule::kLower) return value;
  const bool is_parameter = operand.tensor().impl().with_gradient().requires_grad;
  return is_parameter ? converted_parameter(value, *lower) : converted(value, *lower);
}

void widen_in_autocast(std::vector<Value>& values) {
  if (!autocast_type() || values.empty()) return;
  const DType first = values.front().type().dtype();
  bool differs = false;
  for (const Value& value : values) {
    if (!is_cast(value.type().dtype())) return;
    differs = differs || value.type().dtype() != first;
  }
  if (!differs) return;  // otherwise one of them is f32, or they are f16 and bf16, which f32 contains
  for (Value& value : values) value = converted(value, DType::kF32);
}

}  // namespace tessera
