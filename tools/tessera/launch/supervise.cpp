// SPDX-License-Identifier: Apache-2.0
#include "launch/supervise.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "launch/checkpoint_watch.h"
#include "launch/child.h"
#include "launch/host_check.h"
#include "launch/hosts.h"
#include "launch/job_folder.h"
#include "launch/launcher_words.h"
#include "launch/program_flags.h"
#include "launch/rank_end.h"
#include "tessera/base/error.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::command {
namespace {

constexpr auto kTimeForPeers = std::chrono::seconds(5);    // to end after a rank has ended
constexpr auto kTimeForMpirun = std::chrono::seconds(10);  // to end its ranks after SIGTERM
constexpr auto kTimeForSlurm = std::chrono::seconds(90);   // the same; Slurm waits for KillWait, 30 s by default
constexpr int kKilledBySignal = 128;
constexpr int kUsageError = 2;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

void say(const std::string& text) { write_error_text("tessera launch: " + text + "\n"); }

std::chrono::seconds time_to_end(const LaunchPlan& plan, std::chrono::seconds under_mpirun) {
  return plan.launcher.is_srun ? kTimeForSlurm : under_mpirun;
}

// How a start ended.
struct Outcome {
  ProcessEnd launcher;
  std::map<int, RankEnd> ranks;  // those that ended otherwise than with 0
  bool has_started = false;      // a rank
  std::string text;              // the beginning of what it wrote, without reports
  int output_error = 0;          // of the first part of the standard output that could not be written
  double seconds = 0;
  [[nodiscard]] bool is_good() const { return launcher.is_good() && ranks.empty(); }
  /// The rank that ended first by itself; null if none did.
  [[nodiscard]] const RankEnd* first() const {
    const RankEnd* out = nullptr;
    for (const auto& [rank, end] : ranks)
      if (!end.is_ended && (out == nullptr || end.time < out->time)) out = &end;
    return out;
  }
};

struct Cause {
  int status = 0;
  std::string text;
};

// mpirun ends with 255 if it cannot reach a host, or has lost it.
bool is_of_signal(int status) { return status > kKilledBySignal && status <= kKilledBySignal + SIGRTMAX; }

Cause cause_of(const Outcome& outcome, const std::string& launcher) {
  const RankEnd* first = outcome.first();
  const int status = outcome.launcher.status();
  if (outcome.launcher.signal != 0) return {status, fmt::format("{} {}", launcher, outcome.launcher.str())};
  const bool is_reported = std::any_of(outcome.ranks.begin(), outcome.ranks.end(), [&](const auto& one) {
    return !one.second.is_ended && one.second.end.status() == status;
  });
  if (is_of_signal(status) && !is_reported)
    return {status, fmt::format("the process that runs a rank {}, as {} reports",
                                ProcessEnd{0, status - kKilledBySignal}.str(), launcher)};
  if (first == nullptr) return {status, fmt::format("{} {}", launcher, outcome.launcher.str())};
  return {first->end.status(),
          fmt::format("rank {} (host {}, process {}) {}", first->rank, first->host, first->process, first->str())};
}

std::string count_of_ranks(std::int64_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

void print_last_words(const Outcome& outcome) {
  std::string out;
  for (const auto& [rank, end] : outcome.ranks) {
    out += fmt::format("  rank {} {}{}\n", rank, end.str(), end.last_words.empty() ? "" : "; its last output:");
    for (const std::string& line : end.last_words) out += fmt::format("    {}\n", line);
  }
  write_error_text(out);
}

// The time at which `tessera launch` began, in seconds since the epoch.
std::string job_start() {
  static const std::time_t kStart = std::time(nullptr);
  return std::to_string(kStart);
}

// One start of the job.
class Start {
 public:
  Start(const LaunchPlan& plan, std::vector<std::string> words, std::int64_t restart)
      : plan_(plan),
        child_({.words = std::move(words),
                .variables = {{"TESSERA_RESTART", std::to_string(restart)}, {"TESSERA_JOB_START", job_start()}},
                .signal_at_death = SIGTERM,
                .passes_output_on = true}) {}

  Outcome run() {
    const auto begin = std::chrono::steady_clock::now();
    Outcome out;
    out.launcher = child_.wait({.on_text = [&](std::string_view text) { pass_on(text); },
                                .on_signal = [&](int signal) { pass_on(signal); },
                                .on_time = [&] { press(); }});
    out.ranks = reports_.ends();
    out.has_started = reports_.has_started() || is_of_signal(out.launcher.status());
    out.text = std::move(text_);
    out.output_error = child_.output_error();
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return out;
  }
  /// The first signal that was passed on, or 0.
  [[nodiscard]] int stop_signal() const { return stop_signal_; }

 private:
  void pass_on(std::string_view text) {
    const bool is_first = reports_.ends().empty();
    const std::string own = reports_.take(text);
    write_error_text(own);
    constexpr std::size_t kMostText = 1 << 16;
    if (text_.size() < kMostText) text_ += own;
    if (is_first && !reports_.ends().empty() && stop_signal_ == 0)
      child_.set_deadline(time_to_end(plan_, kTimeForPeers));
  }
  void pass_on(int signal) {
    kill(child_.process(), signal_for_launcher(signal, plan_.launcher.is_srun));
    if (stop_signal_ != 0) return;
    stop_signal_ = signal;
    say(fmt::format("passes SIG{} to all ranks, which have {} s to end", sigabbrev_np(signal), plan_.grace.count()));
    child_.set_deadline(plan_.grace);
  }
  // The time to end is over.
  void press() {
    say(kills_ == 0 ? "the ranks that are left have not ended in time and are killed"
                    : "the launcher does not end and is killed");
    kill(child_.process(), kills_ == 0 ? SIGTERM : SIGKILL);
    ++kills_;
    child_.set_deadline(time_to_end(plan_, kTimeForMpirun));
  }

  const LaunchPlan& plan_;
  Child child_;
  ReportReader reports_;
  std::string text_;
  int stop_signal_ = 0;
  int kills_ = 0;
};

// Waits, and returns the first signal that arrives meanwhile, or 0.
int signal_within(std::chrono::seconds time) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
  const timespec most{time.count(), 0};
  return std::max(0, sigtimedwait(&signals, nullptr, &most));
}

class Supervisor {
 public:
  explicit Supervisor(const LaunchPlan& plan)
      : plan_(plan),
        ranks_(plan.ranks),
        placement_{plan.ranks, plan.launcher.words},
        checkpoints_(plan.checkpoints, plan.resumes_first || resumes_newest(plan.program)) {
    owns_output_ = !holds_run() || (plan.resumes_first && !holds_result());
  }

