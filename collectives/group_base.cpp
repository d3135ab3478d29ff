// SPDX-License-Identifier: Apache-2.0
#include "group_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "reduce.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/collectives/communication_turn.h"
#include "waiting.h"

namespace tessera::collectives {
namespace {

class EmptyOperation final : public PendingOperation {
 public:
  void wait() override {}
  bool test() override { return true; }
};

bool reduces(Kind kind) { return kind == Kind::kReduceScatter || kind == Kind::kAllReduce; }

// Returns the sub-group of this rank. Throws an Error unless every member occurs exactly once in `groups`.
const std::vector<int>& own_group(const std::vector<std::vector<int>>& groups, int size, int rank,
                                  const std::string& name) {
  std::vector<int> seen(static_cast<std::size_t>(size), 0);
  const std::vector<int>* own = nullptr;
  for (const auto& group : groups) {
    for (const int member : group) {
      require(member >= 0 && member < size, "split {}: member {} is not in a group of {}", name, member, size);
      require(++at(seen, member) == 1, "split {}: member {} is listed twice", name, member);
      if (member == rank) own = &group;
    }
  }
  for (int member = 0; member < size; ++member)
    require(at(seen, member) == 1, "split {}: member {} is in no sub-group", name, member);
  return *own;
}

std::size_t hash_groups(const std::vector<std::vector<int>>& groups, const std::string& name) {
  std::size_t hash = hash_text(name);
  for (const auto& group : groups) {
    hash = hash_mix(hash, group.size());
    for (const int member : group) hash = hash_mix(hash, static_cast<std::size_t>(member));
  }
  return hash;
}

void await_turn() { RankContext::current().get<CommunicationTurn>().await(); }

// A group of one rank only copies its own bytes.
void run_alone(const Collective& call) {
  if (call.kind == Kind::kBarrier || call.kind == Kind::kBroadcast || call.out.empty()) return;
  if (call.kind == Kind::kPermute && call.pairs.empty()) {
    std::memset(call.out.data(), 0, call.out.size());
    return;
  }
  std::memmove(call.out.data(), call.in.data(), call.out.size());
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kAllGather: return "all_gather";
    case Kind::kReduceScatter: return "reduce_scatter";
    case Kind::kAllReduce: return "all_reduce";
    case Kind::kAllToAll: return "all_to_all";
    case Kind::kPermute: return "permute";
    case Kind::kBroadcast: return "broadcast";
    case Kind::kBarrier: return "barrier";
    case Kind::kSplit: return "split";
  }
  throw InternalError("a collective of no kind");
}

std::size_t Collective::signature() const {
  std::size_t hash = hash_mix(static_cast<std::size_t>(kind), in.size());
  hash = hash_mix(hash, out.size());
  hash = hash_mix(hash, static_cast<std::size_t>(dtype));
  hash = hash_mix(hash, static_cast<std::size_t>(reduction));
  hash = hash_mix(hash, static_cast<std::size_t>(root));
  hash = hash_mix(hash_mix(hash, detail), stride);
  for (const auto& [source, target] : pairs)
    hash = hash_mix(hash_mix(hash, static_cast<std::size_t>(source)), static_cast<std::size_t>(target));
  hash = hash_mix(hash, static_cast<std::size_t>(number));
  hash = hash_mix(hash, static_cast<std::size_t>(sequence));
  return hash_mix(hash, hash_text(text));
}

Post Collective::post() const {
  Post out{.signature = signature(),
           .bytes = in.size(),
           .number = number,
           .root = root,
           .kind = kind,
           .dtype = dtype,
           .reduction = reduction};
  std::string joined;
  for (const auto& [source, target] : pairs) joined += fmt::format(" {}>{}", source, target);
  joined.copy(out.extra.data(), out.extra.size() - 1);
  text.copy(out.text.data(), out.text.size() - 1);
  return out;
}

std::string Post::description() const {
  std::string details;
  if (reduces(kind)) details += fmt::format("{} {}, ", dtype_name(dtype), reduction_name(reduction));
  if (kind == Kind::kBroadcast) details += fmt::format("from member {}, ", root);
  if (kind == Kind::kPermute) details += fmt::format("pairs{}, ", extra.data());
  if (kind != Kind::kBarrier && kind != Kind::kSplit) details += fmt::format("{} bytes, ", bytes);
  return fmt::format("{} ({}number {} of its group)", text.data(), details, number);
}

std::string divergence_message(const std::vector<Position>& positions) {
  const auto grouped = [&](auto&& words) {
    std::map<std::string, std::vector<int>> ranks_at;
    for (const auto& position : positions) ranks_at[words(position.post)].push_back(position.rank);
    return ranks_at;
  };
  auto ranks_at = grouped([](const Post& post) { return post.name(); });
  if (ranks_at.size() == 1) ranks_at = grouped([](const Post& post) { return post.description(); });
  if (ranks_at.size() == 1)  // if the texts are equal: the groups of a split, a sequence number
    ranks_at =
        grouped([](const Post& post) { return fmt::format("{} [{:016x}]", post.description(), post.signature); });
  std::vector<std::pair<std::string, std::vector<int>>> groups(ranks_at.begin(), ranks_at.end());
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.second < b.second;
  });
  std::vector<std::string> parts;
  for (const auto& [where, ranks] : groups)
    parts.push_back(fmt::format("{} {} at {}", rank_list(ranks), ranks.size() == 1 ? "is" : "are", where));
  return fmt::format("ranks diverge: {}", fmt::join(parts, "; "));
}

