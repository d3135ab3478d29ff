// SPDX-License-Identifier: Apache-2.0
// Gives constants without elements in the text, `constant({...})`, origins that distinguish them.
#include <map>
#include <memory>

#include "tessera/base/text.h"
#include "text/text_reader.h"

namespace tessera {
namespace {

// The origins in the text, or else the constant's own.
std::vector<std::string> origins_of(const TextCursor& in, const PendingElided& elided, const Computation& computation) {
  const Instruction& constant = computation[elided.instruction];
  if (elided.origins.empty()) return own_origins(computation, constant);
  auto given = split(elided.origins, ',');
  const auto now = elided.value.origins();
  const bool fits = std::equal(given.begin(), given.end(), now.begin(), now.end(),
                               [](const auto& a, const auto& b) { return a.empty() == b.empty(); });
  if (!fits)
    in.fail_at(elided.position, fmt::format("{}=\"{}\" does not match the elided leaves of {}: give one name for each "
                                            "elided leaf and nothing for the others, separated by commas",
                                            kElidedKey, elided.origins, constant.type.str()));
  return given;
}

}  // namespace

std::vector<std::string> own_origins(const Computation& computation, const Instruction& constant) {
  const std::string name = fmt::format("{}/{}", computation.name, constant.name);
  if (!constant.type.is_tuple()) return {name};
  std::vector<std::string> out;
  for (int leaf = 0; leaf < constant.type.leaf_count(); ++leaf) out.push_back(fmt::format("{}:{}", name, leaf));
  return out;
}

void name_elided_constants(ModuleState& state) {
  std::map<ComputationId, std::shared_ptr<Computation>> changed;
  for (const PendingElided& elided : state.elided) {
    auto& computation = changed[elided.computation];
    if (!computation) computation = std::make_shared<Computation>(*at(state.program.computations, elided.computation));
    const Literal value = elided.value.with_origins(origins_of(state.in, elided, *computation));
    Instruction& constant = at(computation->instructions, elided.instruction);
    AttributeReader reader({});
    reader.literal = &value;
    constant.attributes = constant.op->parse(reader);
  }
  for (auto& [id, computation] : changed) at(state.program.computations, id) = std::move(computation);
}

}  // namespace tessera
