// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/random_access.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::command {

CheckpointWatch::CheckpointWatch(std::string folder, bool counts_old) : folder_(std::move(folder)) {
  if (!counts_old) old_ = found();
  seen_ = found();
}

CheckpointWatch::Found CheckpointWatch::found() const {
  Found out;
  if (folder_.empty()) return out;
  for (const auto& [step, path] : checkpoints_in(folder_)) {
    if (holds_only_model(path)) continue;
    std::error_code error;
    const auto time = std::filesystem::last_write_time(path + "/manifest.json", error);
    if (!error) out.emplace(path, time);
  }
  return out;
}

bool CheckpointWatch::has_new() {
  Found now = found();
  const bool out = std::any_of(now.begin(), now.end(), [&](const auto& one) {
    const auto before = seen_.find(one.first);
    return before == seen_.end() || before->second != one.second;
  });
  seen_ = std::move(now);
  return out;
}

std::string CheckpointWatch::newest(const std::function<void(const std::string&)>& say) const {
  if (folder_.empty()) return "";
  const Found now = found();
  std::vector<std::string> damaged;
  auto all = checkpoints_in(folder_);
  for (auto one = all.rbegin(); one != all.rend(); ++one) {  // the newest one first
    const std::string& path = one->second;
    const auto it = now.find(path);
    const auto old = old_.find(path);
    if (it == now.end() || (old != old_.end() && old->second == it->second)) continue;
    const std::string damage = damage_of(path);
    if (damage.empty()) return path;
    const std::string other_format = other_format_of(path);
    require(other_format.empty(), "{}", other_format);
    say(damage);
    damaged.push_back(path);
  }
  for (const std::string& path : damaged)
    say(fmt::format("renamed {} to {}, because the job has no undamaged checkpoint", path, set_aside(path)));
  return "";
}

bool CheckpointWatch::is_last(const std::string& checkpoint) const {
  const Found all = found();
  std::string last;
  for (const auto& [step, path] : checkpoints_in(folder_))  // by step
    if (all.contains(path)) last = path;
  return last == checkpoint;
}

}  // namespace tessera::command
