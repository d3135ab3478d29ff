// SPDX-License-Identifier: Apache-2.0
#include "save_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <ranges>
#include <string_view>
#include <vector>

#include "files/file_names.h"
#include "files/manifest.h"
#include "save_after_error.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/execution/values_by_rank.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// JSON cannot hold other text, and readers would find other names.
void check_text(const char* what, const std::string& name) {
  require(is_utf8(name), "the name of {} must be UTF-8, got \"{}\"", what, [&] { return escape_controls(name); });
}

void check_group(const std::string& group) {
  check_text("a group", group);
  require(!group.empty() && group.find('/') == std::string::npos,
          "the name of a group must not be empty or contain a slash, because a slash ends the name in the files; got "
          "\"{}\"",
          [&] { return escape_controls(group); });
}

void check_document(const std::string& name) {
  check_text("a document", name);
  const bool is_file_name =
      !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  require(is_file_name,
          "the document \"{}\" is written to a file of its name, which must not be empty or contain a slash",
          [&] { return escape_controls(name); });
  require(name + ".json" != kManifestFile,
          "a document cannot be named {}, because {} lists the files of the checkpoint", name, kManifestFile);
}

std::uint64_t hash_of_tensors(const CheckpointContent& content) {
  std::size_t out = 0;
  for (const auto& [group, state] : content.states) {
    out = hash_mix(out, hash_text(group + "/" + std::string(state.class_name())));
    for (const NamedTensor& entry : state.entries())
      out = hash_mix(out, hash_text(fmt::format("{} {} {}", entry.name, entry.tensor.type().str(),
                                                fmt::join(entry.exported_dims, ","))));
  }
  return out;
}

std::string names_of_documents(const CheckpointContent& content) {
  const auto names = std::views::keys(content.documents);
  return names.empty() ? "no documents" : fmt::format("{}", fmt::join(names, ", "));
}

bool is_digits(std::string_view text) { return text.find_first_not_of("0123456789") == std::string_view::npos; }

// `state-00001-of-00004.safetensors`, and the list of its checksums, also while it is written.
bool is_state_file(std::string_view name) {
  constexpr std::string_view kStart = "state-";
  constexpr std::string_view kMiddle = "-of-";
  constexpr std::string_view kEnd = ".safetensors";
  constexpr std::string_view kList = ".xxh3";
  if (name.ends_with(kPartial)) name.remove_suffix(kPartial.size());
  if (name.ends_with(kList)) name.remove_suffix(kList.size());
  if (!name.starts_with(kStart) || !name.ends_with(kEnd) || name.size() <= kStart.size() + kEnd.size()) return false;
  name = name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size());
  const auto middle = name.find(kMiddle);
  return middle != std::string_view::npos && is_digits(name.substr(0, middle)) &&
         is_digits(name.substr(middle + kMiddle.size()));
}

// Documents are written when there is a file of a rank. An interrupted deletion may leave any of these files.
bool is_left_by_save(const std::string& folder) {
  if (!fs::is_directory(fs::symlink_status(folder))) return false;
  bool has_own = fs::is_empty(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_own = is_state_file(name) || name == kManifestFile || name == kTakenOver || name == kGivenUp;
    if (!entry.is_regular_file() || (!is_own && !name.ends_with(".json"))) return false;
    has_own = has_own || is_own;
  }
  return has_own;
}

// The folders of this rank. Shared, because a writer may live longer than the state of the rank.
struct Folders {
  std::shared_ptr<std::set<std::string>> all = std::make_shared<std::set<std::string>>();
};

}  // namespace

std::string checked_folder(const std::string& folder) {
  require(!folder.empty(), "cannot save a checkpoint: the name of the folder is empty");
  std::string out = without_end_slash(folder);
  const fs::path last = fs::path(out).filename();
  require(!last.empty() && last != "." && last != "..",
          "cannot save a checkpoint to {}: give the name of a new folder, such as {}", folder,
          [&] { return (fs::path(folder) / "checkpoint-1").string(); });
  return out;
}

void check_names(const CheckpointContent& content) {
  for (const auto& [group, state] : content.states) {
    check_group(group);
    for (const NamedTensor& entry : state.entries()) check_text("a tensor", entry.name);
  }
  for (const auto& [name, document] : content.documents) check_document(name);
}

void check_same_on_all_ranks(ProcessGroup& world, const std::string& folder, const CheckpointContent& content) {
  struct Part {
    const char* what;
    std::string own;
  };
  const std::array<Part, 3> parts = {
      {{"to different folders", folder},
       {"tensors with other names or types, whose hashes are", fmt::format("{:016x}", hash_of_tensors(content))},
       {"other documents", names_of_documents(content)}}};
  constexpr char kBetween = '\0';
  const std::string own = parts[0].own + kBetween + parts[1].own + kBetween + parts[2].own;
  const auto all = gather_texts(world, own);
  if (std::all_of(all.begin(), all.end(), [&](const std::string& one) { return one == all.front(); })) return;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::string> values;
    for (const std::string& one : all) values.push_back(at(split(one, kBetween), i));
    if (std::all_of(values.begin(), values.end(), [&](const std::string& one) { return one == values.front(); }))
      continue;
    fail("cannot save {}: the ranks save {}: {}; all ranks must save the same checkpoint", folder, at(parts, i).what,
         values_by_rank(values));
  }
}

void make_partial_folder(const std::string& path) {
  if (fs::exists(fs::symlink_status(path))) {
    require(
        is_left_by_save(path),
        "{} exists, and no save of a checkpoint has left it; the checkpoint is written under this name first, so move "
        "it away",
        path);
    fs::remove_all(path);
  }
  make_folder(path);
}

FolderInFlight::FolderInFlight(const std::string& folder)
    : path_(fs::absolute(folder).lexically_normal().string()), all_(RankContext::current().get<Folders>().all) {
  if (all_->insert(path_).second) return;
  fail("another CheckpointWriter is still saving this folder; call its finish() first");
}

FolderInFlight::~FolderInFlight() { all_->erase(path_); }

}  // namespace tessera
