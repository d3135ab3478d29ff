// SPDX-License-Identifier: Apache-2.0
#include "tessera/lowering/rank_groups.h"

#include <algorithm>
#include <boost/pending/disjoint_sets.hpp>
#include <map>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

/// Groups of ranks that are merged step by step.
class Joined {
 public:
  explicit Joined(int size) : size_(size), sets_(static_cast<std::size_t>(size)) {}
  void join(int a, int b) { sets_.union_set(a, b); }
  void join(const std::vector<int>& group) {
    for (const int member : group) join(group.front(), member);
  }
  // Sorted by first member; members are in ascending order.
  RankGroups groups() {
    RankGroups out;
    std::map<int, std::size_t> group_of;  // by representative
    for (int rank = 0; rank < size_; ++rank) {
      const auto [found, is_new] = group_of.try_emplace(sets_.find_set(rank), out.size());
      if (is_new) out.emplace_back();
      out[found->second].push_back(rank);
    }
    return out;
  }

 private:
  int size_;
  boost::disjoint_sets_with_storage<> sets_;
};

RankGroups joined_by_pairs(const PermuteAttributes& permute, int world_size) {
  Joined joined(world_size);
  for (const auto& [source, target] : permute.source_target_pairs.pairs) {
    require(std::max(source, target) < world_size && std::min(source, target) >= 0,
            "source_target_pairs name {{{},{}}}; the world has {} ranks", source, target, world_size);
    joined.join(static_cast<int>(source), static_cast<int>(target));
  }
  return joined.groups();
}

}  // namespace

RankGroups rank_groups(const Instruction& collective, int world_size) {
  if (collective.op->collective == CollectiveKind::kPermute)
    return joined_by_pairs(attributes_as<PermuteAttributes>(collective.attributes), world_size);
  const auto& a = attributes_as<CollectiveAttributes>(collective.attributes);
  const bool names_one_replica = a.channel_id != 0 && !a.use_global_device_ids && world_size > 1 &&
                                 a.replica_groups.groups == std::vector<std::vector<std::int64_t>>{{0}};
  if (a.replica_groups.groups.empty() || names_one_replica) {
    std::vector<int> all(static_cast<std::size_t>(world_size));
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  RankGroups out;
  std::vector<bool> seen(static_cast<std::size_t>(world_size), false);
  for (const auto& group : a.replica_groups.groups) {
    out.emplace_back();
    for (const auto rank : group) {
      require(rank >= 0 && rank < world_size, "replica_groups name device {}; the world has {} ranks", rank,
              world_size);
      at(seen, rank) = true;
      out.back().push_back(static_cast<int>(rank));
    }
  }
  for (int rank = 0; rank < world_size; ++rank)
    if (!at(seen, rank)) out.push_back({rank});
  return out;
}

namespace {

// Merges the groups of collectives that run whenever the computation does, which excludes branches and loops in it.
void join_unconditional(const Program& program, ComputationId computation, int world_size, Joined& joined) {
  for (const Instruction& instruction : program[computation].instructions) {
    if (instruction.op->role == Role::kCollective)
      for (const auto& group : rank_groups(instruction, world_size)) joined.join(group);
    if (instruction.op->role == Role::kCall)
      join_unconditional(program, instruction.called.front(), world_size, joined);
  }
}

}  // namespace

RankGroups united_rank_groups(const Program& program, const std::vector<ComputationId>& computations, int world_size) {
  Joined joined(world_size);
  for (const ComputationId computation : computations) join_unconditional(program, computation, world_size, joined);
  return joined.groups();
}

RankGroups agreeing_rank_groups(const Program& program, const std::vector<ComputationId>& branches, int world_size,
                                bool all_are_here) {
  std::vector<std::vector<int>> group_of;  // [branch][rank]
  for (const ComputationId branch : branches) {
    auto& groups = group_of.emplace_back(static_cast<std::size_t>(world_size), 0);
    int number = 0;
    for (const auto& group : united_rank_groups(program, {branch}, world_size)) {
      for (const int rank : group) at(groups, rank) = number;
      ++number;
    }
  }
  Joined joined(world_size);
  for (int a = 0; a < world_size; ++a)
    for (int b = a + 1; b < world_size; ++b) {
      const auto apart = std::count_if(group_of.begin(), group_of.end(),
                                       [&](const auto& groups) { return at(groups, a) != at(groups, b); });
      if (apart <= (all_are_here ? 1 : 0)) joined.join(a, b);
    }
  return joined.groups();
}

std::vector<int> own_group(const RankGroups& groups, int rank) {
  const auto holds = [&](const auto& group) { return std::find(group.begin(), group.end(), rank) != group.end(); };
  return *std::find_if(groups.begin(), groups.end(), holds);
}

}  // namespace tessera
