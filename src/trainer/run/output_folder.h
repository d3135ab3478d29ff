// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// A folder that a run creates. If it is still empty at the end, because the run has failed, it is removed.
class NewFolder {
 public:
  NewFolder() = default;
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  /// Creates the folder and the folders above it, unless they exist.
  void create(const std::string& folder);

 private:
  std::vector<std::string> created_;  // the innermost one first
};

/// The folder of --output_dir while a run uses it.
class OutputFolder {
 public:
  /// On rank 0, creates the folder, locks it, deletes what interrupted saves left, and restores or deletes the
  /// checkpoints that an interrupted run with --overwrite_output_dir has moved. Errors: the folder already holds a
  /// run that is neither continued nor replaced, or a model that is not replaced; a restart of `tessera launch` would
  /// replace checkpoints; the folder cannot be written; another run uses it. Constructed before the training, which
  /// otherwise would fail at its end.
  explicit OutputFolder(const TrainingArguments& arguments);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  NewFolder new_;
  int descriptor_ = -1;
};

/// Locks a folder until the result is closed, or the process ends. Error if another process has locked it. If it cannot be
/// locked, as on some network file systems, prints a warning. Returns -1 if the folder cannot be opened.
int lock_folder(const std::string& folder);

/// The complete checkpoints of a run that this run replaces (--overwrite_output_dir).
std::vector<std::string> replaced_checkpoints(const TrainingArguments& arguments);
/// Deletes the checkpoints that set_run_aside() has moved in `folder`. Otherwise this run could later be continued from
/// one of them. Call it when this run has saved a checkpoint or its model, because until then the user may have nothing
/// else.
void delete_replaced_checkpoints(const std::string& folder);
/// Undoes set_run_aside(), because this run could not save its checkpoint.
void restore_replaced_checkpoints(const std::string& folder);

}  // namespace tessera::trainer
