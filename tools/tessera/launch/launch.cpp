// SPDX-License-Identifier: Apache-2.0
// tessera launch: reads the command line.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "command_line.h"
#include "launch/allocation.h"
#include "launch/child.h"
#include "launch/host_check.h"
#include "launch/hosts.h"
#include "launch/job_folder.h"
#include "launch/program_flags.h"
#include "launch/rank_wrapper.h"
#include "launch/supervise.h"
#include "tessera/base/command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::command {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

std::vector<std::string> words_of(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts)
    for (std::string& word : split(text, ' '))
      if (!word.empty()) out.push_back(std::move(word));
  return out;
}

bool is_in_slurm_job() { return std::getenv("SLURM_JOB_ID") != nullptr; }

// In jobs of these schedulers (PBS, LSF, Grid Engine, Slurm), mpirun may start its daemons without ssh.
bool is_in_job() {
  return is_in_slurm_job() || std::getenv("PBS_JOBID") != nullptr || std::getenv("LSB_JOBID") != nullptr ||
         std::getenv("PE_HOSTFILE") != nullptr;
}

Launcher launcher_of(const Arguments& arguments) {
  Launcher out;
  out.program = arguments.value_or("launcher", is_in_slurm_job() ? "srun" : "mpirun");
  out.is_srun = std::filesystem::path(out.program).filename() == "srun";
  for (const char* name : {"hostfile", "host", "bind-to", "map-by"}) {
    const auto value = arguments.value(name);
    if (!value) continue;
    if (out.is_srun)
      throw UsageError(fmt::format(
          "--{} is an option of mpirun, but the launcher is srun; give options of srun with --launcher-args", name));
    out.words.insert(out.words.end(), {fmt::format("--{}", name), *value});
  }
  for (std::string& word : words_of(arguments.values("launcher-args"))) out.words.push_back(std::move(word));
  if (!out.is_srun) check_hostfiles(out.words);
  return out;
}

std::int64_t ranks_of(const Arguments& arguments, const std::optional<Allocation>& allocation) {
  if (arguments.has("np")) return arguments.number_or("np", 1);
  const char* given = std::getenv("SLURM_NTASKS");
  const std::int64_t tasks = given == nullptr ? 0 : std::atoll(given);
  if (tasks >= 1) return tasks;
  const std::int64_t ranks = allocation ? allocation->ranks() : 0;
  if (ranks < 1) throw UsageError("-np N is missing: the number of ranks");
  return ranks;
}

// The folder in which the launcher starts the program, or "".
std::string working_folder(const std::vector<std::string>& launcher) {
  for (std::size_t i = 0; i < launcher.size(); ++i)
    for (const std::string name : {"-wdir", "--wdir", "-wd", "--wd", "-D", "--chdir"}) {
      if (launcher[i] == name && i + 1 < launcher.size()) return launcher[i + 1];
      if (launcher[i].starts_with(name + "=")) return launcher[i].substr(name.size() + 1);
    }
  return "";
}

// srun knows the hosts of its job.
void take_hosts(const Allocation& allocation, LaunchPlan& plan) {
  plan.hosts = allocation.str();
  if (plan.launcher.is_srun) return;
  for (std::string& word : allocation.options()) plan.launcher.words.push_back(std::move(word));
}

// mpirun counts the cores of this host as slots, unless a scheduler or a variable says otherwise.
void allow_more_ranks_than_cores(LaunchPlan& plan) {
  const bool is_decided = std::getenv("OMPI_MCA_rmaps_base_oversubscribe") != nullptr ||
                          std::getenv("OMPI_MCA_rmaps_base_no_oversubscribe") != nullptr ||
                          std::getenv("OMPI_MCA_orte_default_hostfile") != nullptr;
  const std::int64_t ranks = std::max(plan.ranks, plan.ranks_at_restart);
  const std::int64_t cores = usable_core_count();
  if (plan.launcher.is_srun || is_in_job() || is_decided || !needs_oversubscribe(plan.launcher.words, ranks, cores))
    return;
  plan.launcher.words.emplace_back("--oversubscribe");
  plan.note = fmt::format("{} ranks on {} core{} of this host: passes --oversubscribe to {}", ranks, cores,
                          cores == 1 ? "" : "s", plan.launcher.program);
}

LaunchPlan plan_of(const Arguments& arguments) {
  LaunchPlan out;
  out.program = arguments.inputs();
  out.launcher = launcher_of(arguments);
  const auto allocation = names_hosts(out.launcher.words) ? std::nullopt : allocation_of_job();
  out.ranks = ranks_of(arguments, allocation);
  if (allocation) take_hosts(*allocation, out);
  out.ranks_at_restart = arguments.number_or("np-on-restart", 0);
  allow_more_ranks_than_cores(out);
  out.min_ranks = arguments.number_or("min-ranks", 0);
  out.max_restarts = arguments.number_or("max-restarts", 100);
  out.crash_loop = arguments.number_or("crash-loop", 3);
  out.grace = std::chrono::seconds(arguments.number_or("grace", 30));
  out.retry_after = std::chrono::seconds(arguments.number_or("retry-after", 30));
  out.host_timeout = std::chrono::seconds(arguments.number_or("host-timeout", is_in_job() ? 0 : 10));
  const std::string place = working_folder(out.launcher.words);
  out.output_dir = output_folder(out.program, place);
  out.saves_only_model = saves_only_model(out.program, place);
  out.checkpoints = arguments.value_or("checkpoints", out.output_dir);
  out.resume_words = out.output_dir.empty() ? std::vector<std::string>{} : words_of({"--resume_from_checkpoint true"});
  if (arguments.has("resume-args")) out.resume_words = words_of(arguments.values("resume-args"));
  out.resumes_first = arguments.has("resume-first");
  if (out.min_ranks > out.ranks)
    throw UsageError(fmt::format("--min-ranks {} is more than -np {}", out.min_ranks, out.ranks));
  if (out.resumes_first && out.checkpoints.empty())
    throw UsageError("--resume-first needs --checkpoints DIR: the program has no --output_dir");
  return out;
}

