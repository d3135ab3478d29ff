// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "files/file_names.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::int64_t step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  std::int64_t step = -1;
  if (!name.starts_with(kPrefix)) return -1;
  const char* end = name.data() + name.size();
  const auto [last, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return code == std::errc() && last == end ? step : -1;
}

}  // namespace

std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::int64_t step = step_of(entry.path().filename().string()); step >= 0)
      out[step] = entry.path().string();
  return out;
}

std::vector<std::string> remove_partial_checkpoints(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const auto stem = name.find(kPartial);
    if (stem != std::string::npos && stem + kPartial.size() == name.size() && step_of(name.substr(0, stem)) >= 0)
      out.push_back(entry.path().string());
  }
  for (const std::string& path : out) fs::remove_all(path, error);
  return out;
}

void keep_newest_checkpoints(const std::string& folder, std::int64_t most, const std::string& best) {
  const auto found = checkpoints_in(folder);
  const auto is_best = [&](const std::string& path) { return fs::path(path).filename() == fs::path(best).filename(); };
  const bool keeps_another = !found.empty() && !best.empty() && !is_best(found.rbegin()->second);
  std::int64_t surplus = isize(found) - std::max<std::int64_t>(most, keeps_another ? 2 : 0);
  for (const auto& [step, path] : found) {
    if (surplus <= 0) return;
    if (!best.empty() && is_best(path)) continue;
    const std::string doomed = path + std::string(kPartial);  // no longer a complete checkpoint
    fs::rename(path, doomed);
    fs::remove_all(doomed);
    --surplus;
  }
}

}  // namespace tessera
