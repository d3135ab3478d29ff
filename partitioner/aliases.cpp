// SPDX-License-Identifier: Apache-2.0
#include "aliases.h"

#include "tessera/base/text.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

// One side of an alias.
struct Side {
  Type type;
  const Sharding* sharding = nullptr;
};

Side side_of(const Instruction& instruction, const Dims& path) {
  const int leaf = instruction.type.leaf_index(path);
  return {at(instruction.type.leaves(), leaf), instruction.sharding ? &at(*instruction.sharding, leaf) : nullptr};
}

Side donor_of(const Computation& entry, const Alias& alias) {
  return side_of(entry[at(entry.parameters, alias.parameter)], alias.parameter_index);
}

}  // namespace

const Sharding* sharding_of_donor(const Program& program, int leaf) {
  const Computation& entry = program.entry_computation();
  for (const auto& alias : program.aliases) {
    if (entry.root_type().leaf_index(alias.output) != leaf) continue;
    const Side donor = donor_of(entry, alias);
    return donor.type == at(entry.root_type().leaves(), leaf) ? donor.sharding : nullptr;
  }
  return nullptr;
}

std::vector<Alias> aliases_of_shards(const Program& program) {
  const Computation& entry = program.entry_computation();
  std::vector<Alias> out;
  for (const auto& alias : program.aliases) {
    const Side result = side_of(entry[entry.root], alias.output);
    const Side donor = donor_of(entry, alias);
    const bool fits = shard_type(result.type, *result.sharding) == shard_type(donor.type, *donor.sharding);
    require(
        fits || !alias.must,
        "result {{{}}} must take the memory of parameter {}, but a device holds {} of the one, {} of the other: the "
        "result is {}, the parameter {}; give both the same sharding",
        [&] { return join(alias.output, ","); }, alias.parameter,
        [&] { return shard_type(result.type, *result.sharding).str(); },
        [&] { return shard_type(donor.type, *donor.sharding).str(); }, *result.sharding, *donor.sharding);
    if (fits) out.push_back(alias);
  }
  return out;
}

}  // namespace tessera
