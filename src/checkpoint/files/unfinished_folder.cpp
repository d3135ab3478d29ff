// SPDX-License-Identifier: Apache-2.0
#include "unfinished_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "file_names.h"
#include "model_files.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/random_access.h"
#include "tessera/checkpoint/pretrained.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string mark_of(const std::string& folder) { return folder + "/" + kUnfinished; }

// Returns the descriptor that holds the lock, or -1 on a file system without locks.
int lock_mark(const std::string& folder) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const int descriptor = open(mark_of(folder).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  const bool is_used = errno == EWOULDBLOCK;
  close(descriptor);
  if (is_used) fail("another process is writing {}; wait for its end, or give another folder", folder);
  return -1;
}

void release(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}

// model.safetensors, config.json, tokenizer.json, …, also with the ends `.partial` and `.tmp123.0` of incomplete files.
bool is_written_here(std::string_view name) {
  for (const std::string_view end : {kPartial, std::string_view(".tmp")}) name = name.substr(0, name.rfind(end));
  const auto of_tokenizers = tokenizer_file_names();
  return name == "config.json" || name == kIndexFile || is_model_file(name) ||
         std::find(of_tokenizers.begin(), of_tokenizers.end(), name) != of_tokenizers.end();
}

// The mark is deleted last, so that an interrupted deletion can be repeated.
void delete_files(const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (is_written_here(entry.path().filename().string())) files.push_back(entry.path());
  files.emplace_back(mark_of(folder));
  for (const fs::path& file : files) fs::remove(file, ignored);
  if (!cannot_be_replaced(folder)) fs::remove(folder, ignored);  // if it is empty
}

}  // namespace

bool cannot_be_replaced(const std::string& folder) {
  struct stat own {};
  struct stat around {};
  const std::string parent = folder + "/..";
  if (stat(folder.c_str(), &own) != 0) return false;
  if (stat(parent.c_str(), &around) != 0 || own.st_dev != around.st_dev) return true;
  std::error_code ignored;
  return access(parent.c_str(), W_OK) != 0 || fs::equivalent(folder, ".", ignored);
}

void remove_unfinished(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(fs::symlink_status(mark_of(folder), ignored))) return;
  const int lock = lock_mark(folder);
  delete_files(folder);
  release(lock);
  log_warning("deleted {}, which an interrupted consolidation left", folder);
}

UnfinishedFolder::UnfinishedFolder(std::string folder) : folder_(std::move(folder)) {
  make_folder(folder_);
  require(fs::is_empty(folder_),
          "{} exists, and no consolidation has left it; the model is written under this name first, so move it away",
          folder_);
  require(create_new_file(mark_of(folder_)), "another process is writing {}", folder_);
  lock_ = lock_mark(folder_);
}

UnfinishedFolder::~UnfinishedFolder() {
  if (!is_finished_) delete_files(folder_);
  release(lock_);
}

void UnfinishedFolder::finish(const std::string& target) {
  std::error_code error;
  if (target != folder_) {
    // The rename would delete what the user has put there meanwhile.
    fs::remove(target, error);
    if (error) fail("cannot write {}: {}", target, error.message());
    commit_rename(folder_, target);
  }
  is_finished_ = true;
  fs::remove(mark_of(target), error);
}

}  // namespace tessera
