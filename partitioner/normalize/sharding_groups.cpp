// SPDX-License-Identifier: Apache-2.0
#include "normalize/sharding_groups.h"

#include <boost/pending/disjoint_sets.hpp>
#include <map>
#include <ranges>
#include <string>
#include <utility>

#include "tessera/ops/control_flow.h"
#include "tessera/ops/custom_call.h"

namespace tessera {
namespace {

using Member = std::pair<ComputationId, Id>;

template <class F>
void for_each_call(const Program& program, F&& f) {
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    for (Id id = 0; id < program[c].size(); ++id)
      if (const auto group = sharding_group(program[c][id]); group && !program[c][id].operands.empty())
        f(Member(c, id), Member(c, program[c][id].operands[0]), *group);
}

}  // namespace

Program with_sharding_groups(const Program& program) {
  std::map<Member, std::string> members;
  std::map<std::string, int> ranks;
  std::map<std::string, std::string> united;
  boost::disjoint_sets sets(boost::make_assoc_property_map(ranks), boost::make_assoc_property_map(united));
  for_each_call(program, [&](Member, Member operand, const std::string& group) {
    if (!united.contains(group)) sets.make_set(group);
    if (const auto [found, is_new] = members.try_emplace(operand, group); !is_new) sets.union_set(found->second, group);
  });
  if (members.empty()) return program;
  // After this, `united` maps each group to the smallest one that it shares members with, also through other groups.
  const auto groups = std::views::keys(united);
  sets.compress_sets(groups.begin(), groups.end());
  sets.normalize_sets(groups.begin(), groups.end());
  std::map<ComputationId, Computation> changed;
  const auto changed_one = [&](const Member& member) -> Instruction& {
    const auto& old = program[member.first];
    return at(changed.try_emplace(member.first, old).first->second.instructions, member.second);
  };
  for_each_call(program, [&](Member call, Member, const std::string&) { changed_one(call).operands.clear(); });
  for (const auto& [member, group] : members) {
    Instruction& one = changed_one(member);
    const std::string& smallest = united.at(group);
    one.notes = with_frontend_attribute(one.notes, "tessera.sharding_suffix",
                                        " shard_as " + smallest.substr(0, smallest.find(' ')));
  }
  Program out = program;
  for (auto& [c, computation] : changed)
    at(out.computations, c) = std::make_shared<const Computation>(std::move(computation));
  return out;
}

}  // namespace tessera
