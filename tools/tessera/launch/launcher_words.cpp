// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher_words.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "launch/program_flags.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks for it

namespace tessera::command {
namespace {

// The variables of these names reach the ranks of all hosts.
constexpr std::array<std::string_view, 4> kPassed = {"TESSERA_", "PT_XLA_", "XLA_METRICS_", "OMP_"};

std::vector<std::string> variables_to_pass() {
  std::vector<std::string> out = {"TESSERA_RESTART", "TESSERA_JOB_START"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    const bool is_wanted =
        std::any_of(kPassed.begin(), kPassed.end(), [&](auto start) { return name.starts_with(start); });
    if (is_wanted && std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  }
  return out;
}

}  // namespace

std::vector<std::string> launcher_words(const Launcher& launcher, const Placement& on, const std::string& folder,
                                        LauncherMessages messages) {
  const std::string count = std::to_string(on.ranks);
  std::vector<std::string> out = {launcher.program, launcher.is_srun ? "-n" : "-np", count};
  if (launcher.is_srun) {
    out.emplace_back("--kill-on-bad-exit=1");
  } else {
    if (messages == LauncherMessages::kNone) out.emplace_back("-q");
    out.insert(out.end(), {"--mca", "orte_local_tmpdir_base", folder});
    for (const std::string& name : variables_to_pass()) out.insert(out.end(), {"-x", name});
  }
  out.insert(out.end(), on.options.begin(), on.options.end());
  out.insert(out.end(), {std::filesystem::read_symlink("/proc/self/exe").string(), "launch", "--rank-wrapper", folder});
  if (launcher.is_srun) out.insert(out.end(), {"--launcher", "srun"});
  out.emplace_back("--");
  return out;
}

std::vector<std::string> program_words(const LaunchPlan& plan, const std::string& checkpoint) {
  if (checkpoint.empty() || plan.resume_words.empty()) return plan.program;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < plan.program.size(); ++i) {
    const std::string& word = plan.program[i];
    if (!is_resume_flag(word)) {
      out.push_back(word);
      continue;
    }
    if (has_next_value(plan.program, i)) ++i;
  }
  for (std::string word : plan.resume_words) {
    constexpr std::string_view kPlace = "{checkpoint}";
    for (auto at = word.find(kPlace); at != std::string::npos; at = word.find(kPlace, at + checkpoint.size()))
      word.replace(at, kPlace.size(), checkpoint);
    out.push_back(std::move(word));
  }
  return out;
}

}  // namespace tessera::command