Membership membership(const std::vector<int>& world_ranks, int world_rank, const std::string& name, std::int64_t id,
                      bool counted) {
  const auto place = std::find(world_ranks.begin(), world_ranks.end(), world_rank);
  ensure(place != world_ranks.end(), "rank {} creates group {} but is not a member of it", world_rank, name);
  std::vector<std::size_t> by_world_rank(world_ranks.size());
  std::iota(by_world_rank.begin(), by_world_rank.end(), std::size_t{0});
  std::ranges::sort(by_world_rank, {}, [&](std::size_t k) { return world_ranks[k]; });
  return {world_ranks, static_cast<int>(place - world_ranks.begin()), name, id, counted, std::move(by_world_rank)};
}

std::vector<const std::byte*> Membership::summands(const std::vector<const std::byte*>& operands) const {
  std::vector<const std::byte*> out;
  out.reserve(operands.size());
  for (const std::size_t k : by_world_rank) out.push_back(operands[k]);
  return out;
}

const TrafficCounters& GroupBase::traffic() const {
  await_turn();
  return traffic_;
}
const TrafficCounters& GroupBase::rank_traffic() const {
  await_turn();
  return fabric_->traffic;
}

void GroupBase::count(std::int64_t TrafficCounters::*counter, std::int64_t bytes) {
  await_turn();
  traffic_.*counter += bytes;
  ++traffic_.calls;
  if (!members_.counted) return;
  fabric_->traffic.*counter += bytes;
  ++fabric_->traffic.calls;
}

void GroupBase::count_mpi(std::int64_t bytes) {
  traffic_.mpi_payload += bytes;
  fabric_->traffic.mpi_payload += bytes;
}

void GroupBase::prepare(Collective& call, const CollectiveLabel& label) {
  await_turn();
  call.number = ++number_;
  call.sequence = label.sequence;
  call.text = label.text.empty() ? fmt::format("{} over {}", kind_name(call.kind), name()) : label.text;
}

void GroupBase::execute(Collective call, const CollectiveLabel& label) {
  prepare(call, label);
  if (size() == 1) return run_alone(call);
  run(call);
}

