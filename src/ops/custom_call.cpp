// SPDX-License-Identifier: Apache-2.0
// custom-call. Known targets: Sharding (the identity, with a sharding that binds), SPMDFullToShardShape and
// SPMDShardToFullShape (the borders of manual regions). Any other target evaluates as a deterministic function of its
// operands,
// so that programs that hold one can still be checked: continuous in float operands, exact in integers, within [-1, 1].
#include <bit>
#include <cmath>

#include "row_support.h"
#include "rows.h"
#include "tessera/autodiff/gradient_context.h"
#include "tessera/ops/control_flow.h"
#include "tessera/sharding/hlo_sharding.h"

namespace tessera {
namespace rows {
namespace {

const std::string& target(const OpView& view) { return view.as<CustomCallAttributes>().target; }
bool names_sharding(const std::string& target) { return target == "Sharding"; }
bool names_border(const std::string& target) {
  return target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape";
}
bool is_sharding(const OpView& view) { return names_sharding(target(view)); }
bool is_manual_border(const OpView& view) { return names_border(target(view)); }

bool side_effect(const Attributes& attributes) {
  return attributes_as<CustomCallAttributes>(attributes).has_side_effect;
}

Type infer(const OpView& view) {
  if (is_sharding(view) || is_manual_border(view))
    require(view.operands.size() == 1, "{} takes 1 operand, got {}", target(view), view.operands.size());
  const bool is_declared = !(view.result == Type());
  if (is_sharding(view)) {
    require(!is_declared || view.result == view.operands[0], "Sharding returns its operand's type {}, not {}",
            view.operands[0], view.result);
    return is_declared ? view.result : view.operands[0];
  }
  if (is_manual_border(view)) {
    const bool same_kind = view.result.is_array() && view.operands[0].is_array() &&
                           view.result.dtype() == view.operands[0].dtype() &&
                           view.result.ndim() == view.operands[0].ndim();
    require(same_kind, "{} changes sizes only: {} cannot become {}", target(view), view.operands[0], view.result);
  }
  return view.result;
}

// ---- unknown targets -----------------------------------------------------------------------------------------------

// In [-1, 1), from the bits of a hash.
double unit_from(std::size_t hash) {
  return static_cast<double>(static_cast<std::int64_t>(hash)) / 9223372036854775808.0;
}

struct Digest {
  std::size_t exact = 0;  // of target and integer operands
  double smooth = 0;      // of float operands: moves little when they do
};

Digest digest_of(const EvalContext& context) {
  Digest out{hash_text(target(context.view)), 0};
  std::size_t position = 0;
  for (const Literal& operand : context.operands) {
    for (const Literal& leaf : operand.leaves()) {
      if (!leaf.type().is_array()) continue;
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

Literal hashed(const Digest& digest, const Type& type, std::size_t& next) {
  if (type.is_tuple()) {
    std::vector<Literal> elements;
    for (const Type& element : type.elements()) elements.push_back(hashed(digest, element, next));
    return Literal::tuple(std::move(elements));
  }
  Literal out(type);
  if (!type.is_array()) return out;
  visit_dtype(type.dtype(), [&]<class T>() {
    for (T& value : out.mutable_data<T>()) {
      const std::size_t seed = hash_mix(digest.exact, next++);
      const double phase = 3.141592653589793 * unit_from(seed);
      if constexpr (is_float(kDTypeOf<T>))
        value = static_cast<T>(std::sin(phase + digest.smooth));
      else if constexpr (kDTypeOf<T> == DType::kPred)
        value = (seed & 1) != 0;
      else
        value = static_cast<T>(seed % 100);
    }
  });
  return out;
}

Literal evaluate(const EvalContext& context) {
  const Type& result = context.view.result;
  if (is_sharding(context.view)) return context.operands[0];
  if (is_manual_border(context.view)) {
    require(result == context.view.operands[0],
            "{} from {} to {} has a value only in the partitioned program, where it is the identity",
            target(context.view), context.view.operands[0], result);
    return context.operands[0];
  }
  std::size_t next = 0;
  return hashed(digest_of(context), result, next);
}

// ---- factors, localize ---------------------------------------------------------------------------------------------

FactorMap factors(const OpView& view) {
  if (is_sharding(view)) return leafwise_factors(view);
  FactorMap map;
  for (const Type& operand : view.operands)
    for (const Type& leaf : operand.leaves()) map.operands.push_back(add_factors(map, leaf, FactorKind::kBlocked));
  for (const Type& leaf : view.result.leaves()) map.results.push_back(add_factors(map, leaf, FactorKind::kBlocked));
  return map;
}

Linearity linearity(const OpView& view, int) { return is_sharding(view) ? Linearity::kAny : Linearity::kNone; }

Type local_type(const LocalizeContext& context) {
  if (!context.view.result.is_tuple()) return context.local_result();
  return context.view.result;  // whole, for every leaf is blocked
}

Value localize(LocalizeContext& context) {
  if (is_sharding(context.view)) return context.operands[0];
  return context.builder.emit(context.view.op, context.operands, context.view.attributes,
                              {.type = local_type(context), .called = context.called, .notes = context.notes});
}

// ---- gradient ------------------------------------------------------------------------------------------------------

std::vector<Value> gradient(GradientContext& context) {
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

const OpDef kCustomCall = {.name = "custom-call",
                           .max_operands = -1,
                           .role = Role::kShardingMark,
                           .side_effect = side_effect,
                           .called = {"called_computations", "to_apply"},
                           .parse = parse_attributes<CustomCallAttributes>,
                           .infer = infer,
                           .type_inferable = false,
                           .evaluate = evaluate,
                           .gradient_kind = GradientKind::kFunction,
                           .gradient = gradient,
                           .factors = factors,
                           .linearity = linearity,
                           .localize = localize,
                           .flops = no_flops};

}  // namespace rows

bool is_sharding_mark(const Instruction& instruction) {
  return instruction.op == &rows::kCustomCall &&
         rows::names_sharding(attributes_as<CustomCallAttributes>(instruction.attributes).target);
}
bool is_manual_border(const Instruction& instruction) {
  return instruction.op == &rows::kCustomCall &&
         rows::names_border(attributes_as<CustomCallAttributes>(instruction.attributes).target);
}
bool is_identity_call(const OpView& view) {
  const bool is_known = &view.op == &rows::kCustomCall && (rows::is_sharding(view) || rows::is_manual_border(view));
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

}  // namespace ops
}  // namespace tessera