  int run() {
    while (true) {
      const std::string checkpoint = restart_ > 0 || plan_.resumes_first ? checkpoints_.newest(say) : "";
      if (restart_ > 0) announce(checkpoint);
      std::vector<std::string> words = launcher_words(plan_.launcher, placement_, folder_.path());
      const auto program = restores_first(checkpoint) ? resuming_words() : words_of_program(checkpoint);
      words.insert(words.end(), program.begin(), program.end());
      if (checkpoint.empty() && starts_over()) words.emplace_back("--overwrite_output_dir");
      Start start(plan_, std::move(words), restart_);
      Outcome outcome = start.run();
      if (output_error_ == 0) output_error_ = outcome.output_error;
      bool is_alone = folder_.wait_until_alone(time_to_end(plan_, kTimeForMpirun));
      if (!is_alone) say(fmt::format("processes of the job have not ended; they use {}", folder_.path()));
      if (start.stop_signal() != 0) return status_after_signal(outcome, start.stop_signal());
      if (outcome.is_good()) return status_of_good_job();
      if (is_alone && !outcome.has_started && outcome.text.empty()) {
        if (const int signal = show_message(outcome); signal != 0) return kKilledBySignal + signal;
        is_alone = folder_.wait_until_alone(time_to_end(plan_, kTimeForMpirun));
      }
      const Cause cause = cause_of(outcome, plan_.launcher.program);
      say(fmt::format("start {} ended after {:.1f} s: {}", restart_ + 1, outcome.seconds, cause.text));
      print_last_words(outcome);
      const std::string reason = is_alone ? why_over(outcome, cause) : "processes of the last start are still running";
      if (!reason.empty()) {
        say(fmt::format("does not start again: {}", reason));
        return cause.status;
      }
      if (const int signal = prepare_restart(outcome); signal != 0) return kKilledBySignal + signal;
    }
  }

