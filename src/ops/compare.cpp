// SPDX-License-Identifier: Apache-2.0
//   %p = pred[4] compare(%a, %b), direction=LT
#include <bit>

#include "elementwise_support.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"

namespace tessera {
namespace {

constexpr EnumWord<CompareDirection> kDirections[] = {{CompareDirection::kEq, "EQ"}, {CompareDirection::kNe, "NE"},
                                                      {CompareDirection::kLt, "LT"}, {CompareDirection::kLe, "LE"},
                                                      {CompareDirection::kGt, "GT"}, {CompareDirection::kGe, "GE"}};
constexpr EnumWord<CompareType> kTypes[] = {{CompareType::kDefault, "DEFAULT"},
                                            {CompareType::kFloat, "FLOAT"},
                                            {CompareType::kTotalOrder, "TOTALORDER"},
                                            {CompareType::kSigned, "SIGNED"},
                                            {CompareType::kUnsigned, "UNSIGNED"}};

}  // namespace

std::string field_text(CompareDirection value) { return enum_text(kDirections, value); }
std::string field_text(CompareType value) { return enum_text(kTypes, value); }
void parse_field(std::string_view text, CompareDirection& value) { value = enum_value(kDirections, text); }
void parse_field(std::string_view text, CompareType& value) { value = enum_value(kTypes, text); }

namespace rows {
namespace {

Type infer_compare(const OpView& view) {
  check_same_arrays(view);
  const Type& lhs = view.operands[0];
  const auto& attributes = view.as<CompareAttributes>();
  const CompareType type = attributes.type;
  const DType t = lhs.dtype();
  const bool fits = type == CompareType::kDefault || (type == CompareType::kSigned && is_signed_int(t)) ||
                    (type == CompareType::kUnsigned && (is_unsigned_int(t) || t == DType::kPred)) ||
                    ((type == CompareType::kFloat || type == CompareType::kTotalOrder) && is_float(t)) ||
                    (type == CompareType::kFloat && is_complex(t));
  require(!is_complex(t) ||
              ((attributes.direction == CompareDirection::kEq || attributes.direction == CompareDirection::kNe)),
          "complex elements have no order: direction={} must be EQ or NE", field_text(attributes.direction));
  if (!fits) fail("type={} does not fit operands of type {}", field_text(type), dtype_name(t));
  return declared_or(view, lhs.with_dtype(DType::kPred));
}

Literal evaluate_compare(const EvalContext& context) {
  if (has_narrow(context)) return evaluate_widened(context, evaluate_compare);
  const auto& attributes = context.view.as<CompareAttributes>();
  const bool total = attributes.type == CompareType::kTotalOrder;
  Literal out(context.view.result);
  auto to = out.mutable_data<bool>();
  visit_any_dtype(context.operands[0].type().dtype(), [&]<class T>() {
    const auto lhs = context.operands[0].data<T>();
    const auto rhs = context.operands[1].data<T>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      if constexpr (is_complex(kDTypeOf<T>)) {
        to[i] = (lhs[i] == rhs[i]) == (attributes.direction == CompareDirection::kEq);
      } else if constexpr (is_float(kDTypeOf<T>)) {
        const auto a = static_cast<double>(lhs[i]);
        const auto b = static_cast<double>(rhs[i]);
        to[i] = total ? holds(attributes.direction, total_order_key(a), total_order_key(b))
                      : holds(attributes.direction, a, b);
      } else {
        to[i] = holds(attributes.direction, lhs[i], rhs[i]);
      }
    }
  });
  return out;
}

}  // namespace

const OpDef kCompare{
    .name = "compare",
    .min_operands = 2,
    .max_operands = 2,
    .elementwise = true,
    .inexpensive = true,
    .parse = parse_attributes<CompareAttributes>,
    .infer = infer_compare,
    .evaluate = evaluate_compare,
    .gradient_kind = GradientKind::kZero,
    .factors = elementwise_factors,
};

}  // namespace rows

Value ops::compare(Value lhs, Value rhs, CompareDirection direction, CompareType type) {
  return lhs.builder->emit(rows::kCompare, {lhs, rhs}, make_attributes(CompareAttributes{direction, type}));
}

}  // namespace tessera
