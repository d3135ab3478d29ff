// SPDX-License-Identifier: Apache-2.0
// `tessera report [FILE]`: the text to attach to an issue.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command_line.h"
#include "env.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"

namespace tessera::command {
namespace {

namespace fs = std::filesystem;

std::string section(std::string_view title, std::string text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  return fmt::format("\n== {} ==\n{}", title, text);
}

// The report of the last step, from the file to which a run adds one for each step.
std::string last_metrics() {
  const std::string& path = options().text("XLA_METRICS_FILE");
  if (path.empty()) return "none: run the job with XLA_METRICS_FILE=FILE, then this command with the same variable";
  if (std::string reason = why_unreadable(path); !reason.empty()) return reason;
  const std::string text = read_file(path);
  const auto last = text.rfind("[MetricsData;");
  return last == std::string::npos ? fmt::format("none: {} has no report", path) : text.substr(last);
}

// The dumped programs. The name of a folder ends with the hash of the program.
std::string dumped_programs() {
  const std::string& folder = options().text("TESSERA_DUMP_DIR");
  if (folder.empty()) return "none: run the job with TESSERA_DUMP_DIR=FOLDER, then this command with the same variable";
  std::error_code error;
  std::vector<std::string> programs;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_directory()) continue;
    std::int64_t files = 0;
    for (const auto& inner : fs::recursive_directory_iterator(entry.path(), error))
      if (inner.is_regular_file()) ++files;
    programs.push_back(fmt::format("{} ({} files)", printable(entry.path().filename().string()), files));
  }
  if (error) return fmt::format("cannot read {}: {}", folder, error.message());
  std::sort(programs.begin(), programs.end());
  return programs.empty() ? fmt::format("none in {}", folder) : fmt::format("{}", fmt::join(programs, "\n"));
}

// The end of the output of a job, where its error is.
std::string last_lines(const std::string& path) {
  constexpr int kMost = 200;
  std::string text = read_file(path);
  while (text.ends_with('\n')) text.pop_back();
  auto start = text.size();
  for (int line = 0; line < kMost && start != std::string::npos; ++line)
    start = start == 0 ? std::string::npos : text.rfind('\n', start - 1);
  return printable(start == std::string::npos ? text : text.substr(start + 1));
}

std::string report_text(const Arguments& arguments) {
  std::string out = section("environment", environment_text()).substr(1);
  out += section("metrics of the last step", last_metrics());
  out += section("programs", dumped_programs());
  if (!arguments.inputs().empty()) out += section("end of " + arguments.input(), last_lines(arguments.input()));
  return out;
}

int run_report(const Arguments& arguments) {
  if (!arguments.inputs().empty()) check_readable(arguments.input());
  return on_first_rank([&] { return report_text(arguments); });
}

}  // namespace

const Verb kReport = {
    .name = "report",
    .about = "prints what an issue report should contain",
    .notes =
        "The text has the output of `tessera env`, the last report in XLA_METRICS_FILE, the names and hashes of the\n"
        "programs in TESSERA_DUMP_DIR, and the last 200 lines of FILE, the output of the job. Read it before you\n"
        "publish it.",
    .options = {},
    .run = run_report,
    .input = "[FILE]",
    .input_meaning = "a file with the output of the job",
    .needs_input = false};

}  // namespace tessera::command
