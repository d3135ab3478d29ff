// SPDX-License-Identifier: Apache-2.0
// Ops with effects outside of the program, which run once, in program order (and in the order of their tokens).
//
//   %in = (f32[4], token[]) infeed(%token), infeed_config="…"        %t = token[] outfeed(%x, %token)
//   %s = (f32[4], u32[], token[]) send(%x, %token), channel_id=1     %t = token[] send-done(%s), channel_id=1
//   %r = (f32[4], u32[], token[]) recv(%token), channel_id=2         %d = (f32[4], token[]) recv-done(%r), channel_id=2
//   %n = f32[4] rng(%low, %high), distribution=rng_uniform
//
// Evaluation cannot know received data: it returns values that depend only on the type (and for rng on the operands),
// and every device receives the complete value.
#include "opaque_value.h"
#include "row_support.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace {
constexpr EnumWord<RngDistribution> kDistributions[] = {{RngDistribution::kUniform, "rng_uniform"},
                                                        {RngDistribution::kNormal, "rng_normal"}};
}  // namespace
std::string field_text(RngDistribution value) { return enum_text(kDistributions, value); }
void parse_field(std::string_view text, RngDistribution& value) { value = enum_value(kDistributions, trim(text)); }

namespace rows {
namespace {

bool always(const Attributes&) { return true; }

void check_token(const OpView& view, int i) {
  require(at(view.operands, i).is_token(), "operand {} must be a token, got {}", i, at(view.operands, i));
}

// A map with all dims unsharded.
FactorMap blocked(const OpView& view) {
  FactorMap map;
  for (const Type& operand : view.operands)
    for (const Type& leaf : operand.leaves()) map.operands.push_back(add_factors(map, leaf, FactorKind::kBlocked));
  for (const Type& leaf : view.result.leaves()) map.results.push_back(add_factors(map, leaf, FactorKind::kBlocked));
  return map;
}

OpDef effect(std::string_view name, int operands, Type (*infer)(const OpView&), Literal (*evaluate)(const EvalContext&),
             bool inferable) {
  return {.name = name,
          .min_operands = operands,
          .max_operands = operands,
          .side_effect = always,
          .infer = infer,
          .type_inferable = inferable,
          .evaluate = evaluate,
          .factors = blocked,
          .localize = localize_declared,
          .flops = no_flops};
}

// ---- infer ---------------------------------------------------------------------------------------------------------

Type infer_infeed(const OpView& view) {
  check_token(view, 0);
  const bool fits =
      view.result.is_tuple() && view.result.elements().size() == 2 && view.result.elements()[1].is_token();
  require(fits, "returns (data, token[]), but {} is declared", view.result);
  return view.result;
}
Type infer_outfeed(const OpView& view) {
  check_token(view, 1);
  return Type::token();
}
const Type& context_type() {
  static const Type kType = Type::scalar(DType::kU32);
  return kType;
}
Type infer_send(const OpView& view) {
  check_token(view, 1);
  return declared_or(view, Type::tuple({view.operands[0], context_type(), Type::token()}));
}
// The type (data, u32[], token[]) of a start, declared or given.
const Type& started(const Type& type) {
  const bool fits = type.is_tuple() && type.elements().size() == 3 && type.elements()[1] == context_type() &&
                    type.elements()[2].is_token();
  require(fits, "needs the tuple (data, u32[], token[]), got {}", type);
  return type;
}
Type infer_recv(const OpView& view) {
  check_token(view, 0);
  return started(view.result);
}
Type infer_send_done(const OpView& view) {
  started(view.operands[0]);
  return Type::token();
}
Type infer_recv_done(const OpView& view) {
  return declared_or(view, Type::tuple({started(view.operands[0]).elements()[0], Type::token()}));
}

// ---- evaluation ----------------------------------------------------------------------------------------------------

Literal arrived(const EvalContext& context) {
  return opaque_value(hash_text(context.view.op.name), context.view.result);
}
Literal nothing(const EvalContext& context) { return Literal(context.view.result); }
Literal evaluate_send(const EvalContext& context) {
  return Literal::tuple({context.operands[0], Literal(context_type()), Literal(Type::token())});
}
Literal evaluate_recv_done(const EvalContext& context) {
  return Literal::tuple({context.operands[0].elements()[0], Literal(Type::token())});
}

// ---- rng -----------------------------------------------------------------------------------------------------------

Type infer_rng(const OpView& view) {
  for (const int i : {0, 1})
    require(scalar_operand(view, i, "a parameter of the distribution").dtype() == declared_array(view).dtype(),
            "draws {}, but a parameter of the distribution is {}", view.result, at(view.operands, i));
  return view.result;
}

Literal evaluate_rng(const EvalContext& context) {
  const Literal unit = opaque_value(hash_mix(context.operands[0].hash(), context.operands[1].hash()),
                                    Type::array(DType::kF64, context.view.result.dims()));
  Literal out(context.view.result);
  const double low = element_as_double(context.operands[0], 0);
  const double high = element_as_double(context.operands[1], 0);
  const bool normal = context.view.as<RngAttributes>().distribution == RngDistribution::kNormal;
  visit_dtype(out.type().dtype(), [&]<class T>() {
    auto to = out.mutable_data<T>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const double drawn = unit.data<double>()[i];
      const double value = normal ? low + high * drawn : low + (high - low) * (drawn + 1) / 2;
      if constexpr (kDTypeOf<T> == DType::kPred)
        to[i] = value >= 0.5;
      else
        to[i] = static_cast<T>(value);
    }
  });
  return out;
}

}  // namespace

const OpDef kInfeed = effect("infeed", 1, infer_infeed, arrived, false);
const OpDef kOutfeed = effect("outfeed", 2, infer_outfeed, nothing, false);
const OpDef kSend = effect("send", 2, infer_send, evaluate_send, false);
const OpDef kSendDone = effect("send-done", 1, infer_send_done, nothing, false);
const OpDef kRecv = effect("recv", 1, infer_recv, arrived, false);
const OpDef kRecvDone = effect("recv-done", 1, infer_recv_done, evaluate_recv_done, false);
const OpDef kRng = [] {
  OpDef row = effect("rng", 2, infer_rng, evaluate_rng, false);
  row.parse = parse_attributes<RngAttributes>;
  return row;
}();
const OpDef kRngGetAndUpdateState = effect(
    "rng-get-and-update-state", 0, [](const OpView& view) { return declared_array(view); }, arrived, false);

}  // namespace rows
}  // namespace tessera
