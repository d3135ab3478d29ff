// SPDX-License-Identifier: Apache-2.0
#include "run/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::trainer {

namespace {

std::vector<std::string> complete_checkpoints(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& [step, path] : checkpoints_in(folder))
    if (std::filesystem::exists(path + "/manifest.json")) out.push_back(path);
  return out;
}

// Whether tessera launch has restarted the job, and the checkpoint is one of the job, not of a run before it.
bool is_of_restarted_job(const std::string& checkpoint) {
  const char* restart = std::getenv("TESSERA_RESTART");
  const char* start = std::getenv("TESSERA_JOB_START");  // in seconds since the epoch
  if (restart == nullptr || std::string_view(restart) == "0") return false;
  struct stat status {};
  const bool is_known = stat((checkpoint + "/manifest.json").c_str(), &status) == 0;
  return start == nullptr || !is_known || status.st_mtime >= std::atoll(start);
}

}  // namespace

OutputFolder::OutputFolder(const TrainingArguments& arguments) {
  const std::string& folder = arguments.output_dir;
  if (folder.empty()) return;
  const bool resumes = !arguments.resume_from_checkpoint.empty();
  // Evaluations and predictions leave a run in the folder as it is.
  const bool holds_run = arguments.do_train &&
                         (std::filesystem::exists(folder + "/trainer_state.json") || !checkpoints_in(folder).empty());
  require(
      arguments.overwrite_output_dir || resumes || !holds_run,
      "{} already holds a run; give --resume_from_checkpoint to continue it, or --overwrite_output_dir to write over "
      "it",
      folder);
  if (RankContext::current().rank() != 0) return;
  auto complete = complete_checkpoints(folder);
  std::erase_if(complete, [](const std::string& path) { return !is_of_restarted_job(path); });
  require(
      resumes || complete.empty(),
      "this restart of tessera launch would replace {} checkpoints in {}, such as {}; continue the run with "
      "--resume_from_checkpoint true (tessera launch --checkpoints {}), or delete them",
      complete.size(), folder, [&] { return complete.back(); }, folder);
  make_folder(folder);
  check_writable(folder + "/trainer_state.json");
  lock(folder);
  for (const std::string& left : remove_partial_checkpoints(folder))
    log_warning("deleted {}, which an interrupted save left", left);
}

std::vector<std::string> replaced_checkpoints(const TrainingArguments& arguments) {
  if (!arguments.overwrite_output_dir || !arguments.resume_from_checkpoint.empty()) return {};
  return complete_checkpoints(arguments.output_dir);
}

void delete_replaced_checkpoints(const std::vector<std::string>& replaced, const std::string& folder) {
  for (const std::string& path : replaced) {
    std::filesystem::rename(path, path + ".partial");  // no longer a complete checkpoint
    std::filesystem::remove_all(path + ".partial");
  }
  if (!replaced.empty())
    log_warning("deleted {} checkpoints of the run in {} that this run replaces", replaced.size(), folder);
}

OutputFolder::~OutputFolder() {
  if (descriptor_ >= 0) close(descriptor_);
}

// The lock belongs to the folder itself, so nothing is left of it. The system releases it when the process ends. Some file
// systems (NFS) have no locks of folders.
void OutputFolder::lock(const std::string& folder) {
  descriptor_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  const bool is_used = descriptor_ >= 0 && flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!is_used) return;
  close(descriptor_);
  fail("another run uses {}; give another --output_dir, or wait for its end", folder);
}

}  // namespace tessera::trainer
