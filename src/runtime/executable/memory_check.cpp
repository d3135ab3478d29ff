// SPDX-License-Identifier: Apache-2.0
#include "executable/memory_check.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/base/log.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/runtime/executable/executable.h"

namespace tessera {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

// The ranks of a process or of a group, what they add, and what is in use before.
struct Sum {
  std::vector<int> ranks;
  std::int64_t more = 0;
  std::int64_t used = 0;
  std::int64_t limit = 0;
  void add(int rank, std::int64_t bytes, std::int64_t used_before, std::int64_t most) {
    ranks.push_back(rank);
    more += bytes;
    used = std::max(used, used_before);  // each rank read it at another time
    limit = limit == 0 ? most : std::min(limit, most);
  }
  [[nodiscard]] bool is_exceeded() const { return limit > 0 && used + more > limit; }
  [[nodiscard]] std::int64_t left_for_each() const { return (limit - used) / std::ssize(ranks); }
  [[nodiscard]] std::string text() const {
    constexpr std::size_t kMost = 8;
    std::vector<int> shown(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, ranks.size())));
    return fmt::format("rank{} {}{}: {} in use and {} for the program make {}", ranks.size() == 1 ? "" : "s",
                       fmt::join(shown, ", "), ranks.size() > kMost ? ", .." : "", bytes_text(used), bytes_text(more),
                       bytes_text(used + more));
  }
};

}  // namespace

namespace {
struct Expected {
  std::optional<ExpectedProgram> program;
};
}  // namespace

void expect_program(std::optional<ExpectedProgram> program) {
  RankContext::current().get<Expected>().program = std::move(program);
}

const ExpectedProgram* expected_program() {
  const auto& program = RankContext::current().get<Expected>().program;
  return program ? &*program : nullptr;
}

MemoryNeed memory_need(std::int64_t more) {
  const std::string& given = options().text("TESSERA_MEMORY_LIMIT");
  MemoryNeed out;
  if (given == "0") return out;
  const std::string host = host_name();
  out.more = more;
  out.process = hash_text(fmt::format("{} {}", host, getpid()));
  if (!given.empty()) {
    out.limit = parse_bytes(given, "TESSERA_MEMORY_LIMIT");
    out.held = process_memory();
  }
  const std::vector<SharedLimit> limits = shared_limits();
  const auto least = std::min_element(limits.begin(), limits.end(), [](const SharedLimit& a, const SharedLimit& b) {
    return a.limit - a.used < b.limit - b.used;
  });
  if (least == limits.end()) return out;
  out.group = hash_text(host + least->what);
  out.group_used = least->used;
  out.group_limit = least->limit;
  out.is_machine = least->what == kMachine;
  return out;
}

void log_memory_need(std::string_view program, int rank, std::int64_t plan, std::int64_t more) {
  if (!is_logged(LogLevel::kDebug)) return;  // reading the memory of the process takes time
  log_debug("rank {} before program {}: the process holds {} bytes, the plan is {} bytes, the run adds {} bytes", rank,
            program, process_memory(), plan, more);
}

namespace {

// By process, and by control group or machine.
using Sums = std::map<std::uint64_t, Sum>;

std::pair<Sums, Sums> sums_of(std::span<const MemoryNeed> needs) {
  Sums processes;
  Sums groups;
  for (int rank = 0; rank < static_cast<int>(needs.size()); ++rank) {
    const MemoryNeed& need = needs[static_cast<std::size_t>(rank)];
    if (need.limit > 0) processes[need.process].add(rank, need.more, need.held, need.limit);
    if (need.group_limit > 0) groups[need.group].add(rank, need.more, need.group_used, need.group_limit);
  }
  return {std::move(processes), std::move(groups)};
}

}  // namespace

std::string memory_excess(std::span<const MemoryNeed> needs) {
  const auto [processes, groups] = sums_of(needs);
  for (const auto& [process, sum] : processes)
    if (sum.is_exceeded())
      return fmt::format("the process of {}; TESSERA_MEMORY_LIMIT allows {}", sum.text(), bytes_text(sum.limit));
  for (const auto& [group, sum] : groups)
    if (sum.is_exceeded())
      return fmt::format("{}; their {} has {}", sum.text(),
                         needs[static_cast<std::size_t>(sum.ranks.front())].is_machine ? "machine" : "control group",
                         bytes_text(sum.limit));
  return "";
}

std::optional<std::int64_t> left_for_each(std::span<const MemoryNeed> needs) {
  const auto [processes, groups] = sums_of(needs);
  std::optional<std::int64_t> least;
  for (const Sums* sums : {&processes, &groups})
    for (const auto& [owner, sum] : *sums) least = std::min(least.value_or(sum.left_for_each()), sum.left_for_each());
  return least;
}

std::optional<std::int64_t> memory_left(ProcessGroup& world) {
  const MemoryNeed mine = memory_need(0);
  std::vector<MemoryNeed> all(static_cast<std::size_t>(world.size()), mine);
  if (world.size() > 1)
    world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                     {0, "the memory that the ranks have left"});
  return left_for_each(all);
}

std::optional<std::int64_t> memory_left(int ranks, const std::vector<int>& nodes) {
  std::vector<MemoryNeed> all(static_cast<std::size_t>(ranks), memory_need(0));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].process = hash_mix(all[rank].process, rank);
    if (!nodes.empty()) all[rank].group = hash_mix(all[rank].group, static_cast<std::size_t>(nodes.at(rank)));
  }
  return left_for_each(all);
}

std::string ExecutableMemory::str() const {
  std::string out;
  const auto line = [&](std::string_view what, std::int64_t bytes) {
    if (bytes > 0) out += fmt::format("  {:<48} {:>10}\n", what, bytes_text(bytes));
  };
  line("arguments: parameters, optimizer state, inputs", arguments);
  line("results that take no argument's memory", results - aliased);
  line("arena: gathered values", arena_peak.gathered);
  line("arena: gradients", arena_peak.gradients);
  line("arena: activations and other values", arena_peak.values);
  line("arena: messages of collectives", arena_peak.messages);
  line("arena: scratch memory of loops and branches", arena_peak.scratch);
  line("arena: the rest", arena - arena_peak.sum());
  line("constants", constants);
  line("workspace of the kernels", workspace);
  line("total", held_bytes());
  line("offloaded to a file", file);
  if (!arena_peak.largest.empty()) out += "the largest parts of the arena when it is fullest:\n";
  for (const ArenaPeak::Part& part : arena_peak.largest)
    out += fmt::format("  {:>10}  {}\n", bytes_text(part.bytes), part.what);
  return out;
}

}  // namespace tessera
