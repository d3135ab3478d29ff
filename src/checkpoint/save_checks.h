// SPDX-License-Identifier: Apache-2.0
// What must hold before a checkpoint is written. A checkpoint that breaks it could not be loaded.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/collectives/process_group.h"

namespace tessera {

/// The path without slashes at its end. Error if it is empty, or names no folder that can be renamed (`/`, `.`, `..`).
std::string checked_folder(const std::string& folder);
/// Checks the names of groups, tensors and documents. The errors say which names are right.
void check_names(const CheckpointContent& content);
/// Error, on all ranks, if they save to different folders, or states or documents with other names or types. Collective.
void check_same_on_all_ranks(ProcessGroup& world, const std::string& folder, const CheckpointContent& content);

/// Creates the empty folder `path` for a new checkpoint. What an interrupted save has left there is deleted first. Error
/// if a folder of this name contains anything else.
void make_partial_folder(const std::string& path);

/// A folder to which this rank writes a checkpoint. Error if it writes one to the same folder already.
class FolderInFlight {
 public:
  explicit FolderInFlight(const std::string& folder);
  ~FolderInFlight();
  FolderInFlight(const FolderInFlight&) = delete;
  FolderInFlight& operator=(const FolderInFlight&) = delete;

 private:
  std::string path_;
  std::shared_ptr<std::set<std::string>> all_;
};

}  // namespace tessera
