// SPDX-License-Identifier: Apache-2.0
// `random_programs --cases 100000 --seed 7 --folder found`: long runs of the random program generator.
#include <fmt/core.h>

#include <exception>

#include "random/random_program.h"
#include "random/run_cases.h"

#include "tessera/base/argument_parser.h"
#include "tessera/ir/text.h"

namespace tessera::testing {
namespace {

int run(int argc, char** argv) {
  RunOptions options;
  std::int64_t seed = 0;
  bool table = false;
  bool print = false;
  bool partition_only = false;
  ArgumentParser parser("random_programs", "Random programs under random shardings: partitioned = unpartitioned");
  parser.flag("cases", options.cases, "how many");
  parser.flag("seed", seed, "of the first case; one more for each");
  parser.flag("folder", options.folder, "for failing programs made small");
  parser.flag("rank_share", options.rank_share, "one case in so many runs on virtual ranks too; 0: none");
  parser.flag("partition_only", partition_only, "partition, do not evaluate");
  parser.flag("table", table, "print how often each op stood under each kind of annotation");
  parser.flag("print", print, "print the program of the seed and stop");
  if (!parser.parse(argc, argv)) {
    fmt::print("{}", parser.help());
    return 0;
  }
  options.seed = static_cast<std::uint64_t>(seed);
  options.values = !partition_only;
  if (print) {
    fmt::print("{}", print_program(random_program(options.seed)));
    return 0;
  }
  const RunReport report = run_cases(options);
  if (table) fmt::print("{}", report.table.str());
  for (const auto& failure : report.failures) fmt::print("{}\n", failure);
  fmt::print("{} cases, {:.1f}% with a collective, {} on virtual ranks, {} empty cells, {} failures\n", report.cases,
             100.0 * static_cast<double>(report.with_collective) / static_cast<double>(report.cases), report.on_ranks,
             report.table.empty_cells().size(), report.failures.size());
  return report.failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  try {
    return tessera::testing::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
