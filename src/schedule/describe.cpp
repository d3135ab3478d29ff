// SPDX-License-Identifier: Apache-2.0
// Prints a schedule: the instructions that run together, and the bytes they read and write.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tessera/base/text.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

// Text such as `add, multiply 3`, in the order of first occurrence.
std::string ops_of(const Computation& computation, const Step& step) {
  std::vector<std::pair<std::string_view, int>> counts;
  for (const Id id : step.instructions) {
    const std::string_view name = computation[id].op->name;
    const auto found = std::find_if(counts.begin(), counts.end(), [&](const auto& row) { return row.first == name; });
    if (found == counts.end())
      counts.emplace_back(name, 1);
    else
      ++found->second;
  }
  std::vector<std::string> words;
  for (const auto& [name, count] : counts)
    words.push_back(count == 1 ? std::string(name) : fmt::format("{} {}", name, count));
  return fmt::format("{}", fmt::join(words, ", "));
}

// The values that a step leaves in memory; its last value if there are none.
std::string results_of(const Computation& computation, const Schedule& schedule, const Step& step) {
  std::vector<std::string> out;
  for (const Id id : step.instructions) {
    const auto& leaves = at(schedule.access, id);
    const bool is_kept = step.fused && std::any_of(leaves.begin(), leaves.end(),
                                                   [](const Access& leaf) { return leaf.buffer != kNoBuffer; });
    if (is_kept || (id == step.instructions.back() && out.empty()))
      out.push_back(fmt::format("{} (%{})", computation[id].type.str(), computation[id].name));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace

StepSummary summarize(const Program& program, const Schedule& schedule, const Step& step) {
  const Computation& computation = program[schedule.computation];
  std::map<BufferId, std::int64_t> read;
  std::map<BufferId, std::int64_t> written;
  StepSummary out;
  for (const Id id : step.instructions) {
    for (const Id operand : computation[id].operands)
      for (const Access& access : at(schedule.access, operand)) {
        const bool is_inside =
            std::find(step.instructions.begin(), step.instructions.end(), access.source) != step.instructions.end();
        if (access.buffer == kNoBuffer || is_inside) continue;
        const std::int64_t bytes = computation[operand].type.is_array() ? computation[operand].type.byte_size() : 0;
        std::int64_t& most = read[access.buffer];
        most = std::min(at(schedule.buffers, access.buffer).bytes, std::max(most, bytes));
      }
    for (const Access& access : at(schedule.access, id))
      if (access.buffer != kNoBuffer) written[access.buffer] = at(schedule.buffers, access.buffer).bytes;
  }
  for (const auto& [buffer, bytes] : read) out.read += bytes;
  for (const auto& [buffer, bytes] : written) out.written += bytes;
  const Instruction& last = computation[step.instructions.back()];
  std::vector<std::string> operands;
  if (!step.fused)
    for (const Id operand : last.operands) operands.push_back(computation[operand].type.str());
  out.what = fmt::format("{}{}{} -> {}", step.fused ? "fused " : "", ops_of(computation, step),
                         operands.empty() ? "" : fmt::format(" of {}", fmt::join(operands, ", ")),
                         results_of(computation, schedule, step));
  return out;
}

std::string describe(const Program& program, const Schedule& schedule) {
  const std::string file = schedule.file_bytes > 0 ? fmt::format(", file {} bytes", schedule.file_bytes) : "";
  std::string out = fmt::format("{} steps, arena {} bytes, peak {} bytes{}\n    read      written   step\n",
                                schedule.steps.size(), schedule.arena_bytes, schedule.peak_bytes(), file);
  for (const Step& step : schedule.steps) {
    const StepSummary summary = summarize(program, schedule, step);
    out += fmt::format("{:>11} {:>11}   {}\n", summary.read, summary.written, summary.what);
  }
  return out;
}

}  // namespace tessera
