// SPDX-License-Identifier: Apache-2.0
// Writes the decision graphs with which the lowering keeps a memory budget, and prints the costs that the solver finds.
//
//   recompute_graphs PROGRAM.hlo FOLDER      one graph for each share of the arena and each stride
//
// recompute_ilp.py solves the same graphs as integer linear programs.
#include <fmt/format.h>

#include <cstdio>

#include "rematerialize/recompute_problem.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/ir/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/op_table.h"
#include "tessera/schedule/schedule.h"
#include "tessera/solver/solve.h"

namespace tessera {
namespace {

void write_graphs(const std::string& path, const std::string& folder) {
  constexpr std::int64_t kSmallestShare = 4096;
  const Program program = lower(parse_program(read_file(path), op_table()), 1, {});
  const auto schedule = make_schedule(program);
  const auto values =
      find_live_values(program, *schedule, MachineModel::load("cpu-node"), schedule->arena_bytes / kSmallestShare);
  for (const int stride : {1, 2, 4})
    for (const double share : {0.9, 0.8, 0.7, 0.6, 0.5, 0.4}) {
      RecomputeProblem graph = recompute_problem(*schedule, values, stride, false);
      solver::Problem& problem = graph.problem;
      problem.memory_limit = static_cast<std::int64_t>(share * static_cast<double>(schedule->arena_bytes));
      if (solver::least_peak(problem) > *problem.memory_limit) continue;
      const auto solution = solver::solve_if_feasible(problem, recompute_budget(graph));
      const std::string file = fmt::format("{}/{}-{}.json", folder, stride, share);
      write_file(file, solver::problem_text(problem));
      fmt::print("{} {} {}\n", file, problem.nodes.size(), solution ? std::to_string(solution->cost) : "none");
    }
}

}  // namespace
}  // namespace tessera

int main(int count, char** words) {
  if (count != 3) {
    fmt::print(stderr, "usage: recompute_graphs PROGRAM.hlo FOLDER\n");
    return 2;
  }
  try {
    tessera::write_graphs(words[1], words[2]);
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "recompute_graphs: {}\n", error.what());
    return 1;
  }
  return 0;
}
