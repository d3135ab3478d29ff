// SPDX-License-Identifier: Apache-2.0
#include "pipeline/aliases.h"

#include <fmt/format.h>

#include "tessera/base/text.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

// One side of an alias.
struct Side {
  Type type;
  const Sharding* sharding = nullptr;
};

// The side for those `leaves` of the instruction's type that are below `path`.
Side side_of(const Instruction& instruction, const std::vector<Type>& leaves, const Dims& path) {
  const int leaf = instruction.type.leaf_index(path);
  return {at(leaves, leaf), instruction.sharding ? &at(*instruction.sharding, leaf) : nullptr};
}

Side donor_of(const Computation& entry, const Alias& alias) {
  const Instruction& parameter = entry[at(entry.parameters, alias.parameter)];
  return side_of(parameter, parameter.type.leaves(), alias.parameter_index);
}

}  // namespace

std::vector<const Sharding*> shardings_of_donors(const Program& program) {
  const Computation& entry = program.entry_computation();
  const std::vector<Type> leaves = entry.root_type().leaves();
  std::vector<const Sharding*> out(leaves.size(), nullptr);
  for (const auto& alias : program.aliases) {
    const int leaf = entry.root_type().leaf_index(alias.output);
    const Side donor = donor_of(entry, alias);
    if (donor.type == at(leaves, leaf)) at(out, leaf) = donor.sharding;
  }
  return out;
}

std::vector<Alias> aliases_of_shards(const Program& program) {
  const Computation& entry = program.entry_computation();
  const std::vector<Type> leaves = entry.root_type().leaves();
  std::vector<Alias> out;
  for (const auto& alias : program.aliases) {
    const Side result = side_of(entry[entry.root], leaves, alias.output);
    const Side donor = donor_of(entry, alias);
    const bool fits = shard_type(result.type, *result.sharding) == shard_type(donor.type, *donor.sharding);
    require(
        fits || !alias.must,
        "result {{{}}} must take the memory of parameter {}, but a device holds {} of the result and {} of the "
        "parameter: their shardings are {} and {}; give both the same sharding",
        fmt::join(alias.output, ","), alias.parameter, [&] { return shard_type(result.type, *result.sharding).str(); },
        [&] { return shard_type(donor.type, *donor.sharding).str(); }, *result.sharding, *donor.sharding);
    if (fits) out.push_back(alias);
  }
  return out;
}

}  // namespace tessera
