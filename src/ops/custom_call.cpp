// SPDX-License-Identifier: Apache-2.0
// custom-call. Known targets: Sharding (the identity, with a sharding that binds), the borders of manual regions
// (SPMDFullToShardShape …, xla.sdy.GlobalToLocalShape …), identities about shardings or memory, and TopK. Others
// evaluate as a deterministic function of their operands, so that programs that contain them can be checked: continuous
// in float operands, exact in integers, within [-1, 1]; if there is a sharding rule, as the einsum that it describes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "collective_gradients.h"
#include "opaque_value.h"
#include "row_support.h"
#include "sharding_rule.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/custom_call.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/rows.h"
#include "tessera/sharding/hlo_sharding.h"
#include "topk.h"

namespace tessera {
namespace rows {
namespace {

// A number in [-1, 1) from the bits of a hash.
double unit_from(std::size_t hash) {
  return static_cast<double>(static_cast<std::int64_t>(hash)) / 9223372036854775808.0;
}

Literal filled(std::size_t exact, double smooth, const Type& type, std::size_t& next) {
  if (type.is_tuple()) {
    std::vector<Literal> elements;
    for (const Type& element : type.elements()) elements.push_back(filled(exact, smooth, element, next));
    return Literal::tuple(std::move(elements));
  }
  Literal out(type);
  if (!type.is_array()) return out;
  visit_any_dtype(type.dtype(), [&]<class T>() {
    for (T& value : out.mutable_data<T>()) {
      const std::size_t seed = hash_mix(exact, next++);
      const double phase = 3.141592653589793 * unit_from(seed);
      if constexpr (is_complex(kDTypeOf<T>))
        value = T(static_cast<typename T::value_type>(std::sin(phase + smooth)));
      else if constexpr (is_float(kDTypeOf<T>))
        value = static_cast<T>(std::sin(phase + smooth));
      else if constexpr (kDTypeOf<T> == DType::kPred)
        value = (seed & 1) != 0;
      else
        value = static_cast<T>(seed % 100);
    }
  });
  return out;
}

const std::string& target(const OpView& view) { return view.as<CustomCallAttributes>().target; }
bool names_sharding(const std::string& target) {
  return target == "Sharding" || target == "xla.sdy.FuncResultSharding";
}
// Identities whose sharding information is read elsewhere.
bool names_barrier(const std::string& target) {
  return target == "ShardBarrierFrom" || target == "ShardBarrierTo" || target == "xla.sdy.PropagationBarrier";
}
// Requires equal shardings for all operands with the same number, and returns nothing.
bool names_group(const std::string& target) { return target == "xla.sdy.ShardingGroup"; }
bool names_identity(const std::string& target) {
  return names_barrier(target) || target == "MoveToHost" || target == "MoveToDevice" ||
         target == "annotate_device_placement" || target == "LayoutConstraint";
}
ManualBorder border_of(const std::string& target) {
  if (target == "SPMDFullToShardShape" || target == "xla.sdy.GlobalToLocalShape") return ManualBorder::kEnter;
  if (target == "SPMDShardToFullShape" || target == "xla.sdy.LocalToGlobalShape") return ManualBorder::kLeave;
  return ManualBorder::kNone;
}
bool is_sharding(const OpView& view) { return names_sharding(target(view)); }
bool is_manual_border(const OpView& view) { return border_of(target(view)) != ManualBorder::kNone; }
bool is_identity_custom_call(const OpView& view) { return is_sharding(view) || names_identity(target(view)); }

bool side_effect(const Attributes& attributes) {
  const auto& a = attributes_as<CustomCallAttributes>(attributes);
  const bool known = names_sharding(a.target) || names_identity(a.target) || names_group(a.target) ||
                     border_of(a.target) != ManualBorder::kNone;
  return a.has_side_effect && !known;
}

std::optional<ShardingRule> rule_of(const OpView& view) {
  const auto& text = view.as<CustomCallAttributes>().sharding_rule;
  return text.empty() ? std::nullopt : std::optional(parse_sharding_rule(text, view));
}

// The leading dims over which the call is batched; empty if it has no such attribute or these dims differ.
Dims batch_of(const OpView& view) {
  const std::int64_t count = view.as<CustomCallAttributes>().num_batch_dims;
  if (count == 0) return {};
  std::vector<Type> leaves = view.result.leaves();
  for (const Type& operand : view.operands)
    for (const Type& leaf : operand.leaves()) leaves.push_back(leaf);
  const auto has_batch = [&](const Type& leaf) {
    return leaf.is_array() && 0 < count && count <= leaf.ndim() &&
           std::equal(leaf.dims().begin(), leaf.dims().begin() + count, leaves[0].dims().begin());
  };
  if (!std::all_of(leaves.begin(), leaves.end(), has_batch)) return {};  // as in XLA, which does not check it
  return {leaves[0].dims().begin(), leaves[0].dims().begin() + count};
}

Type infer_custom_call(const OpView& view) {
  if (is_identity_custom_call(view)) {
    require(view.operands.size() == 1, "{} takes 1 operand, got {}", target(view), view.operands.size());
    const bool is_declared = !(view.result == Type());
    require(!is_declared || view.result == view.operands[0], "{} returns its operand's type {}, not {}", target(view),
            view.operands[0], view.result);
    return is_declared ? view.result : view.operands[0];
  }
  if (is_manual_border(view)) {
    const std::vector<Type> results = view.result.is_tuple() ? view.result.elements() : std::vector<Type>{view.result};
    require(results.size() == view.operands.size(),
            "{} with {} operands returns {}; it must return one array per operand", target(view), view.operands.size(),
            view.result);
    for (int i = 0; i < isize(results); ++i) {
      const Type& from = at(view.operands, i);
      const Type& to = at(results, i);
      const bool same_kind = to.is_array() && from.is_array() && to.dtype() == from.dtype() && to.ndim() == from.ndim();
      require(same_kind, "{} changes only sizes: {} cannot become {}", target(view), from, to);
    }
  }
  (void)rule_of(view);  // an invalid rule is an error here
  return view.result;
}

// ---- unknown targets -----------------------------------------------------------------------------------------------

struct Digest {
  std::size_t exact = 0;  // hash of target and integer operands
  double smooth = 0;      // from float operands, continuous in them
};

Digest digest_of(const EvalContext& context) {
  Digest out{hash_text(target(context.view)), 0};
  std::size_t position = 0;
  for (const Literal& operand : context.operands) {
    for (const Literal& part : operand.leaves()) {
      if (!part.type().is_array()) continue;
      const Literal leaf = part.as_reals();
      if (!is_float(leaf.type().dtype())) {
        out.exact = hash_mix(out.exact, leaf.hash());
        continue;
      }
      const double scale = 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(leaf.type().element_count(), 1)));
      for (std::int64_t i = 0; i < leaf.type().element_count(); ++i) {
        const double x = element_as_double(leaf, i);
        const double bounded = std::isnan(x) ? 0.5 : std::isinf(x) ? std::copysign(1.0, x) : x / (1.0 + std::fabs(x));
        out.smooth += scale * unit_from(hash_mix(position++, 1)) * bounded;
      }
    }
  }
  return out;
}

Type without_batch(const Type& type, std::int64_t count) {
  if (!type.is_tuple()) return Type::array(type.dtype(), Dims(type.dims().begin() + count, type.dims().end()));
  std::vector<Type> elements;
  for (const Type& element : type.elements()) elements.push_back(without_batch(element, count));
  return Type::tuple(std::move(elements));
}
// Item k of the batch.
Literal item_of(const Literal& batched, std::int64_t count, std::int64_t k) {
  if (batched.type().is_tuple()) {
    std::vector<Literal> elements;
    for (const Literal& element : batched.elements()) elements.push_back(item_of(element, count, k));
    return Literal::tuple(std::move(elements));
  }
  Literal out(without_batch(batched.type(), count));
  const auto size = isize(out.bytes());
  for (std::int64_t i = 0; i < size; ++i) at(out.mutable_bytes(), i) = at(batched.bytes(), k * size + i);
  return out;
}
Literal stacked(const std::vector<Literal>& items, const Type& type) {
  if (type.is_tuple()) {
    std::vector<Literal> elements;
    for (int e = 0; e < isize(type.elements()); ++e) {
      std::vector<Literal> parts;
      for (const Literal& item : items) parts.push_back(at(item.elements(), e));
      elements.push_back(stacked(parts, at(type.elements(), e)));
    }
    return Literal::tuple(std::move(elements));
  }
  Literal out(type);
  auto to = out.mutable_bytes().begin();
  for (const Literal& item : items) to = std::copy(item.bytes().begin(), item.bytes().end(), to);
  return out;
}

// Applies the same function to every item.
Literal evaluate_batch(const EvalContext& context, const Dims& batch) {
  std::vector<Literal> items;
  for (std::int64_t k = 0; k < product(batch); ++k) {
    std::vector<Literal> operands;
    for (const Literal& operand : context.operands) operands.push_back(item_of(operand, isize(batch), k));
    const Digest digest = digest_of({context.view, operands, context.call});
    items.push_back(opaque_value(digest.exact, without_batch(context.view.result, isize(batch)), digest.smooth));
  }
  return stacked(items, context.view.result);
}

Literal evaluate_custom_call(const EvalContext& context) {
  const Type& result = context.view.result;
  if (is_identity_custom_call(context.view)) return context.operands[0];
  if (const auto top = top_k_of(context.view)) return top_k(context.operands[0], top->k, top->largest, result);
  if (is_manual_border(context.view)) {
    require(result == context.view.operands[0],
            "{} from {} to {} can be evaluated only on all devices together, or in the partitioned program, where it "
            "is the identity",
            target(context.view), context.view.operands[0], result);
    return context.operands[0];
  }
  if (const auto rule = rule_of(context.view)) return evaluate_sharding_rule(*rule, context);
  if (const Dims batch = batch_of(context.view); !batch.empty()) return evaluate_batch(context, batch);
  const Digest digest = digest_of(context);
  return opaque_value(digest.exact, result, digest.smooth);
}

// ---- factors_custom_call, localize ---------------------------------------------------------------------------------------------

// A dim sharded into k parts has k parts of its local size, if it is divisible.
FactorMap border_factors(const OpView& view) {
  FactorMap map;
  const bool enters = border_of(target(view)) == ManualBorder::kEnter;
  const Type& global = enters ? view.operands[0] : view.result;
  const Type& local = enters ? view.result : view.operands[0];
  TensorFactors global_factors;
  TensorFactors local_factors;
  for (int d = 0; d < global.ndim(); ++d) {
    if (global.dim(d) == local.dim(d)) {
      local_factors.push_back({map.add(local.dim(d))});
      global_factors.push_back(local_factors.back());
    } else if (local.dim(d) > 0 && global.dim(d) % local.dim(d) == 0) {
      local_factors.push_back({map.add(local.dim(d))});
      global_factors.push_back({map.add(global.dim(d) / local.dim(d)), local_factors.back().front()});
    } else {
      local_factors.push_back({map.add(local.dim(d), FactorKind::kBlocked)});
      global_factors.push_back({map.add(global.dim(d), FactorKind::kBlocked)});
    }
  }
  map.operands = {enters ? global_factors : local_factors};
  map.results = {enters ? local_factors : global_factors};
  return map;
}

FactorMap factors_custom_call(const OpView& view) {
  if (is_identity_custom_call(view)) return leafwise_factors(view);
  if (top_k_of(view)) return top_k_factors(view);
  if (is_manual_border(view) && view.operands.size() == 1) return border_factors(view);
  if (const auto rule = rule_of(view)) return rule->map;
  FactorMap map;
  std::vector<int> shared;
  for (const std::int64_t size : batch_of(view)) shared.push_back(map.add(size));
  const auto add = [&](std::vector<TensorFactors>& side, const Type& leaf) {
    side.push_back(add_factors(map, leaf, FactorKind::kBlocked));
    for (int d = 0; d < isize(shared); ++d) at(side.back(), d) = {at(shared, d)};
  };
  for (const Type& operand : view.operands)
    for (const Type& leaf : operand.leaves()) add(map.operands, leaf);
  for (const Type& leaf : view.result.leaves()) add(map.results, leaf);
  return map;
}

Linearity linearity_custom_call(const OpView& view, int) {
  return is_identity_custom_call(view) ? Linearity::kAny : Linearity::kNone;
}

// XLA compares the requested layouts with the operands' types.
void localize_layouts(LocalizeContext& context) {
  if (context.notes == nullptr) return;
  std::vector<std::string> types;
  for (const Value& operand : context.operands) types.push_back(operand.type().str(true));
  Notes notes = *context.notes;
  for (TextAttribute& attribute : notes.other)
    if (attribute.name == "operand_layout_constraints") attribute.text = fmt::format("{{{}}}", fmt::join(types, ", "));
  context.notes = std::make_shared<const Notes>(std::move(notes));
}

Value localize_custom_call(LocalizeContext& context) {
  if (is_identity_custom_call(context.view)) return context.operands[0];
  localize_layouts(context);
  const auto rule = rule_of(context.view);
  if (!rule) return localize_declared(context);
  auto attributes = context.view.as<CustomCallAttributes>();
  std::vector<Type> operands;
  for (const Value& operand : context.operands) operands.push_back(operand.type());
  attributes.sharding_rule = with_local_sizes(*rule, operands, context.local_results).str();
  return emit_local(context, context.operands, make_attributes(std::move(attributes)));
}

// ---- gradient ------------------------------------------------------------------------------------------------------

std::vector<Value> gradient_custom_call(GradientContext& context) {
  if (names_identity(target(context.view))) return {context.d_result()};
  if (is_manual_border(context.view)) return border_gradient(context);
  require(is_sharding(context.view), "custom-call \"{}\" has no gradient", target(context.view));
  const std::string* text = context.result.instruction().frontend_attribute("tessera.gradient_sharding");
  if (text == nullptr) return {context.d_result()};
  std::vector<Mesh> meshes = context.builder.program().program().meshes;
  if (const ShardingRef& own = context.result.instruction().sharding; own && !own->empty())
    meshes.push_back(own->front().mesh);
  const auto leaves = parse_sdy_shardings(*text, meshes);
  require(leaves.size() == 1, "tessera.gradient_sharding must hold one sharding, got {}: {}", leaves.size(), *text);
  return {ops::sharding_mark(context.d_result(), leaves.front())};
}

}  // namespace

