// SPDX-License-Identifier: Apache-2.0
#include "tracing/compare_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "execution/gather_from_ranks.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/sharding/shard_data.h"

namespace tessera {
namespace {

// What a rank knows of an input.
struct GivenValue {
  std::uint64_t hash = 0;       // of a complete value from the host; 0: the rank has a result, or a shard
  std::uint64_t has_value = 0;  // 1: the complete value is still on the host
};

// Returns the hash of a value that the host passed, even if the value has been sharded since. Returns 0 for other
// values, which need not be known on the host of every rank.
std::uint64_t hash_of_given(Node& input) {
  note_given(input);
  return input.is_given ? input.given_hash.value_or(0) : 0;
}

// By input, then by rank.
template <class T>
std::vector<std::vector<T>> gather_by_input(ProcessGroup& world, const std::vector<T>& mine) {
  const std::size_t count = mine.size();
  std::vector<T> all(count * static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<std::vector<T>> out(count);
  for (std::size_t i = 0; i < all.size(); ++i) out[i % count].push_back(all[i]);
  return out;
}

std::string rank_list(const std::vector<std::int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// Returns `ranks 1, 3 pass different values than ranks 0, 2` for different hashes. A rank without a host value has hash 0.
std::string difference_text(const std::vector<GivenValue>& given) {
  std::map<std::uint64_t, std::vector<std::int64_t>> ranks_of;
  for (std::size_t rank = 0; rank < given.size(); ++rank)
    if (given[rank].hash != 0) ranks_of[given[rank].hash].push_back(static_cast<std::int64_t>(rank));
  if (ranks_of.size() == given.size())
    return fmt::format("each of the {} ranks passes a different value", given.size());
  std::vector<std::vector<std::int64_t>> groups;
  for (auto& [hash, ranks] : ranks_of) groups.push_back(std::move(ranks));
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
  std::vector<std::int64_t> others;
  for (std::size_t i = 1; i < groups.size(); ++i) others.insert(others.end(), groups[i].begin(), groups[i].end());
  std::sort(others.begin(), others.end());
  return fmt::format("{} {} than {}", rank_list(others),
                     others.size() == 1 ? "passes a different value" : "pass different values", rank_list(groups[0]));
}

bool differ(const std::vector<GivenValue>& given) {
  const auto first = std::find_if(given.begin(), given.end(), [](const GivenValue& g) { return g.hash != 0; });
  return std::any_of(first, given.end(), [&](const GivenValue& g) { return g.hash != 0 && g.hash != first->hash; });
}

// The first rank that has the complete value, if other ranks have a result; nullopt: nothing to compare. Once the value
// has been sharded it was compared before.
std::optional<int> rank_beside_results(const std::vector<GivenValue>& given) {
  const bool has_results = std::any_of(given.begin(), given.end(), [](const GivenValue& g) { return g.hash == 0; });
  const auto first =
      std::find_if(given.begin(), given.end(), [](const GivenValue& g) { return g.hash != 0 && g.has_value != 0; });
  if (!has_results || first == given.end()) return std::nullopt;
  return static_cast<int>(first - given.begin());
}

bool holds_shard_of(Node& input, const Literal& complete, std::int64_t rank) {
  const Sharding sharding = storage_of(input);
  const auto elements = [&](const Literal& shard) { return unpadded_shard(shard, input.type, sharding, rank); };
  return elements(device_shard(input).to_literal()) == elements(take_shard(complete, sharding, rank));
}

// Returns the ranks whose result is not the value that `root` passes.
std::vector<std::int64_t> ranks_with_other_results(ProcessGroup& world, Node& input, int root) {
  const bool has_result = hash_of_given(input) == 0;
  Literal complete = world.rank() == root ? *input.host : Literal(input.type);
  if (const auto bytes = complete.mutable_bytes(); !bytes.empty()) world.broadcast(bytes, root);
  const std::uint64_t is_other = has_result && !holds_shard_of(input, complete, world.rank()) ? 1 : 0;
  const auto all = gather_from_ranks(world, is_other);
  std::vector<std::int64_t> out;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != 0) out.push_back(static_cast<std::int64_t>(rank));
  return out;
}

std::string input_text(const ExtractedProgram& extracted, std::size_t i) {
  const Node& input = *extracted.inputs[i];
  const Computation& entry = extracted.program.entry_computation();
  const std::string place = entry[entry.parameters[i]].source();
  return fmt::format("input {} {}{}", i,
                     input.name.empty() ? input.type.str() : fmt::format("{} {}", input.name, input.type.str()),
                     place.empty() ? "" : fmt::format(" (first used at {})", place));
}

[[noreturn]] void fail_on_input(const ExtractedProgram& extracted, std::size_t i, const RunReason& reason,
                                const std::string& difference) {
  require(
      !extracted.inputs[i]->is_from_file,
      "{}: {} was not read from the same file on all ranks: {}. Copy the model folder or the checkpoint of one rank "
      "to the others, or use a shared file system",
      reason.text, [&] { return input_text(extracted, i); }, difference);
  fail(
      "{}: {} is not the same on all ranks: {}. Every rank must pass the same complete value to Tensor::from, "
      "from_host or scalar; use Tensor::from_local_shards if each rank has its own shard",
      reason.text, input_text(extracted, i), difference);
}

// Returns two ranks that pass different shards of the same elements. Looks at each rank once, because this runs in every
// step.
std::optional<std::pair<std::size_t, std::size_t>> ranks_with_different_shards(
    const Node& input, const std::vector<std::uint64_t>& hashes) {
  std::map<std::vector<std::int64_t>, std::size_t> first_of;  // by start and limit of the shard along each dim
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == 0) continue;
    std::vector<std::int64_t> elements;
    for (const Interval& dim : shard_indices(input.type, *input.sharding, static_cast<std::int64_t>(rank)))
      elements.insert(elements.end(), {dim.start, dim.limit});
    const auto [first, is_new] = first_of.try_emplace(std::move(elements), rank);
    if (!is_new && hashes[first->second] != hashes[rank]) return std::pair(first->second, rank);
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t hash_of_inputs(const ExtractedProgram& extracted) {
  std::uint64_t hash = 0;
  for (const auto& input : extracted.inputs) hash = hash_mix(hash, hash_of_given(*input));
  return hash;
}

bool passes_replicated_shards(const ExtractedProgram& extracted) {
  return std::any_of(extracted.inputs.begin(), extracted.inputs.end(),
                     [](const auto& input) { return input->shard_hash.has_value(); });
}

void compare_inputs(ProcessGroup& world, const ExtractedProgram& extracted, const RunReason& reason) {
  std::vector<GivenValue> mine;
  for (const auto& input : extracted.inputs) mine.push_back({hash_of_given(*input), input->host ? 1U : 0U});
  const auto all = gather_by_input(world, mine);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (differ(all[i])) fail_on_input(extracted, i, reason, difference_text(all[i]));
    const auto root = rank_beside_results(all[i]);
    if (!root) continue;
    const auto others = ranks_with_other_results(world, *extracted.inputs[i], *root);
    if (!others.empty())
      fail_on_input(extracted, i, reason,
                    fmt::format("rank {} passes a value of the host, {} {} a different result of an earlier step",
                                *root, rank_list(others), others.size() == 1 ? "uses" : "use"));
  }
}

void compare_shards(ProcessGroup& world, const ExtractedProgram& extracted, const RunReason& reason) {
  std::vector<std::uint64_t> mine;
  for (const auto& input : extracted.inputs) mine.push_back(input->shard_hash.value_or(0));
  const auto all = gather_by_input(world, mine);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Node& input = *extracted.inputs[i];
    const auto ranks = input.sharding ? ranks_with_different_shards(input, all[i]) : std::nullopt;
    if (!ranks) continue;
    fail(
        "{}: {}: ranks {} and {} pass different shards to Tensor::from_local_shards, but {} over {} places the same "
        "elements on both. Ranks that differ only along axes that do not shard the tensor must pass the same shard: a "
        "sampler must depend on the coordinates along the axes of the batch, not on the number of the rank",
        reason.text, input_text(extracted, i), ranks->first, ranks->second, input.sharding->str(),
        input.sharding->mesh);
  }
}

}  // namespace tessera
