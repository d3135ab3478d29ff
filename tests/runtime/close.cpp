// SPDX-License-Identifier: Apache-2.0
#include "close.h"

#include <cmath>
#include <random>

#include "tessera/base/instruction_set.h"
#include "tessera/base/options.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"

namespace tessera::testing {
namespace {

double rounding(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 0x1p-52;
    case DType::kF32: return 0x1p-23;
    case DType::kF16: return 0x1p-10;
    case DType::kBF16: return 0x1p-7;
    default: return 0;
  }
}

}  // namespace

::testing::AssertionResult close(const Literal& got, const Literal& expected, double units) {
  if (!(got.type() == expected.type()))
    return ::testing::AssertionFailure() << "types " << got.type().str() << " and " << expected.type().str();
  const auto got_leaves = got.leaves();
  const auto expected_leaves = expected.leaves();
  for (std::size_t leaf = 0; leaf < got_leaves.size(); ++leaf) {
    const Literal& a = got_leaves[leaf];
    const Literal& b = expected_leaves[leaf];
    if (!a.type().is_array() || a == b) continue;
    const double step = rounding(a.type().dtype());
    for (std::int64_t i = 0; i < a.type().element_count(); ++i) {
      const double x = element_as_double(a, i);
      const double y = element_as_double(b, i);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (step == 0 || !(std::fabs(x - y) <= units * step * std::max(1.0, std::fabs(y))))
        return ::testing::AssertionFailure()
               << "leaf " << leaf << " element " << i << " of " << a.type().str() << ": " << x << " instead of " << y;
    }
  }
  return ::testing::AssertionSuccess();
}

Literal random_literal(const Type& type, unsigned seed, double low, double high) {
  if (type.is_tuple()) {
    std::vector<Literal> elements;
    for (const Type& element : type.elements()) elements.push_back(random_literal(element, ++seed, low, high));
    return Literal::tuple(std::move(elements));
  }
  Literal out(type);
  if (!type.is_array()) return out;
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(low, high);
  visit_dtype(type.dtype(), [&]<class T>() {
    for (T& element : out.mutable_data<T>()) {
      const double value = draw(random);
      if constexpr (kDTypeOf<T> == DType::kPred)
        element = value > 0;
      else if constexpr (is_float(kDTypeOf<T>))
        element = static_cast<T>(value);
      else
        element = static_cast<T>(static_cast<std::int64_t>(std::floor(value * 4)));
    }
  });
  return out;
}

std::vector<Literal> random_arguments(const Program& program, unsigned seed) {
  std::vector<Literal> out;
  for (const Type& type : program.entry_computation().parameter_types())
    out.push_back(random_literal(type, seed += 17));
  return out;
}

Program read(const std::string& text) { return parse_program(text, op_table()); }

Program program_of(const std::vector<Type>& types, const Body& body) {
  ProgramBuilder program("test");
  Builder main = program.computation("main");
  std::vector<Value> parameters;
  for (std::size_t i = 0; i < types.size(); ++i)
    parameters.push_back(ops::parameter(main, static_cast<std::int64_t>(i), types[i]));
  const Value root = body(main, parameters);
  return program.finish(program.add(std::move(main), root));
}

namespace {

void on_isas(const std::vector<std::string>& isas, const std::function<void()>& body) {
  const std::string given = options().text("TESSERA_ISA");
  for (const std::string& isa : given.empty() ? isas : std::vector{given}) {
    SCOPED_TRACE(isa);
    options().set("TESSERA_ISA", isa);
    body();
  }
  options().set("TESSERA_ISA", given);
}
std::vector<std::string> all_isas() {
  const auto best = static_cast<std::ptrdiff_t>(best_instruction_set());
  return {kInstructionSetNames.begin(), kInstructionSetNames.begin() + best + 1};
}

}  // namespace

void on_each_isa(const std::function<void()>& body) {
  std::vector<std::string> isas = all_isas();
  if (isas.size() > 3) isas = {isas[0], isas[1], isas.back()};  // the others differ in bf16 only
  on_isas(isas, body);
}
void on_all_isas(const std::function<void()>& body) { on_isas(all_isas(), body); }

}  // namespace tessera::testing
