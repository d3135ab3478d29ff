// SPDX-License-Identifier: Apache-2.0
#include "launch/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "tessera/base/error.h"

namespace tessera::command {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "tessera-launch.";
constexpr std::string_view kLock = "/lock";
constexpr auto kBetweenTries = std::chrono::milliseconds(10);
constexpr auto kTimeToLock = std::chrono::seconds(10);  // from the creation of a folder to its lock, at most

std::vector<std::string> places() {
  std::error_code error;
  std::vector<std::string> out;
  if (access("/dev/shm", W_OK) == 0) out.emplace_back("/dev/shm");
  const fs::path temporary = fs::temp_directory_path(error);
  if (!error) out.push_back(temporary.string());
  return out;
}

std::string reason() { return std::generic_category().message(errno); }

int open_lock(const std::string& folder, int flags) {
  const std::string path = folder + std::string(kLock);
  return open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags,
              0600);  // NOLINT(cppcoreguidelines-pro-type-vararg)
}

bool is_ours(const std::string& folder) {
  struct stat status {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

bool is_young(const fs::path& folder) {
  std::error_code error;
  const auto made = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - made < kTimeToLock;
}

// Deletes the folder if no process uses it. Processes that open the lock meanwhile wait, and then make a new folder.
bool remove_if_left(const std::string& folder) {
  std::error_code error;
  const int descriptor = open_lock(folder, 0);
  if (descriptor < 0 && (errno != ENOENT || is_young(folder))) return false;
  const bool is_left = descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  if (is_left) fs::remove_all(folder, error);
  if (descriptor >= 0) close(descriptor);
  return is_left && !error;
}

// True if the lock is still the file of this name.
bool is_in_place(int descriptor, const std::string& folder) {
  struct stat open_file {};
  struct stat named {};
  const std::string path = folder + std::string(kLock);
  return fstat(descriptor, &open_file) == 0 && lstat(path.c_str(), &named) == 0 && open_file.st_ino == named.st_ino;
}

}  // namespace

JobFolder::JobFolder() {
  const auto all = places();
  require(!all.empty(), "there is no folder for temporary files; set TMPDIR");
  path_ = all.front() + "/" + std::string(kPrefix) + "XXXXXX";
  require(mkdtemp(path_.data()) != nullptr, "cannot create a folder in {}: {}", all.front(), reason());
  lock();
}

JobFolder::JobFolder(std::string path) : path_(std::move(path)) { lock(); }

// Another process may delete the folder before it is locked.
void JobFolder::lock() {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    (void)mkdir(path_.c_str(), 0700);
    descriptor_ = open_lock(path_, O_CREAT);
    require(descriptor_ >= 0 || errno == ENOENT, "cannot create {}{}: {}", path_, kLock, reason());
    if (descriptor_ < 0) continue;
    require(is_ours(path_), "{} is not a folder of this user", path_);
    require(flock(descriptor_, LOCK_SH) == 0, "cannot lock {}: {}", path_, reason());
    if (is_in_place(descriptor_, path_)) return;
    close(descriptor_);
  }
  fail("cannot lock {}: other processes delete it", path_);
}

bool JobFolder::wait_until_alone(std::chrono::milliseconds most) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      (void)flock(descriptor_, LOCK_SH);  // a failed conversion may have lost the lock
      return false;
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  return flock(descriptor_, LOCK_SH) == 0;
}

void JobFolder::clear() {
  // While wait_until_alone() converts its lock, the last process of a rank may delete the folder.
  if (!is_in_place(descriptor_, path_)) {
    close(descriptor_);
    lock();
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored))
    if (entry.path().filename() != fs::path(kLock).filename()) fs::remove_all(entry.path(), ignored);
}

JobFolder::~JobFolder() {
  std::error_code ignored;
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path_, ignored);
  close(descriptor_);
}

std::vector<std::string> remove_left_job_folders() {
  std::vector<std::string> out;
  for (const std::string& place : places()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(place, error)) {
      const std::string path = entry.path().string();
      if (entry.path().filename().string().starts_with(kPrefix) && is_ours(path) && remove_if_left(path))
        out.push_back(path);
    }
  }
  return out;
}

std::string deleted_folder_text(const std::string& path) {
  return "tessera launch: deleted " + path + ", which a job that was killed has left";
}

}  // namespace tessera::command
