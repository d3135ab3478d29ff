// SPDX-License-Identifier: Apache-2.0
#include "tessera/ops/elided_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tessera/ir/op_def.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

bool is_elided(const Instruction& instruction) {
  return instruction.op->role == Role::kConstant &&
         attributes_as<ConstantAttributes>(instruction.attributes).value.is_elided();
}

Literal filled(const Literal& given, const std::function<Literal(const Type&, const std::string&)>& value) {
  if (!given.is_elided()) return given;
  if (!given.type().is_tuple()) return value(given.type(), given.origins().front());
  std::vector<Literal> elements;
  for (const Literal& element : given.elements()) elements.push_back(filled(element, value));
  return Literal::tuple(std::move(elements));
}

}  // namespace

bool has_elided_constants(const Computation& computation) {
  return std::any_of(computation.instructions.begin(), computation.instructions.end(), is_elided);
}

bool has_elided_constants(const Program& program) {
  return std::any_of(program.computations.begin(), program.computations.end(),
                     [](const ComputationRef& computation) { return has_elided_constants(*computation); });
}

bool has_elided_constants(const Program& program, ComputationId id) {
  const auto& all = program[id].instructions;
  return has_elided_constants(program[id]) || std::any_of(all.begin(), all.end(), [&](const Instruction& instruction) {
           return std::any_of(instruction.called.begin(), instruction.called.end(),
                              [&](ComputationId callee) { return has_elided_constants(program, callee); });
         });
}

std::vector<std::string> elided_constants(const Program& program) {
  std::vector<std::string> out;
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      if (is_elided(instruction)) out.push_back(fmt::format("%{} of %{}", instruction.name, computation->name));
  return out;
}

std::string elided_constants_text(const Program& program) {
  auto names = elided_constants(program);
  constexpr std::size_t kMostNames = 5;
  const std::size_t rest = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - rest);
  return fmt::format("{}{}", fmt::join(names, ", "), rest > 0 ? fmt::format(" and {} more", rest) : "");
}

void refuse_elided_constants(const Program& program, std::string_view purpose) {
  require(!has_elided_constants(program),
          "{} cannot {}: its text leaves out the elements of constants, {{...}}: {}. Dump the module again with all "
          "elements. JAX: jax.jit(f).lower(x).compiler_ir(\"hlo\").as_hlo_text(print_large_constants=True). "
          "PyTorch/XLA: run the script with XLA_FLAGS=\"--xla_dump_to=DIR --xla_dump_hlo_as_text "
          "--xla_dump_large_constants=true\" and take DIR/*.before_optimizations.txt",
          program.name, purpose, [&] { return elided_constants_text(program); });
}

Program with_elided_constants(const Program& program,
                              const std::function<Literal(const Type& type, const std::string& origin)>& value) {
  Program out = program;
  for (auto& ref : out.computations) {
    if (!has_elided_constants(*ref)) continue;
    auto computation = std::make_shared<Computation>(*ref);
    for (Instruction& instruction : computation->instructions)
      if (is_elided(instruction))
        instruction.attributes = make_attributes(
            ConstantAttributes{filled(attributes_as<ConstantAttributes>(instruction.attributes).value, value)});
    ref = std::move(computation);
  }
  return out;
}

}  // namespace tessera
