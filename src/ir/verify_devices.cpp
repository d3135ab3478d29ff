// SPDX-License-Identifier: Apache-2.0
#include "verify_devices.h"

#include <algorithm>
#include <charconv>

#include "tessera/base/checked.h"
#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers numbers_in(std::string_view text) {
  Numbers out;
  for (auto from = text.find_first_of("-0123456789"); from != std::string_view::npos;
       from = text.find_first_of("-0123456789")) {
    text.remove_prefix(from);
    std::int64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(std::max<std::size_t>(1, static_cast<std::size_t>(read.ptr - text.data())));
    out.push_back(number);
  }
  return out;
}

// The devices in `{{0,1},{2,3}}`; of `[2,2]<=[4]`, which names all devices from 0 on, only the last.
Numbers devices_in(std::string_view text) {
  if (!text.starts_with('[')) return numbers_in(text);
  Checked count = 1;
  for (const std::int64_t size : numbers_in(text.substr(0, text.find(']')))) count *= size;
  return {count.value_or_most() - 1};
}

}  // namespace

void check_devices(const Program& program, const Instruction& collective) {
  const std::int64_t devices = (Checked(program.num_partitions) * program.replica_count).value_or_most();
  if (devices == 1 || collective.op->role != Role::kCollective || !collective.attributes) return;
  // The types of attributes belong to the ops, so this reads the text that every program has.
  for (const TextAttribute& attribute : collective.attributes->texts()) {
    if (attribute.name != "replica_groups" && attribute.name != "source_target_pairs") continue;
    for (const std::int64_t device : devices_in(attribute.text))
      require(device >= 0 && device < devices,
              "{} %{} names device {} in {}={}, but the program is for {} devices, "
              "numbered from 0",
              collective.op->name, collective.name, device, attribute.name, attribute.text, devices);
  }
}

void check_devices_of_collectives(const Program& program) {
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions) check_devices(program, instruction);
}

}  // namespace tessera
