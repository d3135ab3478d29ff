// SPDX-License-Identifier: Apache-2.0
#include "random/run_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "random/random_program.h"
#include "random/shrink.h"

#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ir/text.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/schedule/schedule.h"

namespace tessera::testing {
namespace {

bool is_collective(const Instruction& instruction) { return instruction.op->role == Role::kCollective; }

bool holds_collective(const Program& program) {
  for (const auto& computation : program.computations)
    if (std::any_of(computation->instructions.begin(), computation->instructions.end(), is_collective)) return true;
  return false;
}

bool has_regions(const Program& program) {
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      if (manual_border(instruction) != ManualBorder::kNone) return true;
  return false;
}

std::vector<Literal> run_on_ranks(const Program& program, const std::vector<std::vector<Literal>>& arguments) {
  std::vector<Literal> results(arguments.size());
  run_virtual_ranks(static_cast<int>(arguments.size()), [&](ProcessGroup& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    results[rank] = run_program(program, world, arguments[rank]);
  });
  return results;
}

}  // namespace

void CaseTable::count(const Program& program) {
  std::map<std::string_view, ShardingKinds> met;
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions) met[instruction.op->name] |= kinds_of(instruction);
  for (const auto& [op, kinds] : met)
    for (std::size_t k = 0; k < kinds.size(); ++k) cells_[op][k] += kinds.test(k) ? 1 : 0;
}

std::vector<std::string> CaseTable::empty_cells() const {
  std::vector<std::string> out;
  for (const OpDef* op : op_table().rows())
    for (int k = 0; k < kKindCount; ++k) {
      const auto kind = static_cast<ShardingKind>(k);
      const auto row = cells_.find(op->name);
      const bool met = row != cells_.end() && row->second[static_cast<std::size_t>(k)] > 0;
      if (!met && impossible({op->name, kind}).empty()) out.push_back(fmt::format("{}, {}", op->name, kind_name(kind)));
    }
  return out;
}

std::string CaseTable::str() const {
  std::string out = fmt::format("{:<26}", "op");
  for (int k = 0; k < kKindCount; ++k) out += fmt::format(" {:>8.8}", kind_name(static_cast<ShardingKind>(k)));
  std::map<std::string_view, std::int64_t> reasons;
  for (const OpDef* op : op_table().rows()) {
    out += fmt::format("\n{:<26}", op->name);
    const auto row = cells_.find(op->name);
    for (int k = 0; k < kKindCount; ++k) {
      const auto reason = impossible({op->name, static_cast<ShardingKind>(k)});
      const auto count = row == cells_.end() ? 0 : row->second[static_cast<std::size_t>(k)];
      if (!reason.empty()) ++reasons[reason];
      out += count == 0 && !reason.empty() ? fmt::format(" {:>8}", "-") : fmt::format(" {:>8}", count);
    }
  }
  for (const auto& [reason, count] : reasons) out += fmt::format("\n- in {} cells: {}", count, reason);
  return out + "\n";
}

namespace {

// Checks the schedules for ranks on one node and on two.
void verify_on_nodes(const Program& program) {
  const auto ranks = static_cast<std::size_t>(program.num_partitions);
  std::vector<int> nodes(ranks, 0);
  for (int i = 0; i < (ranks > 1 ? 2 : 1); ++i) {
    const ExecutionPlan plan =
        plan_execution(program, ExecutionOptions::from_environment(static_cast<int>(ranks), nodes));
    verify_schedule(plan.program, *plan.schedule);
    std::fill(nodes.begin() + static_cast<std::ptrdiff_t>(ranks / 2), nodes.end(), 1);
  }
}

}  // namespace

std::string failure_of(const Program& program, Trial trial, bool* has_collective) {
  try {
    const Partitioned parts = partition(program, {.keep_shardings = trial == Trial::kValues});
    verify(parts.program);
    verify_on_nodes(parts.program);
    if (has_collective != nullptr) *has_collective = holds_collective(parts.program);
    if (trial == Trial::kPartition) return {};
    CheckOptions options{.seed = 1, .trip_limit = 100, .run = nullptr};
    if (trial == Trial::kRanks) options.run = run_on_ranks;
    const CheckReport report = check_partitioned(program, parts, options);
    return report.passed ? std::string() : fmt::format("{}", fmt::join(report.failures, "\n"));
  } catch (const std::exception& error) {
    return error.what();
  }
}

