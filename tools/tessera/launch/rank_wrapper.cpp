// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_wrapper.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "launch/child.h"
#include "launch/job_folder.h"

namespace tessera::command {
namespace {

int rank_of_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 0;
}

// mpirun sends SIGTERM to end the ranks that are left when one has ended, and SIGKILL after a second. Then there must
// be time left for the report.
constexpr auto kBeforeKill = std::chrono::milliseconds(700);

// Open MPI sends signals to this process. Slurm sends them to the program too, and SIGTERM also to `tessera launch` if the
// job is cancelled, which then passes it on: a second SIGTERM would end the program without a checkpoint.
void pass_on(Child& child, int signal, bool is_under_srun, bool is_told_to_end) {
  if (is_under_srun && (signal != SIGUSR2 || is_told_to_end)) return;
  kill(-child.process(), signal_for_rank(signal));
  if (!is_under_srun && signal == SIGTERM) child.set_deadline(kBeforeKill);
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// PATH, and after it the folder of this program: run_clm is beside `tessera`, also on hosts whose PATH does not have this
// folder.
std::string path_to_programs() {
  const char* path = std::getenv("PATH");
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  return std::string(path == nullptr ? "/bin:/usr/bin" : path) + ":" + folder;
}

std::int64_t nanoseconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void end_with_launcher() {
  const pid_t launcher = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);                 // NOLINT(cppcoreguidelines-pro-type-vararg)
  if (getppid() != launcher) (void)raise(SIGKILL);  // it has ended before
}

}  // namespace

int run_rank(const std::string& folder, const std::vector<std::string>& program, bool is_under_srun) {
  block_signals();
  end_with_launcher();
  for (const std::string& path : remove_left_job_folders())
    write_error_text(deleted_folder_text(path) + " on host " + host_name() + "\n");
  const JobFolder in_use(folder);
  LastLines last;
  ChildOptions options{.words = program, .signal_at_death = SIGKILL, .has_input = true};
  unsetenv("OMPI_MCA_orte_local_tmpdir_base");  // mpirun has told the rank the folder in another way
  if (is_under_srun) options.ignored_signals = {SIGUSR2};
  options.variables.emplace_back("OMPI_MCA_btl_vader_backing_directory", folder);
  options.variables.emplace_back("PATH", path_to_programs());
  Child child(options);
  write_error_text(start_report(rank_of_process()));
  bool is_told_to_end = false;
  const ProcessEnd end = child.wait({.on_text =
                                         [&](std::string_view text) {
                                           last.add(text);
                                           write_error_text(text);
                                         },
                                     .on_signal =
                                         [&](int signal) {
                                           pass_on(child, signal, is_under_srun, is_told_to_end);
                                           is_told_to_end = is_told_to_end || signal == SIGTERM;
                                         },
                                     .on_time = [&] { kill(-child.process(), SIGKILL); }});
  kill(-child.process(), SIGKILL);  // processes that the program has left
  if (end.is_good()) return 0;
  const bool is_ended = is_told_to_end && (end.signal == SIGTERM || end.signal == SIGKILL);
  RankEnd report{rank_of_process(),        host_name(), child.process(), end, is_ended,
                 nanoseconds_since_1970(), last.lines()};
  for (const std::string& line : report_lines(report)) write_error_text(line);
  return end.status();
}

}  // namespace tessera::command
