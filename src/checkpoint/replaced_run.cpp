// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run that a new run in the same folder replaces. Until the new run has a complete checkpoint, they
// can be restored; from then on they must not be found, although they may have higher numbers.
//
// replaced_run.partial: some of them were moved; replaced_run: all; replaced_run.deleted: they are being deleted. So the
// names tell what an interrupted run has done: if there is `replaced_run`, checkpoints beside it are those of the new run.
#include <algorithm>
#include <filesystem>

#include "files/file_names.h"
#include "files/manifest.h"
#include "tessera/base/files.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMoved = "replaced_run";
std::string moved_folder(const std::string& folder) { return (fs::path(folder) / kMoved).string(); }
std::string moving_folder(const std::string& folder) { return moved_folder(folder) + std::string(kPartial); }
std::string deleted_folder(const std::string& folder) { return moved_folder(folder) + ".deleted"; }

std::map<std::int64_t, std::string> complete_checkpoints_in(const std::string& folder) {
  auto out = checkpoints_in(folder);
  std::error_code ignored;
  std::erase_if(out, [&](const auto& one) { return !fs::exists(fs::path(one.second) / kManifestFile, ignored); });
  return out;
}

// Leaves what a user may have put there.
void remove_if_empty(const std::string& folder) {
  std::error_code ignored;
  fs::remove(folder, ignored);
}

void move_checkpoints(const std::map<std::int64_t, std::string>& checkpoints, const std::string& to) {
  for (const auto& [step, path] : checkpoints)
    if (const fs::path place = fs::path(to) / fs::path(path).filename(); !fs::exists(place)) fs::rename(path, place);
}

std::int64_t finish_deletion(const std::string& folder) {
  const auto checkpoints = checkpoints_in(deleted_folder(folder));
  for (const auto& [step, path] : checkpoints) fs::remove_all(path);
  remove_if_empty(deleted_folder(folder));
  return isize(checkpoints);
}

std::int64_t delete_moved(const std::string& folder) {
  const std::int64_t earlier = finish_deletion(folder);
  if (!fs::exists(moved_folder(folder))) return earlier;
  if (fs::exists(deleted_folder(folder))) {  // with files of the user
    move_checkpoints(checkpoints_in(moved_folder(folder)), deleted_folder(folder));
    remove_if_empty(moved_folder(folder));
  } else {
    fs::rename(moved_folder(folder), deleted_folder(folder));
  }
  return earlier + finish_deletion(folder);
}

std::int64_t restore(const std::string& folder) {
  if (fs::exists(moved_folder(folder)) && !fs::exists(moving_folder(folder)))
    fs::rename(moved_folder(folder), moving_folder(folder));
  const auto checkpoints = checkpoints_in(moving_folder(folder));
  move_checkpoints(checkpoints, folder);
  remove_if_empty(moving_folder(folder));
  return isize(checkpoints);
}

}  // namespace

bool holds_replaced_run(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(moved_folder(folder), ignored) || fs::exists(moving_folder(folder), ignored);
}

void set_run_aside(const std::string& folder) {
  // They are aside already, for example because an earlier restore failed.
  if (fs::exists(moved_folder(folder)) && complete_checkpoints_in(folder).empty()) return;
  delete_moved(folder);  // of a run before it
  make_folder(moving_folder(folder));
  move_checkpoints(complete_checkpoints_in(folder), moving_folder(folder));
  commit_rename(moving_folder(folder), moved_folder(folder));
}

std::int64_t delete_run_aside(const std::string& folder) { return delete_moved(folder); }

ReplacedRun recover_replaced_run(const std::string& folder) {
  ReplacedRun out{.deleted = finish_deletion(folder), .restored = 0};
  if (!holds_replaced_run(folder)) return out;
  if (fs::exists(moved_folder(folder)) && !complete_checkpoints_in(folder).empty())
    out.deleted += delete_moved(folder);
  else
    out.restored = restore(folder);
  return out;
}

}  // namespace tessera
