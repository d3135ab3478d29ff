// SPDX-License-Identifier: Apache-2.0
#include "random/noise_result.h"

#include "tessera/base/text.h"
#include "tessera/ir/builder.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"

namespace tessera::testing {
namespace {

Value noise_over_noise(Value y) {
  Dims dims;
  for (int d = 0; d < y.type().ndim(); ++d) dims.push_back(d);
  Builder& builder = *y.builder;
  const Value three = ops::full(builder, y.type(), 3);
  const Value after = ops::reduce(ops::multiply(y, three), Reduction::kSum, dims);
  const Value before = ops::reduce(y, Reduction::kSum, dims);
  const Value noise = ops::subtract(after, ops::multiply(before, ops::full(builder, before.type(), 3)));
  return ops::divide(noise, ops::add(ops::abs(noise), ops::full(builder, noise.type(), 1e-30)));
}

bool is_several_floats(const Type& type) {
  constexpr std::int64_t kFewest = 4;
  return type.is_array() && type.dtype() == DType::kF32 && type.ndim() > 0 && type.element_count() >= kFewest;
}

}  // namespace

std::optional<Program> with_noise_result(const Program& program) {
  const Computation& entry = program.entry_computation();
  ProgramBuilder changed(program);
  Builder builder = changed.computation(entry.name + ".noise");
  for (const Instruction& instruction : entry.instructions) builder.append(instruction);
  std::vector<Value> results{builder.value(entry.root)};
  if (const Type& type = entry.root_type(); type.is_tuple()) {
    results.clear();
    for (int i = 0; i < isize(type.elements()); ++i)
      results.push_back(ops::get_tuple_element(builder.value(entry.root), i));
  }
  Value y;
  for (const Value result : results)
    if (y.is_null() && is_several_floats(result.type())) y = result;
  if (y.is_null()) return std::nullopt;
  results.push_back(noise_over_noise(y));
  const Value root = ops::tuple(builder, results);
  const ComputationId id = changed.add(std::move(builder), root);
  Program out = changed.finish(id);
  out.aliases.clear();
  return out;
}

}  // namespace tessera::testing
