// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run, written while it continues.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/trainer/arguments.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {

/// Writes output_dir/checkpoint-N, one at a time. If a save fails, for example because the disk is full, rank 0 prints a
/// warning, the run continues, and the earlier checkpoints stay, as many as --save_total_limit allows. All functions but
/// those about earlier checkpoints and about failures are collective.
class RunSaver {
 public:
  RunSaver(const TrainingArguments& arguments, bool is_master) : arguments_(arguments), is_master_(is_master) {}

  /// Checkpoints of an earlier run, which rank 0 deletes when this run has saved something. Call it before begin().
  void set_replaced(std::vector<std::string> paths) { *replaced_ = std::move(paths); }
  /// The run continues from this checkpoint, which was verified. Rank 0 deletes the surplus ones of --save_total_limit now,
  /// so that a full disk has space for the next save. Call it before begin(), on rank 0.
  void continue_from(const std::string& checkpoint, const std::string& best);
  /// Moves the checkpoints of set_replaced() aside, before the model is saved: then one rename after the save is enough to
  /// delete them. Waits for the save in flight.
  void set_replaced_aside();
  /// Deletes the checkpoints of set_replaced() now, because the model is saved. Waits for the save in flight.
  void delete_replaced();
  /// Starts a save; waits for the one before.
  void begin(std::int64_t step, CheckpointContent content, const std::string& best);
  /// Call after every step: reports a save that has failed.
  void poll() { report(writer_.poll()); }
  /// Waits for the save in flight.
  void finish() { report(writer_.finish()); }
  /// Gives up the save in flight.
  void drop() { writer_.drop(); }
  /// The path of the checkpoint of a step.
  [[nodiscard]] std::string folder_of(std::int64_t step) const;
  /// The step of the last save that has failed; -1 if there is none.
  [[nodiscard]] std::int64_t failed_step() const { return failed_step_; }
  /// The step of the newest complete checkpoint of this run; -1 if there is none.
  [[nodiscard]] std::int64_t saved_step() const { return saved_step_; }
  /// How many saves have failed, with the last reason; "" if none has.
  [[nodiscard]] std::string failures() const;

 private:
  void report(const std::optional<CheckpointWriter::Outcome>& outcome);
  void delete_surplus() const;

  const TrainingArguments& arguments_;
  bool is_master_;
  CheckpointWriter writer_;
  // The task of the save in flight uses it, too.
  std::shared_ptr<std::vector<std::string>> replaced_ = std::make_shared<std::vector<std::string>>();
  std::int64_t step_ = -1;     // of the save in flight
  std::string best_;           // checkpoint, when this save began
  std::string kept_best_;      // of the last complete save
  bool is_continued_ = false;  // the newest checkpoint in output_dir was that from which the run continues
  std::int64_t failed_saves_ = 0;
  std::string last_failure_;
  std::int64_t saved_step_ = -1;
  std::int64_t failed_step_ = -1;
};

}  // namespace tessera::trainer