// A name without an address is usually misspelled, and then no restart helps. Returns a signal that ends the check, or 0.
int check_host_names(const LaunchPlan& plan) {
  if (plan.launcher.is_srun || plan.host_timeout.count() == 0) return 0;
  const std::vector<Host> hosts = unresolved(hosts_in(plan.launcher.words));
  if (hosts.empty()) return 0;
  const JobFolder folder;
  const HostCheck check = check_hosts(hosts, launch_agent(plan.launcher.words), plan.host_timeout, folder.path());
  if (check.signal == 0 && !check.lost.empty())
    throw UsageError(fmt::format(
        "the name of host {} cannot be resolved, and it cannot be reached: {}; correct --host or the hostfile",
        check.lost.front().name, check.lost.front().cause));
  return check.signal;
}

int run_launch(const Arguments& arguments) {
  if (const auto folder = arguments.value("rank-wrapper"))
    return run_rank(*folder, arguments.inputs(), arguments.value("launcher") == "srun");
  const LaunchPlan plan = plan_of(arguments);
  block_signals();
  constexpr int kKilledBySignal = 128;
  if (const int signal = check_host_names(plan); signal != 0) return kKilledBySignal + signal;
  return supervise(plan);
}

}  // namespace

const Verb kLaunch = {
    .name = "launch",
    .about = "starts a program on all ranks, and restarts it from its newest checkpoint after a rank has died",
    .notes =
        "TESSERA_RESTART is the number of the restart, 0 at the first start. SIGTERM, SIGINT and SIGUSR1 are passed to "
        "all ranks.\n"
        "The exit code is 0 if all ranks ended with 0; otherwise it is that of the rank that ended first, or 128 + N "
        "if signal N\n"
        "killed this rank.",
    .options =
        {{.name = "np",
          .value = "N",
          .help = "the number of ranks; also -np, -n and --num-cores; default: that of the job of Slurm or PBS",
          .check = integer_in_range(1, kMostRanks),
          .also = {"-np", "-n", "--num-cores"}},
         {"launcher", "NAME", "mpirun, srun or a path to one of them; default: srun in a job of Slurm, else mpirun"},
         {"hostfile", "FILE", "passed to mpirun"},
         {"host", "LIST", "passed to mpirun; default: the hosts of the job of Slurm or PBS, if there is one"},
         {"bind-to", "WHAT", "passed to mpirun"},
         {"map-by", "WHAT", "passed to mpirun"},
         repeated({"launcher-args", "WORDS", "further options of the launcher, separated by spaces; may be repeated"}),
         {"max-restarts", "N", "the largest number of restarts; default: 100", integer_in_range(0)},
         {"crash-loop", "N", "end the job after N consecutive starts without a newer checkpoint; default: 3",
          integer_in_range(1)},
         {"np-on-restart", "N", "the number of ranks of all restarts; default: that of the first start",
          integer_in_range(1, kMostRanks)},
         {"min-ranks", "N",
          "restarts may have fewer ranks, but at least N: one rank fewer after each start without a newer checkpoint, "
          "and fewer if hosts are lost",
          integer_in_range(1, kMostRanks)},
         {"checkpoints", "DIR",
          "the folder that contains the checkpoints checkpoint-N; default: --output_dir of the program"},
         repeated({"resume-args", "WORDS",
                   "arguments that are added to those of the program at a restart, if there is a checkpoint, separated "
                   "by spaces; {checkpoint} stands for its folder; default: --resume_from_checkpoint true, if the "
                   "program has --output_dir; may be repeated"}),
         {"resume-first", "", "the first start also continues from the newest checkpoint, if there is one"},
         {"grace", "SECONDS", "the time from a signal until the ranks are killed; default: 30",
          integer_in_range(0, 1'000'000)},
         {"retry-after", "SECONDS", "the time before a restart if the launcher could not start the ranks; default: 30",
          integer_in_range(0, 1'000'000)},
         {"host-timeout", "SECONDS",
          "the time in which a host must answer before a restart, otherwise the restart leaves it out; default: 10; 0: "
          "hosts are not checked",
          integer_in_range(0, 1'000'000)},
         {"rank-wrapper", "FOLDER", ""}},
    .run = run_launch,
    .input = "-- PROGRAM ARGUMENTS...",
    .input_meaning = "the program to start: tessera launch -np N -- PROGRAM ARGUMENTS...",
    .takes_program = true};

}  // namespace tessera::command
