// SPDX-License-Identifier: Apache-2.0
#include "run/output_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "tessera/base/command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::trainer {

namespace {

std::vector<std::string> complete_checkpoints(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& [step, path] : checkpoints_in(folder))
    if (std::filesystem::exists(path + "/manifest.json", ignored)) out.push_back(path);
  return out;
}

// Whether tessera launch has restarted the job.
bool is_restarted() {
  const char* restart = std::getenv("TESSERA_RESTART");
  return restart != nullptr && std::string_view(restart) != "0";
}

// A UsageError at the first start, after which tessera launch does not start again. A restart would take checkpoints
// that another job writes into the folder for those of its own job, and continue that run.
void refuse_to_replace_run(const std::string& folder) {
  const bool holds_run = std::filesystem::exists(folder + "/trainer_state.json") || !checkpoints_in(folder).empty() ||
                         holds_replaced_run(folder);
  if (!holds_run) return;
  const std::string text = fmt::format(
      "{} already contains a run; give --resume_from_checkpoint to resume it, or --overwrite_output_dir to overwrite "
      "it",
      folder);
  if (!is_restarted()) throw UsageError(text);
  fail("{}", text);
}

// Error if the training would write over a run or a model, and was not told to.
void refuse_to_replace(const std::string& folder) {
  refuse_to_replace_run(folder);
  const std::string weights = weights_in(folder);
  require(weights.empty(),
          "{} already contains a model ({}), which the run would overwrite; give another --output_dir, or "
          "--overwrite_output_dir to overwrite it",
          folder, weights);
}

// Whether tessera launch has restarted the job, and the checkpoint is one of the job, not of a run before it.
bool is_of_restarted_job(const std::string& checkpoint) {
  const char* start = std::getenv("TESSERA_JOB_START");  // in seconds since the epoch
  if (!is_restarted()) return false;
  struct stat status {};
  const bool is_known = stat((checkpoint + "/manifest.json").c_str(), &status) == 0;
  return start == nullptr || !is_known || status.st_mtime >= std::atoll(start);
}

// A run with --overwrite_output_dir may have been interrupted.
void recover(const std::string& folder) {
  const ReplacedRun run = recover_replaced_run(folder);
  if (run.deleted > 0)
    log_warning("deleted {} checkpoint{} of an earlier run in {}, which a later run has replaced", run.deleted,
                run.deleted == 1 ? "" : "s", folder);
  if (run.restored > 0)
    log_warning("restored {} checkpoint{} in {}: the run that was to replace them has saved none", run.restored,
                run.restored == 1 ? "" : "s", folder);
}

}  // namespace

void NewFolder::create(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (fs::path path = fs::absolute(folder); path.has_relative_path() && !fs::exists(path, ignored);
       path = path.parent_path())
    created_.push_back(path.string());
  make_folder(folder);
}

NewFolder::~NewFolder() {
  for (const std::string& path : created_) (void)rmdir(path.c_str());  // fails unless the folder is empty
}

OutputFolder::OutputFolder(const TrainingArguments& arguments) {
  const std::string& folder = arguments.output_dir;
  if (folder.empty()) return;
  const bool resumes = !arguments.resume_from_checkpoint.empty();
  // Evaluations and predictions leave a run and a model in the folder as they are.
  if (arguments.do_train && !arguments.overwrite_output_dir && !resumes) refuse_to_replace(folder);
  if (RankContext::current().rank() != 0) return;
  auto complete = complete_checkpoints(folder);
  // Those of --save_only_model cannot be continued, and are deleted only after this start has saved one.
  std::erase_if(complete, [](const std::string& path) { return !is_of_restarted_job(path) || holds_only_model(path); });
  require(
      resumes || complete.empty(),
      "this restart of tessera launch would replace {} checkpoint{} in {}, such as {}; continue the run with "
      "--resume_from_checkpoint true (tessera launch --checkpoints {}), or delete them",
      complete.size(), complete.size() == 1 ? "" : "s", folder, [&] { return complete.back(); }, folder);
  new_.create(folder);
  check_writable(folder + "/trainer_state.json");
  descriptor_ = lock_folder(folder);
  recover(folder);
  for (const std::string& left : remove_partial_checkpoints(folder))
    log_warning("deleted {}, which an interrupted save left", left);
}

std::vector<std::string> replaced_checkpoints(const TrainingArguments& arguments) {
  if (!arguments.overwrite_output_dir || !arguments.resume_from_checkpoint.empty()) return {};
  return complete_checkpoints(arguments.output_dir);
}

void delete_replaced_checkpoints(const std::string& folder) {
  if (const std::int64_t count = delete_run_aside(folder); count > 0)
    log_warning("deleted {} checkpoint{} of the run in {} that this run replaces", count, count == 1 ? "" : "s",
                folder);
}

void restore_replaced_checkpoints(const std::string& folder) {
  if (const std::int64_t count = recover_replaced_run(folder).restored; count > 0)
    log_warning("restored {} checkpoint{} of the run in {}, because this run could not save its first one", count,
                count == 1 ? "" : "s", folder);
}

OutputFolder::~OutputFolder() {
  if (descriptor_ >= 0) close(descriptor_);
}

// The lock belongs to the folder itself, so nothing is left of it. The system releases it when the process ends. Some file
// systems (NFS) have no locks of folders.
int lock_folder(const std::string& folder) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  const int error = errno;
  if (descriptor >= 0 && error == EWOULDBLOCK) {
    close(descriptor);
    fail("another run uses {}; give another --output_dir, or wait for its end", folder);
  }
  log_warning("{} cannot be locked ({}), so a second run in this folder would not be noticed", folder,
              std::generic_category().message(error));
  return descriptor;
}

}  // namespace tessera::trainer
