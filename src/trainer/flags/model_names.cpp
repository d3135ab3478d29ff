// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/model_names.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera::trainer {
namespace {
namespace fs = std::filesystem;

// Names that cannot be paths, such as very long ones, name no folder.
bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

constexpr std::string_view kPrefix = "models--";

// $HF_HOME/hub, "" if there is no home.
fs::path hub_folder() {
  const std::string& folder = options().text("HF_HOME");
  if (folder.empty()) return {};
  if (!folder.starts_with("~/")) return fs::path(folder) / "hub";
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): read before threads start
  return home == nullptr ? fs::path() : fs::path(home) / folder.substr(2) / "hub";
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (is_folder(entry.path())) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// The folders models--* of the model in a cache: at most one for ORGANIZATION/NAME, or one for each organization.
std::vector<fs::path> stored_models(const fs::path& cache, const std::string& name) {
  std::string dashed = name;
  for (auto slash = dashed.find('/'); slash != std::string::npos; slash = dashed.find('/'))
    dashed.replace(slash, 1, "--");
  const fs::path exact = cache / (std::string(kPrefix) + dashed);
  if (is_folder(exact)) return {exact};
  std::vector<fs::path> out;
  if (dashed != name) return out;
  for (const fs::path& folder : folders_in(cache)) {
    const std::string stored = folder.filename().string();
    if (stored.starts_with(kPrefix) && stored.ends_with("--" + name)) out.push_back(folder);
  }
  return out;
}

// The revision that refs/main names, else the only one; "" if there is none.
std::string snapshot_of(const fs::path& model) {
  const fs::path main = model / "refs" / "main";
  if (is_there(main.string())) {
    const fs::path named = model / "snapshots" / trim(read_file(main.string()));
    if (is_folder(named)) return named.string();
  }
  const std::vector<fs::path> all = folders_in(model / "snapshots");
  return all.size() == 1 ? all.front().string() : "";
}

}  // namespace

std::string named_model_folder(const std::string& name, const std::string& cache_dir, const std::string& flag) {
  const bool is_tokenizer_without_file = name == "bytes" || name.starts_with("bpe:");
  if (name.empty() || is_tokenizer_without_file || fs::path(name).is_absolute() || is_there(name)) return "";
  std::vector<fs::path> caches;
  if (!cache_dir.empty()) caches.emplace_back(cache_dir);
  if (!cache_dir.empty() && is_folder(caches.front() / name)) return (caches.front() / name).string();
  if (const fs::path hub = hub_folder(); !hub.empty()) caches.push_back(hub);
  for (const fs::path& cache : caches) {
    const std::vector<fs::path> models = stored_models(cache, name);
    if (models.empty()) continue;
    require(models.size() == 1, "--{} {}: {} models in {} have this name, such as {} and {}; give ORGANIZATION/NAME",
            flag, name, models.size(), cache.string(), models.front().filename().string(),
            models.back().filename().string());
    if (std::string found = snapshot_of(models.front()); !found.empty()) return found;
  }
  return "";
}

void find_named_models(TrainingArguments& arguments) {
  const auto find = [&](std::string& name, const std::string& flag) {
    if (std::string found = named_model_folder(name, arguments.cache_dir, flag); !found.empty())
      name = std::move(found);
  };
  find(arguments.model_name_or_path, "model_name_or_path");
  find(arguments.tokenizer_name, "tokenizer_name");
  if (arguments.program == TrainingProgram::kClm) find(arguments.config_name, "config_name");
}

void use_tokenizer_of_model(TrainingArguments& arguments) {
  const std::string& folder = arguments.model_name_or_path;
  if (arguments.program != TrainingProgram::kClm || folder.empty()) return;
  for (const char* name : {"tokenizer.json", "merges.txt", "vocab.bpe"})
    if (is_there((fs::path(folder) / name).string())) {
      arguments.tokenizer_name = folder;
      arguments.derived_flags.emplace_back("tokenizer_name");
      return;
    }
}

void use_config_of_checkpoint(TrainingArguments& arguments) {
  const bool has_model = !arguments.config_name.empty() || !arguments.model_name_or_path.empty();
  if (arguments.program == TrainingProgram::kImages || has_model || arguments.resume_from_checkpoint.empty()) return;
  std::string folder = arguments.resume_from_checkpoint;
  if (folder == "true") {
    const auto all = checkpoints_in(arguments.output_dir);
    folder = all.empty() ? "" : all.rbegin()->second;
  }
  if (folder.empty() || !is_there((fs::path(folder) / "config.json").string())) return;
  arguments.config_name = folder + "/config.json";
  arguments.derived_flags.emplace_back("config_name");
}

}  // namespace tessera::trainer
