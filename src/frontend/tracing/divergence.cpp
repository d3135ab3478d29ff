// SPDX-License-Identifier: Apache-2.0
// Detects ranks that are about to run different programs, before anything runs, and reports the difference on every
// rank.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "execution/execute.h"
#include "execution/gather_from_ranks.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"

namespace tessera {
namespace {

struct Ticket {
  std::uint64_t kind = 0;
  std::uint64_t hash = 0;
  std::int64_t sequence = 0;
  std::uint64_t inputs = 0;  // hash of the values from the host
};

// Prints each instruction on a line, without numbered names, so that one inserted op does not change all lines after
// it.
std::vector<std::string> listing(const Program& program) {
  std::vector<std::string> lines;
  const Computation& entry = program.entry_computation();
  for (Id id = 0; id < entry.size(); ++id) {
    std::string line = print_instruction(program, entry, id);
    if (const auto at = line.find(", metadata="); at != std::string::npos) line.resize(at);
    const auto source = entry[id].source();
    lines.push_back(std::string(trim(line)) + (source.empty() ? "" : "    " + source));
  }
  return lines;
}

std::string rank_lines(const std::vector<std::string>& per_rank) {
  std::string out;
  for (std::size_t rank = 0; rank < per_rank.size(); ++rank)
    out += fmt::format("\n  rank {}: {}", rank, per_rank[rank]);
  return out;
}

[[noreturn]] void fail_on_reasons(const std::vector<std::string>& reasons) {
  fail(
      "some ranks started a step or read a sharded value, others did not: both need all ranks; read it on every rank, "
      "or call mark_step() before one rank reads it{}",
      rank_lines(reasons));
}

[[noreturn]] void fail_on_programs(ProcessGroup& world, const Program& program, const RunReason& reason) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& text : gather_texts_from_ranks(world, fmt::format("{}", fmt::join(listing(program), "\n"))))
    lines.push_back(split(text, '\n'));
  std::size_t first = 0;
  const auto line_of = [&](std::size_t rank) {
    return first < lines[rank].size() ? lines[rank][first] : std::string("(end)");
  };
  const auto all_equal = [&] {
    for (std::size_t rank = 1; rank < lines.size(); ++rank)
      if (line_of(rank) != line_of(0)) return false;
    return true;
  };
  std::size_t longest = 0;
  for (const auto& list : lines) longest = std::max(longest, list.size());
  while (first < longest && all_equal()) ++first;
  std::vector<std::string> shown;
  for (std::size_t rank = 0; rank < lines.size(); ++rank) shown.push_back(line_of(rank));
  fail("ranks traced different programs for {}; the first difference is instruction {}:{}", reason.text, first,
       rank_lines(shown));
}

// Returns the hash of a value that the host passed, even if the value has been sharded since. Returns 0 for other
// values, which need not be known on the host of every rank.
std::uint64_t hash_of_given(Node& input) {
  note_given(input);
  return input.is_given ? input.given_hash.value_or(0) : 0;
}

std::uint64_t hash_of_inputs(const ExtractedProgram& extracted) {
  std::uint64_t hash = 0;
  for (const auto& input : extracted.inputs) hash = hash_mix(hash, hash_of_given(*input));
  return hash;
}

// Returns `ranks 1, 3 pass different values than ranks 0, 2` for different hashes. A rank without a host value has hash 0.
std::string difference_text(const std::vector<std::uint64_t>& hashes) {
  std::map<std::uint64_t, std::vector<std::int64_t>> ranks_of;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank)
    if (hashes[rank] != 0) ranks_of[hashes[rank]].push_back(static_cast<std::int64_t>(rank));
  if (ranks_of.size() == hashes.size())
    return fmt::format("each of the {} ranks passes a different value", hashes.size());
  std::vector<std::vector<std::int64_t>> groups;
  for (auto& [hash, ranks] : ranks_of) groups.push_back(std::move(ranks));
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
  std::vector<std::int64_t> others;
  for (std::size_t i = 1; i < groups.size(); ++i) others.insert(others.end(), groups[i].begin(), groups[i].end());
  std::sort(others.begin(), others.end());
  const auto list = [](const std::vector<std::int64_t>& ranks) {
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
  };
  return fmt::format("{} {} than {}", list(others),
                     others.size() == 1 ? "passes a different value" : "pass different values", list(groups[0]));
}

// Only some ranks may have a host value: a rank may read a result and pass it again.
bool differ(const std::vector<std::uint64_t>& hashes) {
  const auto first = std::find_if(hashes.begin(), hashes.end(), [](std::uint64_t h) { return h != 0; });
  return std::any_of(first, hashes.end(), [&](std::uint64_t h) { return h != 0 && h != *first; });
}

void compare_inputs(ProcessGroup& world, const ExtractedProgram& extracted, const RunReason& reason) {
  const std::size_t count = extracted.inputs.size();
  std::vector<std::uint64_t> mine;
  for (const auto& input : extracted.inputs) mine.push_back(hash_of_given(*input));
  std::vector<std::uint64_t> all(count * static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::uint64_t> hashes;
    for (std::size_t rank = 0; rank < all.size() / count; ++rank) hashes.push_back(all[rank * count + i]);
    if (!differ(hashes)) continue;
    const Node& input = *extracted.inputs[i];
    const Computation& entry = extracted.program.entry_computation();
    const std::string place = entry[entry.parameters[i]].source();
    fail(
        "{}: input {} {}{} is not the same on all ranks: {}. Every rank must pass the same complete value to "
        "Tensor::from, from_host or scalar; use Tensor::from_local_shards if each rank has its own shard",
        reason.text, i, input.name.empty() ? input.type.str() : fmt::format("{} {}", input.name, input.type.str()),
        place.empty() ? "" : fmt::format(" (first used at {})", place), difference_text(hashes));
  }
}

}  // namespace

void check_same_program(ProcessGroup& world, const ExtractedProgram& extracted, std::size_t hash,
                        const RunReason& reason, std::int64_t sequence) {
  const Program& program = extracted.program;
  const bool is_read = reason.kind == RunReason::Kind::kRead;
  const CollectiveLabel label{sequence, reason.text + (is_read ? " (it is sharded, so every rank must read it)"
                                                               : " (every rank must take part)")};
  const Ticket mine{static_cast<std::uint64_t>(reason.kind), hash, sequence, hash_of_inputs(extracted)};
  const auto all = gather_from_ranks(world, mine, label);
  const auto same = [&](auto&& field) {
    return std::all_of(all.begin(), all.end(), [&](const Ticket& t) { return field(t) == field(all.front()); });
  };
  if (!same([](const Ticket& t) { return t.kind; })) fail_on_reasons(gather_texts_from_ranks(world, reason.text));
  if (!same([](const Ticket& t) { return t.hash; })) fail_on_programs(world, program, reason);
  if (!same([](const Ticket& t) { return t.inputs; })) compare_inputs(world, extracted, reason);
}

}  // namespace tessera