std::unique_ptr<PendingOperation> GroupBase::begin(Collective call, const CollectiveLabel& label) {
  prepare(call, label);
  if (size() > 1) return start(std::move(call));
  run_alone(call);
  return std::make_unique<EmptyOperation>();
}

std::unique_ptr<PendingOperation> GroupBase::start(
    Collective call) {  // NOLINT(performance-unnecessary-value-param): derived classes store it
  run(call);
  return std::make_unique<EmptyOperation>();
}

Collective GroupBase::gather_call(std::span<const std::byte> in, std::span<std::byte> out) {
  require(out.size() == in.size() * static_cast<std::size_t>(size()),
          "all_gather over {}: out has {} bytes; {} members of {} bytes need {}", name(), out.size(), size(), in.size(),
          in.size() * static_cast<std::size_t>(size()));
  count(&TrafficCounters::all_gather, static_cast<std::int64_t>(out.size() - in.size()));
  return {.kind = Kind::kAllGather, .in = in, .out = out};
}

Collective GroupBase::reduce_call(Kind kind, std::span<const std::byte> in, std::span<std::byte> out, DType dtype,
                                  Reduction op) {
  const std::size_t parts = kind == Kind::kReduceScatter ? static_cast<std::size_t>(size()) : 1;
  require(in.size() == out.size() * parts, "{} over {}: in has {} bytes and out {}; in must have {}", kind_name(kind),
          name(), in.size(), out.size(), out.size() * parts);
  require(out.size() % static_cast<std::size_t>(dtype_size(dtype)) == 0,
          "{} over {}: {} bytes is not a multiple of the size of {}", kind_name(kind), name(), out.size(),
          dtype_name(dtype));
  require(can_reduce(dtype, op), "{} over {}: {} has no {}", kind_name(kind), name(), dtype_name(dtype),
          reduction_name(op));
  const auto bytes = static_cast<std::int64_t>(in.size());
  if (kind == Kind::kReduceScatter)
    count(&TrafficCounters::reduce_scatter, bytes - static_cast<std::int64_t>(out.size()));
  else
    count(&TrafficCounters::all_reduce, 2 * bytes * (size() - 1) / size());
  return {.kind = kind, .in = in, .out = out, .dtype = dtype, .reduction = op};
}

void GroupBase::all_gather(std::span<const std::byte> in, std::span<std::byte> out, const CollectiveLabel& label) {
  execute(gather_call(in, out), label);
}

void GroupBase::reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                               const CollectiveLabel& label) {
  execute(reduce_call(Kind::kReduceScatter, in, out, dtype, op), label);
}

void GroupBase::all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType dtype, Reduction op,
                           const CollectiveLabel& label) {
  execute(reduce_call(Kind::kAllReduce, in, out, dtype, op), label);
}

std::unique_ptr<PendingOperation> GroupBase::start_all_gather(std::span<const std::byte> in, std::span<std::byte> out,
                                                              const CollectiveLabel& label) {
  return begin(gather_call(in, out), label);
}

std::unique_ptr<PendingOperation> GroupBase::start_reduce_scatter(std::span<const std::byte> in,
                                                                  std::span<std::byte> out, DType dtype, Reduction op,
                                                                  const CollectiveLabel& label) {
  return begin(reduce_call(Kind::kReduceScatter, in, out, dtype, op), label);
}

std::unique_ptr<PendingOperation> GroupBase::start_all_reduce(std::span<const std::byte> in, std::span<std::byte> out,
                                                              DType dtype, Reduction op, const CollectiveLabel& label) {
  return begin(reduce_call(Kind::kAllReduce, in, out, dtype, op), label);
}

void GroupBase::all_gather_apart(std::span<const std::byte> in, std::span<std::byte> out, std::size_t stride,
                                 const CollectiveLabel& label) {
  ensure(out.size() == extent(in.size(), stride) && stride >= in.size(),
         "all_gather over {}: {} bytes do not hold parts of {} bytes with a stride of {}", name(), out.size(),
         in.size(), stride);
  count(&TrafficCounters::all_gather, static_cast<std::int64_t>(in.size()) * (size() - 1));
  execute({.kind = Kind::kAllGather, .in = in, .out = out, .stride = stride}, label);
}

