// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// The folder of --output_dir while a run uses it.
class OutputFolder {
 public:
  /// On rank 0, creates the folder, locks it, and deletes what interrupted saves left. Error if it already holds a run that
  /// is neither continued nor replaced, or if another run uses it. Constructed before the training, which otherwise would
  /// fail at its end.
  explicit OutputFolder(const TrainingArguments& arguments);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  void lock(const std::string& folder);
  int descriptor_ = -1;
};

}  // namespace tessera::trainer
