// SPDX-License-Identifier: Apache-2.0
// Solves the decision graphs of a folder within their time limits and prints a table: costs, proven bounds, and the
// costs that others reached. bench/solver/results.md has the results.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "instances.h"
#include "tessera/base/argument_parser.h"
#include "tessera/base/error.h"
#include "tessera/solver/solve.h"

namespace tessera::bench {
namespace {

struct Arguments {
  std::optional<double> seconds;
  std::string solutions;
  std::string json;
  std::string only;
  std::int64_t threads = 2;
  std::optional<std::int64_t> work;
};

struct Row {
  std::string name;
  std::string error;
  solver::Solution solution;
  double seconds = 0;
  double limit = 0;
  Known known;
};

constexpr double kDefaultSeconds = 60;
constexpr double kMargin = 0.03;  // of the limit, for what follows the search

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_choices(const std::string& path, const std::vector<std::int32_t>& choices) {
  std::ofstream out(path);
  out << "[";
  for (std::size_t i = 0; i < choices.size(); ++i) out << (i == 0 ? "" : ", ") << choices[i];
  out << "]\n";
  require(out.good(), "{}: cannot be written", path);
}

Row run(const InstanceFile& file, const Arguments& arguments, const Known& known) {
  const auto start = std::chrono::steady_clock::now();
  Row row;
  row.name = file.name;
  row.known = known;
  row.limit = arguments.seconds.value_or(known.seconds.value_or(kDefaultSeconds));
  try {
    const solver::Problem problem = solver::parse_problem(read_text(file.path), file.path);
    solver::Budget budget;
    budget.work = arguments.work.value_or(std::int64_t{1} << 60);
    budget.threads = static_cast<int>(arguments.threads);
    if (!arguments.work || arguments.seconds) budget.seconds = row.limit * (1 - kMargin) - seconds_since(start);
    row.solution = solver::solve(problem, budget);
    if (!arguments.solutions.empty())
      write_choices(arguments.solutions + "/" + file.name + ".json", row.solution.choices);
  } catch (const Error& error) {
    row.error = error.what();
  }
  row.seconds = seconds_since(start);
  return row;
}

std::string text_of(const std::optional<std::int64_t>& cost) { return cost ? fmt::format("{}", *cost) : "-"; }

std::string ratio_to(const Row& row, const std::optional<std::int64_t>& cost) {
  if (!cost || *cost == 0) return "-";
  return fmt::format("{:.4f}", static_cast<double>(row.solution.cost) / static_cast<double>(*cost));
}

void print_row(const Row& row) {
  if (!row.error.empty()) {
    fmt::print("| {} | {} |\n", row.name, row.error);
  } else {
    const solver::Solution& found = row.solution;
    fmt::print("| {} | {} | {} | {:.2f}% | {:.1f} | {:.0f} | {} | {} | {} | {} |\n", row.name, found.cost,
               found.lower_bound, 100 * found.gap(), row.seconds, row.limit, text_of(row.known.best),
               ratio_to(row, row.known.best), text_of(row.known.second), text_of(row.known.xla));
  }
  std::fflush(stdout);
}

std::string json_of(const Row& row) {
  if (!row.error.empty())
    return fmt::format(R"({{"name": "{}", "error": true, "seconds": {:.2f}}})", row.name, row.seconds);
  const solver::Solution& found = row.solution;
  return fmt::format(R"({{"name": "{}", "cost": {}, "lower_bound": {}, "peak": {}, "work": {}, "seconds": {:.2f}}})",
                     row.name, found.cost, found.lower_bound, found.peak, found.work, row.seconds);
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream out(path);
  out << "[";
  for (std::size_t i = 0; i < rows.size(); ++i) out << (i == 0 ? "\n  " : ",\n  ") << json_of(rows[i]);
  out << "\n]\n";
  require(out.good(), "{}: cannot be written", path);
}

int run_all(const std::string& folder, const Arguments& arguments) {
  const std::map<std::string, Known> known = known_costs(folder);
  if (!arguments.solutions.empty()) std::filesystem::create_directories(arguments.solutions);
  fmt::print("| file | cost | lower bound | gap | seconds | limit | best team | cost / best | second | XLA |\n");
  fmt::print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  std::vector<Row> rows;
  bool failed = false;
  for (const InstanceFile& file : list_instances(folder)) {
    if (!arguments.only.empty() && arguments.only.find(file.name) == std::string::npos) continue;
    const auto found = known.find(file.name);
    rows.push_back(run(file, arguments, found == known.end() ? Known{} : found->second));
    print_row(rows.back());
    failed |= !rows.back().error.empty();
  }
  if (!arguments.json.empty()) write_json(arguments.json, rows);
  return failed ? 1 : 0;
}

int main_of(int argc, const char* const* argv) {
  Arguments arguments;
  ArgumentParser parser("solver_bench FOLDER", "Solves the decision graphs of a folder: NAME.json or NAME.json.gz.");
  parser.flag("seconds", arguments.seconds, "wall time per instance with reading; default: the folder's table, or 60");
  parser.flag("work", arguments.work,
              "units of work per instance; without --seconds the result is the same in each run");
  parser.flag("threads", arguments.threads, "threads of the search; the result for --work does not depend on them");
  parser.flag("only", arguments.only, "names of instances, with commas; default: all");
  parser.flag("solutions", arguments.solutions,
              "folder for the assignments: NAME.json, a list with the choice of every node");
  parser.flag("json", arguments.json, "file for the results");
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string folder;
  if (!words.empty() && !words[0].starts_with("-")) {
    folder = words[0];
    words.erase(words.begin());
  }
  if (!parser.parse(words)) {
    fmt::print("{}", parser.help());
    return 0;
  }
  require(!folder.empty(), "solver_bench needs a folder of instances: solver_bench FOLDER [--seconds N]");
  return run_all(folder, arguments);
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  try {
    return tessera::bench::main_of(argc, argv);
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "solver_bench: {}\n", tessera::message_for_user(error));
    return 2;
  }
}
