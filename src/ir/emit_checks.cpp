// SPDX-License-Identifier: Apache-2.0
#include "emit_checks.h"

#include <charconv>
#include "tessera/base/text.h"

namespace tessera {
namespace {

void check_ref(const Sharding& sharding, const AxisRef& ref) {
  if (ref.axis < 0 || ref.axis >= sharding.mesh.axis_count())
    fail("axis number {} is not one of {}", ref.axis, sharding.mesh.str());
  const auto axis_size = at(sharding.mesh.axes(), ref.axis).size;
  if (ref.pre < 1 || ref.size < 1 || ref.pre > axis_size || ref.size > axis_size ||
      axis_size % (ref.pre * ref.size) != 0)
    fail("{} is not a part of {}", sharding.mesh.axis_text(ref), sharding.mesh.str());
}

void check_axes(const Sharding& sharding) {
  const auto used = sharding.used_axes();
  for (std::size_t i = 0; i < used.size(); ++i) {
    check_ref(sharding, used[i]);
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = used[i].axis != used[j].axis || used[i].pre >= used[j].pre * used[j].size ||
                         used[j].pre >= used[i].pre * used[i].size;
      if (!apart)
        fail("sharding {} uses axis \"{}\" twice", sharding.str(), at(sharding.mesh.axes(), used[i].axis).name);
    }
  }
}

}  // namespace

void check_arity(const OpDef& op, int count) {
  if (op.max_operands < 0) {
    require(count >= op.min_operands, "needs at least {} operands, got {}", op.min_operands, count);
  } else if (op.min_operands == op.max_operands) {
    require(count == op.min_operands, "takes {} operand{}, got {}", op.min_operands, op.min_operands == 1 ? "" : "s",
            count);
  } else {
    require(count >= op.min_operands && count <= op.max_operands, "takes {} to {} operands, got {}", op.min_operands,
            op.max_operands, count);
  }
}

std::int64_t parameter_number(const Instruction& parameter) {
  std::int64_t number = 0;
  const auto texts = parameter.attributes ? parameter.attributes->texts() : std::vector<TextAttribute>{};
  for (const auto& attribute : texts)
    if (attribute.name == "number")
      std::from_chars(attribute.text.data(), attribute.text.data() + attribute.text.size(), number);
  return number;
}

std::vector<std::string> operand_lines(const std::vector<const Instruction*>& operands) {
  std::vector<std::string> lines;
  for (int i = 0; i < isize(operands); ++i) {
    const Instruction& operand = *at(operands, i);
    const std::string label = operands.size() != 2 ? fmt::format("#{}", i) : i == 0 ? "lhs" : "rhs";
    std::string line = fmt::format("  {:<4} %{}: {}", label, operand.name, operand.type.str());
    if (operand.sharding && operand.sharding->size() == 1) line += " " + operand.sharding->front().str();
    if (const auto source = operand.source(); !source.empty()) line += "    " + source;
    lines.push_back(std::move(line));
  }
  return lines;
}

void check_shardings(const Type& type, const Shardings& leaves) {
  const auto types = type.leaves();
  if (types.size() != leaves.size())
    fail("{} shardings for the {} leaves of {}", leaves.size(), types.size(), type.str());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].is_tiled()) continue;
    const int ndim = types[i].is_array() ? types[i].ndim() : 0;
    if (leaves[i].ndim() != ndim)
      fail("sharding {} has {} dim{}, {} has {}", leaves[i].str(), leaves[i].ndim(), leaves[i].ndim() == 1 ? "" : "s",
           types[i].str(), ndim);
    check_axes(leaves[i]);
  }
}

}  // namespace tessera
