// SPDX-License-Identifier: Apache-2.0
#include "elementwise_support.h"

#include <fmt/format.h>

#include "tessera/tensor/narrow_dtype.h"

namespace tessera::rows {
namespace {

// Text such as "floating-point and integer": the classes that an op takes.
template <class Scalar>
std::string classes(const Scalar& scalar) {
  std::vector<std::string> names;
  if (scalar.real != nullptr) names.emplace_back("floating-point");
  if (scalar.integer != nullptr) names.emplace_back("integer");
  if (scalar.integer == nullptr && scalar.natural != nullptr) names.emplace_back("unsigned");
  if (scalar.pred != nullptr) names.emplace_back("pred");
  if (scalar.complex != nullptr) names.emplace_back("complex");
  return fmt::format("{}", fmt::join(names, " or "));
}

template <class Scalar>
void check_class(const Scalar& scalar, const Type& type) {
  const DType t = type.dtype();
  const bool taken = is_narrow(t)         ? true
                     : is_complex(t)      ? scalar.complex != nullptr
                     : is_float(t)        ? scalar.real != nullptr
                     : t == DType::kPred  ? scalar.pred != nullptr
                     : is_unsigned_int(t) ? scalar.natural != nullptr || scalar.integer != nullptr
                                          : scalar.integer != nullptr;
  if (!taken) fail("takes {} elements, got {}", classes(scalar), type.str());
}

int narrow_width(DType t) {
  constexpr std::pair<DType, int> kWidths[] = {{DType::kS1, 1}, {DType::kU1, 1}, {DType::kS2, 2}, {DType::kU2, 2}};
  for (const auto& [dtype, width] : kWidths)
    if (t == dtype) return width;
  return 4;
}

// The same for types without a C++ type.
template <class Scalar, class... Operands>
Literal map_narrow(const Scalar& scalar, const Type& type, const Operands&... operands) {
  Literal out(type);
  const bool real = is_narrow_float(type.dtype());
  const bool is_signed = type.dtype() == DType::kS1 || type.dtype() == DType::kS2 || type.dtype() == DType::kS4;
  const auto integer = !is_signed && scalar.natural != nullptr ? scalar.natural : scalar.integer;
  const int width = narrow_width(type.dtype());
  require(real ? scalar.real != nullptr : integer != nullptr, "does not take {} elements", dtype_name(type.dtype()));
  for (std::int64_t i = 0; i < type.element_count(); ++i) {
    const auto code = real ? narrow_bits(type.dtype(), scalar.real(element_as_double(operands, i)...))
                           : static_cast<std::uint8_t>(low_bits(
                                 integer(static_cast<std::uint64_t>(element_as_int(operands, i))..., width), width));
    at(out.mutable_bytes(), i) = static_cast<std::byte>(code);
  }
  return out;
}

// Applies f to the elements of all operands: widens, computes, and narrows once.
template <class Scalar, class... Operands>
Literal map_elements(const Scalar& scalar, const Type& type, const Operands&... operands) {
  if (is_narrow(type.dtype())) return map_narrow(scalar, type, operands...);
  Literal out(type);
  visit_any_dtype(type.dtype(), [&]<class T>() {
    auto to = out.mutable_data<T>();
    const auto run = [&](auto&& f) {
      const auto apply = [&](const auto&... from) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = f(from[i]...);
      };
      apply(operands.template data<T>()...);
    };
    if constexpr (kDTypeOf<T> == DType::kPred) {
      run([&](auto... x) { return scalar.pred(x...); });
    } else if constexpr (is_complex(kDTypeOf<T>)) {
      run([&](auto... x) { return static_cast<T>(scalar.complex(static_cast<Complex128>(x)...)); });
    } else if constexpr (is_float(kDTypeOf<T>)) {
      run([&](auto... x) { return static_cast<T>(scalar.real(static_cast<double>(x)...)); });
    } else {
      constexpr int kBits = static_cast<int>(8 * sizeof(T));
      const bool natural = is_unsigned_int(kDTypeOf<T>) && scalar.natural != nullptr;
      const auto f = natural ? scalar.natural : scalar.integer;
      run([&](auto... x) { return static_cast<T>(f(static_cast<std::uint64_t>(x)..., kBits)); });
    }
  });
  return out;
}

}  // namespace

Type infer_unary(const OpView& view, const UnaryScalar& scalar) {
  const Type& x = array_operand(view, 0);
  check_class(scalar, x);
  return declared_or(view, x);
}
Literal evaluate_unary(const EvalContext& context, const UnaryScalar& scalar) {
  return map_elements(scalar, context.view.result, context.operands[0]);
}

void check_same_arrays(const OpView& view) {
  const Type& lhs = array_operand(view, 0);
  const Type& rhs = array_operand(view, 1);
  require(lhs.dtype() == rhs.dtype(), "element types differ: lhs is {}, rhs is {}; convert one of them",
          dtype_name(lhs.dtype()), dtype_name(rhs.dtype()));
  if (lhs.dims() != rhs.dims())
    fail("dims differ: lhs is {}, rhs is {}; broadcast is explicit", dims_text(lhs.dims()), dims_text(rhs.dims()));
}
Type infer_binary(const OpView& view, const BinaryScalar& scalar) {
  check_same_arrays(view);
  check_class(scalar, view.operands[0]);
  return declared_or(view, view.operands[0]);
}
Literal evaluate_binary(const EvalContext& context, const BinaryScalar& scalar) {
  return map_elements(scalar, context.view.result, context.operands[0], context.operands[1]);
}

}  // namespace tessera::rows
