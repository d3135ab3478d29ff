// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace tessera::command {

/// The checkpoints that a job makes in a folder.
class CheckpointWatch {
 public:
  /// `counts_old`: whether checkpoints that exist already belong to the job.
  CheckpointWatch(std::string folder, bool counts_old);
  /// True if there is a checkpoint that the last call did not find, or a new one in its place.
  bool has_new();
  /// The newest checkpoint of the job; "" if there is none.
  [[nodiscard]] std::string newest() const;

 private:
  using Found = std::map<std::string, std::filesystem::file_time_type>;  // of the manifest, by folder
  [[nodiscard]] Found found() const;

  std::string folder_;
  Found old_;   // not of the job
  Found seen_;  // by has_new()
};

}  // namespace tessera::command
