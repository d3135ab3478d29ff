// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace tessera::command {

/// The checkpoints that a job makes in a folder, and from which it can be continued (not those of --save_only_model).
class CheckpointWatch {
 public:
  /// `counts_old`: whether checkpoints that exist already belong to the job.
  CheckpointWatch(std::string folder, bool counts_old);
  /// True if there is a checkpoint that the last call did not find, or a new one in its place.
  bool has_new();
  /// The newest undamaged checkpoint of the job; "" if there is none. Reads all its files. Tells `say` which newer ones
  /// are damaged. If all are, renames them to NAME.replaced, because a program does not start over beside checkpoints.
  [[nodiscard]] std::string newest(const std::function<void(const std::string&)>& say) const;
  /// Whether no checkpoint in the folder, of this job or not, has a higher number.
  [[nodiscard]] bool is_last(const std::string& checkpoint) const;
  /// Whether there were checkpoints before the job that do not belong to it.
  [[nodiscard]] bool has_old() const { return !old_.empty(); }

 private:
  using Found = std::map<std::string, std::filesystem::file_time_type>;  // of the manifest, by folder
  [[nodiscard]] Found found() const;

  std::string folder_;
  Found old_;   // not of the job
  Found seen_;  // by has_new()
};

}  // namespace tessera::command
