// SPDX-License-Identifier: Apache-2.0
// Detects ranks that are about to run different programs, before anything runs, and reports the difference on every
// rank.
#include <fmt/format.h>

#include <algorithm>

#include "execution/execute.h"
#include "execution/gather_from_ranks.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/values_by_rank.h"
#include "tessera/ir/text.h"
#include "tracing/compare_inputs.h"

namespace tessera {
namespace {

struct Ticket {
  std::uint64_t kind = 0;
  std::uint64_t hash = 0;
  std::int64_t sequence = 0;
  std::uint64_t inputs = 0;     // hash of the values from the host
  std::uint64_t shards = 0;     // 1: this rank passes a shard that other ranks pass too
  std::int64_t cache_size = 0;  // XLA_COMPILATION_CACHE_SIZE
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

// A rank that keeps a program that others compile again would not take part in the compilation.
[[noreturn]] void fail_on_cache_sizes(const std::vector<Ticket>& tickets) {
  std::vector<std::string> sizes;
  for (const Ticket& ticket : tickets) sizes.push_back(std::to_string(ticket.cache_size));
  fail("XLA_COMPILATION_CACHE_SIZE must be equal on all ranks, but is {}", values_by_rank(sizes));
}

}  // namespace

void check_same_program(ProcessGroup& world, const ExtractedProgram& extracted, std::size_t hash,
                        const RunReason& reason, std::int64_t sequence) {
  const Program& program = extracted.program;
  const bool is_read = reason.kind == RunReason::Kind::kRead;
  const CollectiveLabel label{sequence, reason.text + (is_read ? " (it is sharded, so every rank must read it)"
                                                               : " (every rank must take part)")};
  const Ticket mine{static_cast<std::uint64_t>(reason.kind),
                    hash,
                    sequence,
                    hash_of_inputs(extracted),
                    passes_replicated_shards(extracted) ? 1U : 0U,
                    options().integer("XLA_COMPILATION_CACHE_SIZE")};
  const auto all = gather_from_ranks(world, mine, label);
  const auto same = [&](auto&& field) {
    return std::all_of(all.begin(), all.end(), [&](const Ticket& t) { return field(t) == field(all.front()); });
  };
  if (!same([](const Ticket& t) { return t.kind; })) fail_on_reasons(gather_texts_from_ranks(world, reason.text));
  if (!same([](const Ticket& t) { return t.hash; })) fail_on_programs(world, program, reason);
  if (!same([](const Ticket& t) { return t.cache_size; })) fail_on_cache_sizes(all);
  if (!same([](const Ticket& t) { return t.inputs; })) compare_inputs(world, extracted, reason);
  if (std::any_of(all.begin(), all.end(), [](const Ticket& t) { return t.shards != 0; }))
    compare_shards(world, extracted, reason);
}

}  // namespace tessera