Literal opaque_value(std::size_t seed, const Type& type, double smooth) {
  std::size_t next = 0;
  return filled(seed, smooth, type, next);
}

const OpDef kCustomCall = {.name = "custom-call",
                           .max_operands = -1,
                           .role = Role::kShardingMark,
                           .side_effect = side_effect,
                           .called = {"called_computations", "to_apply"},
                           .parse = parse_attributes<CustomCallAttributes>,
                           .infer = infer_custom_call,
                           .type_inferable = false,
                           .evaluate = evaluate_custom_call,
                           .gradient_kind = GradientKind::kFunction,
                           .gradient = gradient_custom_call,
                           .factors = factors_custom_call,
                           .linearity = linearity_custom_call,
                           .localize = localize_custom_call,
                           .flops = no_flops};

}  // namespace rows

bool is_sharding_mark(const Instruction& instruction) {
  return instruction.op == &rows::kCustomCall &&
         rows::names_sharding(attributes_as<CustomCallAttributes>(instruction.attributes).target);
}
bool is_sharding_barrier(const Instruction& instruction) {
  return instruction.op == &rows::kCustomCall &&
         rows::names_barrier(attributes_as<CustomCallAttributes>(instruction.attributes).target);
}
ManualBorder manual_border(const Instruction& instruction) {
  if (instruction.op != &rows::kCustomCall) return ManualBorder::kNone;
  return rows::border_of(attributes_as<CustomCallAttributes>(instruction.attributes).target);
}
bool is_identity_call(const OpView& view) {
  if (&view.op != &rows::kCustomCall || view.operands.size() != 1) return false;
  const bool is_known = rows::is_identity_custom_call(view) || rows::is_manual_border(view);
  return is_known && view.operands.front() == view.result;
}

