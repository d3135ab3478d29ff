// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "files/file_names.h"
#include "files/manifest.h"
#include "files/model_files.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::int64_t step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  std::int64_t step = -1;
  if (!name.starts_with(kPrefix)) return -1;
  const char* end = name.data() + name.size();
  const auto [last, code] = std::from_chars(name.data() + kPrefix.size(), end, step);
  const bool is_number = code == std::errc() && last == end;
  return is_number && name == fmt::format("{}{}", kPrefix, step) ? step : -1;  // checkpoint-05 is not checkpoint-5
}

}  // namespace

std::string weights_in(const std::string& folder) {
  std::error_code ignored;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"})
    if (std::filesystem::exists(folder + "/" + name, ignored)) return name;
  return "";
}

std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::int64_t step = step_of(entry.path().filename().string()); step >= 0) {
      const bool is_dangling = entry.is_symlink(error) && !entry.exists(error);  // a read gives the reason
      if (entry.is_directory(error) || is_dangling) out[step] = entry.path().string();
    }
  return out;
}

bool holds_only_model(const std::string& checkpoint) {
  std::error_code ignored;
  const fs::path folder(checkpoint);
  return fs::exists(folder / "trainer_state.json", ignored) && !fs::exists(folder / "run_state.json", ignored);
}

namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_tokenizer_file(std::string_view name) {
  const auto names = tokenizer_file_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// `checkpoint-3.partial`, `model.safetensors.partial`, `config.json.partial`, `trainer_state.json.tmp123.0`,
// `merges.txt.tmp123.0`. Other files with such an end belong to the user.
bool is_left(const std::string& name) {
  constexpr std::string_view kTemporary = ".tmp";
  if (name.ends_with(kPartial)) {
    const std::string stem = name.substr(0, name.size() - kPartial.size());
    return step_of(stem) >= 0 || is_model_file(stem) || stem == kIndexFile || stem == "config.json";
  }
  const auto found = name.rfind(kTemporary);
  if (found == std::string::npos) return false;
  const std::string stem = name.substr(0, found);
  if (stem != "trainer_state.json" && stem != "training_args.json" && !is_tokenizer_file(stem)) return false;
  const std::string_view numbers = std::string_view(name).substr(found + kTemporary.size());
  const auto dot = numbers.find('.');
  return dot != std::string_view::npos && is_number(numbers.substr(0, dot)) && is_number(numbers.substr(dot + 1));
}

}  // namespace

std::vector<std::string> remove_partial_checkpoints(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_left(entry.path().filename().string())) out.push_back(entry.path().string());
  for (const std::string& path : out) fs::remove_all(path, error);
  return out;
}

std::vector<std::string> set_checkpoints_aside(const std::string& folder, std::int64_t step) {
  std::vector<std::string> out;
  for (const auto& [number, path] : checkpoints_in(folder)) {
    if (number <= step) continue;
    set_aside(path);
    out.push_back(path);
  }
  return out;
}

void keep_newest_checkpoints(const std::string& folder, std::int64_t most, const std::string& best,
                             const std::string& written) {
  auto found = checkpoints_in(folder);
  std::error_code ignored;
  std::erase_if(found, [&](const auto& one) {  // folders of others
    return !fs::exists(fs::path(one.second) / kManifestFile, ignored);
  });
  if (found.empty()) return;
  const auto name_of = [](const std::string& path) { return fs::path(without_end_slash(path)).filename(); };
  const std::string newest = written.empty() ? found.rbegin()->second : written;
  const auto stays = [&](const std::string& path) {
    return name_of(path) == name_of(newest) || (!best.empty() && name_of(path) == name_of(best));
  };
  const std::int64_t least =
      std::count_if(found.begin(), found.end(), [&](const auto& one) { return stays(one.second); });
  std::int64_t surplus = isize(found) - std::max(most, least);
  for (const auto& [step, path] : found) {
    if (surplus <= 0) return;
    if (stays(path)) continue;
    const std::string renamed = path + std::string(kPartial);  // no longer a complete checkpoint
    fs::rename(path, renamed);
    fs::remove_all(renamed);
    --surplus;
  }
}

}  // namespace tessera
