// SPDX-License-Identifier: Apache-2.0
#include "normalize/sharding_groups.h"

#include <map>
#include <string>
#include <utility>

#include "tessera/ops/control_flow.h"
#include "tessera/ops/custom_call.h"

namespace tessera {
namespace {

using Member = std::pair<ComputationId, Id>;

/// Maps each group to the smallest group that it shares members with, directly or through other groups.
class United {
 public:
  const std::string& find(const std::string& group) {
    auto& other = first_.try_emplace(group, group).first->second;
    return other == group ? other : other = find(other);
  }
  void unite(const std::string& a, const std::string& b) {
    const std::string& x = find(a);
    const std::string& y = find(b);
    if (x < y)
      first_[y] = std::string(x);
    else
      first_[x] = std::string(y);
  }

 private:
  std::map<std::string, std::string> first_;
};

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
  United groups;
  for_each_call(program, [&](Member, Member operand, const std::string& group) {
    if (const auto [found, is_new] = members.try_emplace(operand, group); !is_new) groups.unite(found->second, group);
  });
  if (members.empty()) return program;
  std::map<ComputationId, Computation> changed;
  const auto changed_one = [&](const Member& member) -> Instruction& {
    const auto& old = program[member.first];
    return at(changed.try_emplace(member.first, old).first->second.instructions, member.second);
  };
  for_each_call(program, [&](Member call, Member, const std::string&) { changed_one(call).operands.clear(); });
  for (const auto& [member, group] : members) {
    Instruction& one = changed_one(member);
    const std::string& united = groups.find(group);
    one.notes = with_frontend_attribute(one.notes, "tessera.sharding_suffix",
                                        " shard_as " + united.substr(0, united.find(' ')));
  }
  Program out = program;
  for (auto& [c, computation] : changed)
    at(out.computations, c) = std::make_shared<const Computation>(std::move(computation));
  return out;
}

}  // namespace tessera
