// SPDX-License-Identifier: Apache-2.0
// A folder for the temporary files of one job on one host: those of Open MPI, and the shared memory of its processes.
// Whoever uses the folder holds a lock on a file in it, so a folder without a lock is left from a job that was killed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tessera::command {

class JobFolder {
 public:
  /// Creates a folder in /dev/shm, or in the folder for temporary files, and locks it.
  JobFolder();
  /// Locks the folder of a job, and creates it if this host has none.
  explicit JobFolder(std::string path);
  /// Deletes the folder if no other process uses it.
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Waits until no other process of this host holds the lock. False if one still does after `most`.
  [[nodiscard]] bool wait_until_alone(std::chrono::milliseconds most);
  /// Deletes all files in it. Makes it again if another process deleted it.
  void clear();

 private:
  void lock();

  std::string path_;
  int descriptor_ = -1;
};

/// Deletes the folders that jobs of this user have left on this host, and returns their paths.
std::vector<std::string> remove_left_job_folders();
/// `tessera launch: deleted /dev/shm/tessera-launch.x, which a job that was killed has left`.
std::string deleted_folder_text(const std::string& path);

}  // namespace tessera::command