namespace {

// Returns the start of the first line of a reason without numbers: a smaller program with a different reason has a
// different failure.
std::string kind_of_failure(const std::string& reason) {
  const bool differs = reason.find("expected ") != std::string::npos;
  if (differs) return "differs";
  std::string out;
  for (const char c : reason.substr(0, reason.find('\n')))
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) out += c;
  return out.substr(0, 24);
}

class Runner {
 public:
  explicit Runner(const RunOptions& options) : options_(options) {}

  RunReport run() {
    for (std::int64_t i = 0; i < options_.cases && isize(report_.failures) < options_.most_failures; ++i)
      one(options_.seed + static_cast<std::uint64_t>(i));
    return std::move(report_);
  }

 private:
  void one(std::uint64_t seed) {
    ++report_.cases;
    Program program;
    try {
      program = random_program(seed);
    } catch (const std::exception& error) {
      report_.failures.push_back(fmt::format("seed {}: no program: {}", seed, error.what()));
      return;
    }
    report_.table.count(program);
    Dice dice(hash_mix(seed, 5));
    // HLO's text loses a device order that no axis describes within replicated groups, but manual regions need this
    // order.
    const bool can_forget = !program.meshes.front().device_order().empty() && has_regions(program);
    if (options_.text_share > 0 && !can_forget && dice.one_in(static_cast<int>(options_.text_share)) &&
        !reread(seed, program))
      return;
    bool has_collective = false;
    const Trial trial = options_.values ? Trial::kValues : Trial::kPartition;
    std::string reason = failure_of(program, trial, &has_collective);
    report_.with_collective += has_collective ? 1 : 0;
    if (!reason.empty()) return fail(seed, program, trial, reason);
    if (!options_.values || options_.rank_share == 0 || !dice.one_in(static_cast<int>(options_.rank_share))) return;
    ++report_.on_ranks;
    reason = failure_of(program, Trial::kRanks);
    if (!reason.empty()) fail(seed, program, Trial::kRanks, reason);
  }

  // Checks that the program reads back as equal. The case continues with the program that XLA would have read.
  bool reread(std::uint64_t seed, Program& program) {
    std::string reason;
    try {
      reason = difference(program, parse_program(print_program(program), op_table()));
      program = parse_program(print_program(program, {.for_xla = true}), op_table());
    } catch (const std::exception& error) {
      reason = error.what();
    }
    if (reason.empty()) return true;
    report_.failures.push_back(
        fmt::format("seed {}: reads back otherwise: {}\n{}", seed, reason, print_program(program)));
    return false;
  }

  void fail(std::uint64_t seed, const Program& program, Trial trial, const std::string& reason) {
    const std::string kind = kind_of_failure(reason);
    if (options_.folder.empty()) {
      report_.failures.push_back(fmt::format("seed {}: {}\n{}", seed, reason, print_program(program)));
      return;
    }
    const Program least =
        shrink(program, [&](const Program& smaller) { return kind_of_failure(failure_of(smaller, trial)) == kind; });
    const std::string path = fmt::format("{}/seed_{}.hlo", options_.folder, seed);
    std::string why = "// " + failure_of(least, trial);
    for (std::size_t i = 0; (i = why.find('\n', i)) != std::string::npos; i += 4) why.replace(i, 1, "\n// ");
    write_file(path, fmt::format("// seed {}\n{}\n{}", seed, why, print_program(least)));
    report_.failures.push_back(fmt::format("seed {}: {} ({})", seed, reason.substr(0, reason.find('\n')), path));
  }

  RunOptions options_;
  RunReport report_;
};

}  // namespace

RunReport run_cases(const RunOptions& options) { return Runner(options).run(); }

}  // namespace tessera::testing
