// SPDX-License-Identifier: Apache-2.0
#include "run/run_saver.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "run/output_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera::trainer {
namespace {

// A failure to delete is only a warning, because the new checkpoint is complete.
void delete_or_warn(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    log_warning("cannot delete an earlier checkpoint: {}", error.what());
  }
}

}  // namespace

std::string RunSaver::folder_of(std::int64_t step) const {
  return fmt::format("{}/checkpoint-{}", arguments_.output_dir, step);
}

void RunSaver::begin(std::int64_t step, CheckpointContent content, const std::string& best) {
  finish();
  // The checkpoints of another run may have higher numbers. They are moved before the new one can be found, and deleted
  // after that. So a job that is killed meanwhile continues from the checkpoint of the right run.
  // Only rank 0 knows them, but after an error any rank may complete the checkpoint.
  const bool replaces = !gather_texts(*joined_world(), replaced_->empty() ? "" : "another run").front().empty();
  content.before_complete = [replaces, folder = arguments_.output_dir] {
    if (replaces) set_run_aside(folder);
  };
  content.when_complete = [replaced = replaced_, folder = arguments_.output_dir, most = arguments_.save_total_limit,
                           path = folder_of(step), best] {
    if (!std::exchange(*replaced, {}).empty()) delete_or_warn([&] { delete_replaced_checkpoints(folder); });
    if (most) delete_or_warn([&] { keep_newest_checkpoints(folder, *most, best, path); });
  };
  step_ = step;
  best_ = best;
  try {
    writer_.begin(folder_of(step), content);
  } catch (const Error& error) {
    (void)gather_texts(*joined_world(), "");  // fails if a rank has died: then the run does not continue
    report(CheckpointWriter::Outcome{folder_of(step), error.what(), 0});
  }
}

void RunSaver::set_replaced_aside() {
  finish();
  if (!replaced_->empty()) delete_or_warn([&] { set_run_aside(arguments_.output_dir); });
}

void RunSaver::delete_replaced() {
  finish();
  if (std::exchange(*replaced_, {}).empty()) return;
  delete_or_warn([&] {
    set_run_aside(arguments_.output_dir);
    delete_replaced_checkpoints(arguments_.output_dir);
  });
}

void RunSaver::report(const std::optional<CheckpointWriter::Outcome>& outcome) {
  if (!outcome) return;
  if (outcome->error.empty()) {
    saved_step_ = step_;
    kept_best_ = best_;
    return;
  }
  failed_step_ = step_;
  ++failed_saves_;
  last_failure_ = outcome->error;
  if (!is_master_) return;
  log_warning("{}; the run continues", outcome->error);
  if (!replaced_->empty()) delete_or_warn([&] { restore_replaced_checkpoints(arguments_.output_dir); });
  delete_surplus();
}

void RunSaver::continue_from(const std::string& checkpoint, const std::string& best) {
  std::error_code ignored;
  const auto found = checkpoints_in(arguments_.output_dir);
  // Later ones may be damaged: then this one must stay.
  is_continued_ = !found.empty() && std::filesystem::equivalent(found.rbegin()->second, checkpoint, ignored);
  kept_best_ = best;
  delete_surplus();
}

// Only if the newest checkpoint is known to be good.
void RunSaver::delete_surplus() const {
  if (!arguments_.save_total_limit || (saved_step_ < 0 && !is_continued_)) return;
  const std::string newest = saved_step_ < 0 ? "" : folder_of(saved_step_);
  delete_or_warn(
      [&] { keep_newest_checkpoints(arguments_.output_dir, *arguments_.save_total_limit, kept_best_, newest); });
}

std::string RunSaver::failures() const {
  if (failed_saves_ == 0) return "";
  return fmt::format("{} checkpoint{} could not be saved; the last reason: {}", failed_saves_,
                     failed_saves_ == 1 ? "" : "s", last_failure_);
}

}  // namespace tessera::trainer