 private:
  [[nodiscard]] bool holds_run() const {
    std::error_code ignored;
    return !plan_.output_dir.empty() && (std::filesystem::exists(plan_.output_dir + "/trainer_state.json", ignored) ||
                                         !checkpoints_in(plan_.output_dir).empty() ||
                                         holds_replaced_run(plan_.output_dir) || !weights_in(plan_.output_dir).empty());
  }
  // True if the folder of the job has a finished run, a model, or checkpoints, complete or not. They are not written over
  // unasked.
  [[nodiscard]] bool holds_result() const {
    if (holds_replaced_run(plan_.output_dir) || !weights_in(plan_.output_dir).empty()) return true;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(plan_.output_dir, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("checkpoint-") && name.find('.') == std::string::npos) return true;
    }
    try {
      const JsonObject state = JsonObject::from_file(plan_.output_dir + "/trainer_state.json");
      std::int64_t done = 0;
      std::int64_t all = 1;
      state.read("global_step", done);
      state.read("max_steps", all);
      return done >= all;
    } catch (const Error&) {
      return false;
    }
  }
  // True if the job has left a log in --output_dir, but no checkpoint. The program would refuse to write over it.
  [[nodiscard]] bool starts_over() const {
    return (restart_ > 0 || plan_.resumes_first) && owns_output_ && holds_run();
  }

  // True if the program will restore the checkpoints of an earlier run before it looks for the newest one.
  [[nodiscard]] bool restores_first(const std::string& checkpoint) const {
    return restart_ == 0 && plan_.resumes_first && checkpoint.empty() && !plan_.output_dir.empty() &&
           holds_replaced_run(plan_.output_dir);
  }
  [[nodiscard]] std::vector<std::string> resuming_words() const {
    std::vector<std::string> out = plan_.program;
    if (std::none_of(out.begin(), out.end(), is_resume_flag))
      out.insert(out.end(), {"--resume_from_checkpoint", "true"});
    return out;
  }

  // The program chooses the newest checkpoint itself, because that one may be damaged. That is not the announced one if
  // checkpoints from before the job have higher numbers.
  [[nodiscard]] std::vector<std::string> words_of_program(const std::string& checkpoint) const {
    if (checkpoint.empty() || checkpoints_.is_last(checkpoint)) return program_words(plan_, checkpoint);
    LaunchPlan named = plan_;
    named.resume_words = naming_checkpoint(std::move(named.resume_words));
    return program_words(named, std::filesystem::absolute(checkpoint).string());
  }

  void announce(const std::string& checkpoint) const {
    const std::string from = !checkpoint.empty() ? "from " + checkpoint
                             : checkpoints_.has_old()
                                 ? fmt::format(
                                       "from the beginning: {} has only checkpoints from before this job, from "
                                       "which --resume-first continues",
                                       plan_.checkpoints)
                                 : "from the beginning: there is no checkpoint";
    say(fmt::format("restart {} of at most {} with {}, {}", restart_, plan_.max_restarts,
                    count_of_ranks(placement_.ranks), from));
  }

  // Without messages (-q), mpirun does not tell why it has started no rank. It does when it is to start `true` instead of
  // the program. Returns a signal that arrives meanwhile, or 0.
  [[nodiscard]] int show_message(Outcome& outcome) {
    if (plan_.launcher.is_srun || outcome.launcher.signal != 0) return 0;
    folder_.clear();
    std::vector<std::string> words = launcher_words(plan_.launcher, placement_, folder_.path(), LauncherMessages::kAll);
    words.emplace_back("true");
    Start start(plan_, std::move(words), restart_);
    outcome.text = start.run().text;
    if (outcome.text.find("not enough slots") != std::string::npos)
      say("--launcher-args --oversubscribe allows more ranks than there are slots");
    return start.stop_signal();
  }

  // Output that was lost is an error, as in every program, but does not end the job.
  [[nodiscard]] int status_of_good_job() const {
    if (output_error_ == 0) return 0;
    say(fmt::format("cannot write to standard output: {}", std::generic_category().message(output_error_)));
    return 1;
  }

  [[nodiscard]] int status_after_signal(const Outcome& outcome, int signal) const {
    const RankEnd* first = outcome.first();
    if (outcome.is_good()) return status_of_good_job();
    return first != nullptr && first->end.signal == 0 ? first->end.exit_code : kKilledBySignal + signal;
  }

