// SPDX-License-Identifier: Apache-2.0
#include "run/run_saver.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera::trainer {

std::string RunSaver::folder_of(std::int64_t step) const {
  return fmt::format("{}/checkpoint-{}", arguments_.output_dir, step);
}

void RunSaver::begin(std::int64_t step, CheckpointContent content, const std::string& best) {
  finish();
  if (arguments_.save_total_limit)
    content.when_complete = [folder = arguments_.output_dir, most = *arguments_.save_total_limit, best] {
      try {
        keep_newest_checkpoints(folder, most, best);
      } catch (const std::exception& error) {  // the new checkpoint is complete
        log_warning("cannot delete an earlier checkpoint: {}", error.what());
      }
    };
  step_ = step;
  try {
    writer_.begin(folder_of(step), content);
  } catch (const Error& error) {
    (void)gather_texts(*joined_world(), "");  // fails if a rank has died: then the run does not continue
    report(CheckpointWriter::Outcome{folder_of(step), error.what(), 0});
  }
}

void RunSaver::report(const std::optional<CheckpointWriter::Outcome>& outcome) {
  if (!outcome) return;
  if (outcome->error.empty()) {
    saved_step_ = step_;
    return;
  }
  failed_step_ = step_;
  if (is_master_) log_warning("{}; the run continues", outcome->error);
}

}  // namespace tessera::trainer
