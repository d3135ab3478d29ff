// SPDX-License-Identifier: Apache-2.0
// Ranks that are about to run different things: found before anything runs, named on every rank.
#include <algorithm>
#include <cstring>

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
  std::uint64_t inputs = 0;  // hash of the whole values that no step compared so far
};

// The instruction as one line without names given by counting, so that one inserted op does not change all that follow.
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
      "ranks do not do the same thing: a step, and the reading of a value that is not whole on every rank, need all "
      "ranks; read it on every rank, or materialise it (mark_step) before one rank reads it{}",
      rank_lines(reasons));
}

[[noreturn]] void fail_on_programs(ProcessGroup& world, const Program& program, const RunReason& reason) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& text : gather_texts_from_ranks(world, join(listing(program), "\n")))
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
  fail("ranks traced different programs for {}; they part at instruction {}:{}", reason.text, first, rank_lines(shown));
}

// Values that the host gave whole: each rank must have given the same. Looked at once.
std::uint64_t take_input_hash(const Cut& cut) {
  std::uint64_t hash = 0;
  for (const auto& input : cut.inputs) {
    if (input->is_given && input->host) hash = hash_mix(hash, input->host->hash());
  }
  return hash;
}

[[noreturn]] void fail_on_inputs(ProcessGroup& world, const Cut& cut, const RunReason& reason) {
  for (std::size_t i = 0; i < cut.inputs.size(); ++i) {
    const Node& input = *cut.inputs[i];
    const auto all =
        gather_from_ranks(world, static_cast<std::uint64_t>(input.is_given && input.host ? input.host->hash() : 0));
    const auto other = std::find_if(all.begin(), all.end(), [&](std::uint64_t h) { return h != all.front(); });
    if (other == all.end()) continue;
    fail(
        "{}: input {} {} is not the same on ranks 0 and {}: a whole value (Tensor::from, Tensor::scalar) must be given "
        "alike on every "
        "rank, which keeps its part of it; give each rank its own part by Tensor::from_local_shards",
        reason.text, i, input.name.empty() ? input.type.str() : fmt::format("{} {}", input.name, input.type.str()),
        other - all.begin());
  }
  fail("{}: ranks give different inputs", reason.text);
}

}  // namespace

void check_same_program(ProcessGroup& world, const Cut& cut, std::size_t hash, const RunReason& reason,
                        std::int64_t sequence) {
  const Program& program = cut.program;
  const bool is_read = reason.kind == RunReason::Kind::kRead;
  world.label({sequence, reason.text + (is_read ? " (it is not whole on every rank, so every rank must read it)"
                                                : " (every rank must take part)")});
  const Ticket mine{static_cast<std::uint64_t>(reason.kind), hash, sequence, take_input_hash(cut)};
  const auto all = gather_from_ranks(world, mine);
  const auto same = [&](auto&& field) {
    return std::all_of(all.begin(), all.end(), [&](const Ticket& t) { return field(t) == field(all.front()); });
  };
  if (!same([](const Ticket& t) { return t.kind; })) fail_on_reasons(gather_texts_from_ranks(world, reason.text));
  if (!same([](const Ticket& t) { return t.hash; })) fail_on_programs(world, program, reason);
  if (!same([](const Ticket& t) { return t.inputs; })) fail_on_inputs(world, cut, reason);
  for (const auto& input : cut.inputs) input->is_given = false;
}

}  // namespace tessera
