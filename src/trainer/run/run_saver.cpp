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
  content.when_complete = [replaced = replaced_, folder = arguments_.output_dir, most = arguments_.save_total_limit,
                           path = std::filesystem::path(folder_of(step)), best] {
    // The new checkpoint has taken the place of an old one.
    std::erase_if(*replaced, [&](const std::filesystem::path& old) { return old.filename() == path.filename(); });
    // First, because those of another run may have higher numbers.
    delete_or_warn([&] { delete_replaced_checkpoints(std::exchange(*replaced, {}), folder); });
    if (most) delete_or_warn([&] { keep_newest_checkpoints(folder, *most, best); });
  };
  step_ = step;
  try {
    writer_.begin(folder_of(step), content);
  } catch (const Error& error) {
    (void)gather_texts(*joined_world(), "");  // fails if a rank has died: then the run does not continue
    report(CheckpointWriter::Outcome{folder_of(step), error.what(), 0});
  }
}

void RunSaver::delete_replaced() {
  finish();
  delete_or_warn([&] { delete_replaced_checkpoints(std::exchange(*replaced_, {}), arguments_.output_dir); });
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