namespace ops {

Value custom_call(Builder& builder, std::string target, const std::vector<Value>& operands, Type type) {
  return builder.emit(rows::kCustomCall, operands, make_attributes(CustomCallAttributes{std::move(target), false}),
                      {.type = std::move(type)});
}

Value sharding_mark(Value x, Sharding sharding) {
  return x.builder->emit(rows::kCustomCall, {x}, make_attributes(CustomCallAttributes{"Sharding", false}),
                         {.type = x.type(), .sharding = make_sharding(std::move(sharding)), .name = "sharding"});
}
Value sharding_barrier(Value x, Sharding sharding) {
  const Value out = sharding_mark(x, std::move(sharding));
  x.builder->set_notes(out, with_frontend_attribute(out.instruction().notes, kBarrierAttribute, "true"));
  return out;
}

}  // namespace ops
std::optional<std::string> sharding_group(const Instruction& instruction) {
  const auto* number = instruction.frontend_attribute("xla.sdy.sharding_group_id");
  if (instruction.op != &rows::kCustomCall || number == nullptr ||
      !rows::names_group(attributes_as<CustomCallAttributes>(instruction.attributes).target))
    return std::nullopt;
  return *number;
}

std::vector<std::string> unknown_custom_calls(const Program& program) {
  std::set<std::string> seen;
  std::vector<std::string> out;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions) {
      if (instruction.op != &rows::kCustomCall) continue;
      const OpView view = view_of(program, *computation, instruction);
      const bool is_known = rows::is_identity_custom_call(view) || rows::is_manual_border(view) ||
                            top_k_of(view).has_value() || rows::names_group(rows::target(view));
      if (!is_known && seen.insert(rows::target(view)).second)
        out.push_back(fmt::format("\"{}\" (%{})", rows::target(view), instruction.name));
    }
  return out;
}

}  // namespace tessera
