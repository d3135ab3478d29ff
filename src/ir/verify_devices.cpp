// SPDX-License-Identifier: Apache-2.0
#include "verify_devices.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

// replica_groups={{0,9},{1,3}}
std::string attribute_text(const Attributes& attributes, std::string_view name) {
  for (const TextAttribute& attribute : attributes->texts())
    if (attribute.name == name) return fmt::format("{}={}", name, attribute.text);
  return std::string(name);
}

}  // namespace

void check_devices(const Program& program, const Instruction& collective) {
  const std::int64_t devices = (Checked(program.num_partitions) * program.replica_count).value_or_most();
  if (devices == 1 || collective.op->listed_devices == nullptr || !collective.attributes) return;
  const ListedDevices listed = collective.op->listed_devices(collective.attributes);
  const auto wrong = std::find_if(listed.devices.begin(), listed.devices.end(),
                                  [&](std::int64_t device) { return device < 0 || device >= devices; });
  if (wrong == listed.devices.end()) return;
  fail("{} %{} names device {} in {}, but the program is for {} devices, numbered from 0", collective.op->name,
       collective.name, *wrong, attribute_text(collective.attributes, listed.attribute), devices);
}

void check_devices_of_collectives(const Program& program) {
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions) check_devices(program, instruction);
}

}  // namespace tessera
