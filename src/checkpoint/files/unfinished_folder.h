// SPDX-License-Identifier: Apache-2.0
// A model folder that is being written. A file in it marks it, so that what an interrupted process has left is not taken for
// files of the user.
#pragma once

#include <string>

namespace tessera {

/// The file that marks the folder.
inline constexpr const char* kUnfinished = "unfinished_by_tessera";

/// Whether no other folder can get the name of this one: it is mounted, or the current folder of this process, or the folder
/// around it cannot be written. False if it does not exist.
bool cannot_be_replaced(const std::string& folder);
/// Deletes a marked folder that an interrupted process has left, and prints a warning. Files that no model folder has stay,
/// and so does a folder that cannot be replaced. Does nothing without a mark. Error if a process is still writing it.
void remove_unfinished(const std::string& folder);

/// A folder from its first file until it is complete.
class UnfinishedFolder {
 public:
  /// Creates the folder, if there is none, and marks it. Error if it contains anything.
  explicit UnfinishedFolder(std::string folder);
  /// Deletes what was written, unless it is finished.
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  /// Gives the complete folder the name `target`, if it has another one, and removes the mark. Error if there is a folder
  /// `target` that is not empty.
  void finish(const std::string& target);

 private:
  std::string folder_;
  int lock_ = -1;  // of the marking file, while this process writes
  bool is_finished_ = false;
};

}  // namespace tessera
