// SPDX-License-Identifier: Apache-2.0
#include "run/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/rank_context.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::trainer {

OutputFolder::OutputFolder(const TrainingArguments& arguments) {
  const std::string& folder = arguments.output_dir;
  if (folder.empty()) return;
  const bool resumes = !arguments.resume_from_checkpoint.empty();
  const bool holds_run = std::filesystem::exists(folder + "/trainer_state.json") || !checkpoints_in(folder).empty();
  require(
      arguments.overwrite_output_dir || resumes || !holds_run,
      "{} already holds a run; give --resume_from_checkpoint to continue it, or --overwrite_output_dir to write over "
      "it",
      folder);
  if (RankContext::current().rank() != 0) return;
  make_folder(folder);
  lock(folder);
  // Otherwise this run could later be continued from a checkpoint of the run that it replaces.
  if (const auto old = checkpoints_in(folder); !resumes && !old.empty()) {
    keep_newest_checkpoints(folder, 0);
    log_warning("deleted {} checkpoints of the run in {} that this run replaces", old.size(), folder);
  }
  for (const std::string& left : remove_partial_checkpoints(folder))
    log_warning("deleted {}, which an interrupted save left", left);
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