  // Returns "" if the job can be started again.
  std::string why_over(const Outcome& outcome, const Cause& cause) {
    const bool has_progress = checkpoints_.has_new();
    starts_without_progress_ = has_progress ? 0 : starts_without_progress_ + 1;
    const bool is_rank = outcome.first() != nullptr;
    if (is_rank && (cause.status == kUsageError || cause.status == kCannotRun || cause.status == kNotFound))
      return fmt::format("exit code {} means that {}", cause.status,
                         cause.status == kUsageError ? "the command line is wrong" : "the program cannot be run");
    if (restart_ == 0 && !outcome.has_started && cause.status < kKilledBySignal && !has_progress)
      return fmt::format("{} has not started the program{}", plan_.launcher.program,
                         outcome.text.empty() ? " and has printed no message" : "; see its message above");
    if (starts_without_progress_ >= plan_.crash_loop)
      return fmt::format("{} starts in a row made no newer checkpoint (--crash-loop)", starts_without_progress_);
    if (restart_ >= plan_.max_restarts) return fmt::format("--max-restarts {} is reached", plan_.max_restarts);
    return "";
  }

  // A host that was lost may come back. Returns a signal that ends the job meanwhile, or 0.
  [[nodiscard]] int wait_for_hosts(const Outcome& outcome) const {
    if (outcome.has_started) return 0;
    say(fmt::format("{} has not started the program; tries again after {} s", plan_.launcher.program,
                    plan_.retry_after.count()));
    return signal_within(plan_.retry_after);
  }

  // Leaves out the hosts that do not answer, if the others have enough slots. Returns a signal that ends the job
  // meanwhile, or 0.
  [[nodiscard]] int choose_hosts() {
    placement_ = {ranks_, plan_.launcher.words};
    if (plan_.launcher.is_srun || plan_.host_timeout.count() == 0) return 0;
    std::vector<Host> hosts = hosts_in(placement_.options);
    const HostCheck check = check_hosts(hosts, launch_agent(placement_.options), plan_.host_timeout, folder_.path());
    if (check.lost.empty() || check.signal != 0) return check.signal;
    std::vector<std::string> names;
    for (const LostHost& host : check.lost) names.push_back(host.name);
    std::erase_if(hosts,
                  [&](const Host& host) { return std::find(names.begin(), names.end(), host.name) != names.end(); });
    RankCount count = ranks_on(hosts, ranks_, plan_.min_ranks);
    std::vector<std::string> options;
    try {
      if (count.problem.empty()) options = options_without(placement_.options, names, folder_.path());
    } catch (const Error& error) {
      count.problem = error.what();
    }
    for (const LostHost& host : check.lost)
      say(count.problem.empty()
              ? fmt::format("leaves out host {}: {}", host.name, host.cause)
              : fmt::format("cannot leave out host {} ({}): {}", host.name, host.cause, count.problem));
    if (count.problem.empty()) placement_ = {count.ranks, std::move(options)};
    return 0;
  }

  // Returns a signal that ends the job meanwhile, or 0.
  [[nodiscard]] int prepare_restart(const Outcome& outcome) {
    if (const int signal = wait_for_hosts(outcome); signal != 0) return signal;
    folder_.clear();
    ++restart_;
    if (restart_ == 1 && plan_.ranks_at_restart > 0) ranks_ = plan_.ranks_at_restart;
    if (starts_without_progress_ > 0 && plan_.min_ranks > 0)
      ranks_ = std::min(ranks_, std::max(plan_.min_ranks, ranks_ - 1));
    return choose_hosts();
  }

  const LaunchPlan& plan_;
  std::int64_t ranks_;  // if all hosts answer
  Placement placement_;
  CheckpointWatch checkpoints_;
  bool owns_output_ = false;  // --output_dir held no run before the job
  JobFolder folder_;
  std::int64_t restart_ = 0;
  std::int64_t starts_without_progress_ = 0;
  int output_error_ = 0;  // of the first start whose output was lost
};

}  // namespace

int supervise(const LaunchPlan& plan) {
  block_signals();
  occupy_standard_streams();
  for (const std::string& path : remove_left_job_folders()) write_error_text(deleted_folder_text(path) + "\n");
  if (!plan.hosts.empty()) say(fmt::format("{} on {}", count_of_ranks(plan.ranks), plan.hosts));
  if (!plan.note.empty()) say(plan.note);
  if (plan.saves_only_model)
    say("warning: no restart can continue this job, because checkpoints of --save_only_model contain no state of the "
        "run; a restart starts from the beginning");
  return Supervisor(plan).run();
}

}  // namespace tessera::command