void GroupBase::reduce_scatter_apart(std::span<const std::byte> in, std::span<std::byte> out, std::size_t stride,
                                     DType dtype, Reduction op, const CollectiveLabel& label) {
  ensure(in.size() == extent(out.size(), stride) && stride >= out.size(),
         "reduce_scatter over {}: {} bytes do not hold parts of {} bytes with a stride of {}", name(), in.size(),
         out.size(), stride);
  count(&TrafficCounters::reduce_scatter, static_cast<std::int64_t>(out.size()) * (size() - 1));
  execute({.kind = Kind::kReduceScatter, .in = in, .out = out, .dtype = dtype, .reduction = op, .stride = stride},
          label);
}

void GroupBase::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, const CollectiveLabel& label) {
  require(in.size() == out.size() && in.size() % static_cast<std::size_t>(size()) == 0,
          "all_to_all over {}: in has {} bytes and out {}; both must be the same multiple of {}", name(), in.size(),
          out.size(), size());
  count(&TrafficCounters::all_to_all, static_cast<std::int64_t>(in.size()) / size() * (size() - 1));
  execute({.kind = Kind::kAllToAll, .in = in, .out = out}, label);
}

void GroupBase::permute(std::span<const std::byte> in, std::span<std::byte> out, const Pairs& pairs,
                        const CollectiveLabel& label) {
  require(in.size() == out.size(), "permute over {}: in has {} bytes, out {}", name(), in.size(), out.size());
  std::vector<int> sources(static_cast<std::size_t>(size()), 0);
  std::vector<int> targets(static_cast<std::size_t>(size()), 0);
  for (const auto& [source, target] : pairs) {
    for (const int member : {source, target})
      require(member >= 0 && member < size(), "permute over {}: member {} is not in a group of {}", name(), member,
              size());
    require(++at(sources, source) == 1, "permute over {}: member {} is a source twice", name(), source);
    require(++at(targets, target) == 1, "permute over {}: member {} is a target twice", name(), target);
  }
  count(&TrafficCounters::permute, at(targets, rank()) == 1 ? static_cast<std::int64_t>(in.size()) : 0);
  execute({.kind = Kind::kPermute, .in = in, .out = out, .pairs = pairs}, label);
}

void GroupBase::broadcast(std::span<std::byte> data, int root, const CollectiveLabel& label) {
  require(root >= 0 && root < size(), "broadcast over {}: root {} is not in a group of {}", name(), root, size());
  count(&TrafficCounters::broadcast, rank() == root ? 0 : static_cast<std::int64_t>(data.size()));
  execute({.kind = Kind::kBroadcast, .in = data, .out = data, .root = root}, label);
}

void GroupBase::barrier(const CollectiveLabel& label) { execute({.kind = Kind::kBarrier}, label); }

std::shared_ptr<ProcessGroup> GroupBase::split(const std::vector<std::vector<int>>& groups, const std::string& name) {
  await_turn();
  const auto known = subgroups_.find(name);
  if (known != subgroups_.end()) return known->second;
  const auto& own = own_group(groups, size(), rank(), name);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(size()));
  execute({.kind = Kind::kSplit,
           .in = std::as_bytes(std::span(&fabric_->next_id, 1)),
           .out = std::as_writable_bytes(std::span(ids)),
           .detail = hash_groups(groups, name)},
          {});
  const std::int64_t id = *std::max_element(ids.begin(), ids.end());
  fabric_->next_id = id + 1;
  std::vector<int> world_ranks;
  for (const int member : own) world_ranks.push_back(world_rank(member));
  return subgroups_[name] = fabric_->make_group(world_ranks, name, id);
}

}  // namespace tessera::collectives
