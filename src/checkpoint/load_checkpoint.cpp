// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "files/manifest.h"
#include "files/pieces.h"
#include "files/verified_file.h"
#include "on_all_ranks.h"
#include "read_together.h"
#include "tessera/base/checksum.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/random_access.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/execution/values_by_rank.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

void verify_file(const std::string& folder, const std::string& name, const StoredFile& file) {
  const std::string path = folder + "/" + name;
  if (file.has_list) return VerifiedFile(path, file).verify();
  const std::uint64_t bytes = InputFile(path).size();
  require(bytes == file.bytes, "{} has {} bytes, the manifest lists {}", path, bytes, file.bytes);
  require(checksum_of_file(path) == file.checksum, "{} has another checksum than the manifest lists", path);
}

}  // namespace

Checkpoint::Checkpoint(const std::string& folder)
    : manifest_(std::make_shared<const CheckpointManifest>(CheckpointManifest::from_folder(folder))) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

const std::string& Checkpoint::folder() const { return manifest_->folder; }

std::vector<Checkpoint::Entry> Checkpoint::entries() const {
  std::vector<Entry> out;
  for (const auto& [name, tensor] : manifest_->tensors) {
    const auto slash = name.find('/');
    out.push_back({name.substr(0, slash), slash == std::string::npos ? "" : name.substr(slash + 1), tensor.type,
                   tensor.exported_dims, isize(tensor.parts)});
  }
  return out;
}

std::map<std::string, Checkpoint::Group> Checkpoint::groups() const {
  std::map<std::string, Group> out;
  for (const Entry& entry : entries()) {
    Group& group = out[entry.group];
    ++group.tensors;
    group.elements += entry.type.element_count();  // the sums fit: CheckpointManifest::from_folder()
    group.bytes += entry.type.byte_size();
  }
  return out;
}

std::map<std::string, std::uint64_t> Checkpoint::files() const {
  std::map<std::string, std::uint64_t> out;
  for (const auto& [name, file] : manifest_->files) out[name] = file.bytes;
  return out;
}

std::vector<std::string> Checkpoint::document_names() const {
  constexpr std::string_view kEnd = ".json";
  std::vector<std::string> out;
  for (const auto& [name, file] : manifest_->files)
    if (!file.has_list && name.ends_with(kEnd)) out.push_back(name.substr(0, name.size() - kEnd.size()));
  return out;
}

JsonObject Checkpoint::document(const std::string& name) const {
  const auto found = manifest_->files.find(name + ".json");
  require(found != manifest_->files.end(), "{} contains no {}.json", folder(), name);
  verify_file(folder(), found->first, found->second);
  return JsonObject::from_file(folder() + "/" + found->first);
}

std::vector<NamedType> Checkpoint::types_of(const std::string& group) const {
  std::vector<NamedType> out;
  for (const auto& [name, tensor] : manifest_->tensors)
    if (name.starts_with(group + "/")) out.push_back({name.substr(group.size() + 1), tensor.type});
  return out;
}

std::string Checkpoint::class_name(const std::string& group) const {
  const auto found = manifest_->classes.find(group);
  return found == manifest_->classes.end() ? "" : found->second;
}

std::vector<int> Checkpoint::set_readers(
    const std::string& group, const StateDict& state, const LoadStateOptions& options, LoadStateResult& result,
    const std::function<ShardReader(std::shared_ptr<PieceFiles>, const std::string&)>& reader_of) const {
  const std::vector<NamedType> given = types_of(group);
  auto sources = match_state(state, given, folder() + " (" + group + ")", options, result, class_name(group));
  const auto files = std::make_shared<PieceFiles>(manifest_);
  const std::uint64_t checksums = manifest_->hash();
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i] >= 0) {
      const std::string name = group + "/" + at(given, sources[i]).name;
      read_when_needed(state.entries()[i].tensor, reader_of(files, name), hash_mix(checksums, hash_text(name)));
    }
  return sources;
}

LoadStateResult Checkpoint::load(const std::string& group, const StateDict& state,
                                 const LoadStateOptions& options) const {
  LoadStateResult result;
  const auto reader = [&](std::shared_ptr<PieceFiles> files, const std::string& name) {
    return independent_reader(std::move(files), name, manifest_->tensors.at(name).type.dtype());
  };
  set_numbers(state, set_readers(group, state, options, result, reader));
  return result;
}

void Checkpoint::load_now(const std::string& group, const StateDict& state) const {
  set_numbers(state, read_tensors(group, state));
}

std::vector<int> Checkpoint::read_tensors(const std::string& group, const StateDict& state) const {
  LoadStateResult ignored;
  const auto reader = [&](std::shared_ptr<PieceFiles> files, const std::string& name) {
    return collective_reader(std::move(files), manifest_, name);
  };
  auto sources = set_readers(group, state, {}, ignored, reader);
  read_now(state);
  return sources;
}

void Checkpoint::check_fit(const std::string& group, const StateDict& state) const {
  LoadStateResult ignored;
  match_state(state, types_of(group), folder() + " (" + group + ")", {}, ignored, class_name(group));
}

void Checkpoint::verify_documents() const {
  for (const auto& [name, file] : manifest_->files)
    if (!file.has_list) verify_file(folder(), name, file);
}

namespace {

// A part of a tensor, as the manifest lists it.
struct ListedPart {
  std::string name;
  Type type;
};

std::map<std::string, std::vector<ListedPart>> parts_by_file(const CheckpointManifest& manifest) {
  std::map<std::string, std::vector<ListedPart>> out;
  for (const auto& [name, tensor] : manifest.tensors)
    for (const TensorPart& part : tensor.parts)
      out[part.file].push_back({name, tensor.type.with_dims(buffer_of(part.region).sizes)});
  return out;
}

// The checksums are right even if the ranks have saved other tensors than the manifest lists.
void verify_header(const std::string& path, const std::vector<ListedPart>& listed) {
  const SafetensorsHeader header = SafetensorsHeader::from_file(InputFile(path));
  std::map<std::string_view, const Type*> found;
  for (const SafetensorsEntry& entry : header.tensors) found[entry.name] = &entry.type;
  for (const ListedPart& part : listed) {
    const auto name = [&] { return escape_controls(part.name); };
    const auto it = found.find(part.name);
    require(it != found.end(), "{} does not contain {}", path, name);
    require(*it->second == part.type, "{}: {} is {}, the manifest lists {}", path, name, *it->second, part.type);
  }
  require(found.size() == listed.size(), "{} contains {} tensors, the manifest lists {}", path, found.size(),
          listed.size());
}

}  // namespace

void Checkpoint::verify() const {
  const auto world = joined_world();
  const auto parts = parts_by_file(*manifest_);
  on_all_ranks(folder() + " is damaged", [&] {
    int number = 0;
    std::vector<std::string> errors;
    for (const auto& [name, file] : manifest_->files) {
      if (number++ % world->size() != world->rank()) continue;
      try {
        verify_file(folder(), name, file);
        if (!file.has_list) continue;
        const auto listed = parts.find(name);
        verify_header(folder() + "/" + name, listed == parts.end() ? std::vector<ListedPart>() : listed->second);
      } catch (const Error& error) {
        errors.emplace_back(error.what());
      }
    }
    if (!errors.empty()) fail("{}", fmt::join(errors, "; "));
  });
}

namespace {

// The manifest has the checksums of all files.
void check_same_checkpoint(const std::string& folder, const CheckpointManifest& manifest) {
  const auto hashes = gather_texts(*joined_world(), fmt::format("{:016x}", manifest.hash()));
  require(std::all_of(hashes.begin(), hashes.end(), [&](const auto& hash) { return hash == hashes.front(); }),
          "{} is not the same checkpoint on all ranks: its checksums have the hash {}. Copy the folder of one rank to "
          "the others, or use a shared file system",
          folder, [&] { return values_by_rank(hashes); });
}

bool has_group(const Checkpoint& checkpoint, const std::string& group) {
  const auto entries = checkpoint.entries();
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.group == group; });
}

// What is wrong with the folder in which a file is missing or damaged. A folder of this name need not be a checkpoint.
// The error about the missing manifest names the folder itself.
std::string problem_of(const std::string& folder) { return may_have_manifest(folder) ? folder + " is damaged" : ""; }

// Says which of the states the checkpoint does not contain; "" if it contains all of them.
std::string lack_of(const Checkpoint& checkpoint, const std::map<std::string, StateDict>& states) {
  for (const auto& [group, state] : states)
    if (!state.entries().empty() && !has_group(checkpoint, group))
      return fmt::format(
          "{} contains no state of the {}{}: no run can be resumed from it, but another run can start from its weights "
          "(tessera checkpoint consolidate, then --model_name_or_path)",
          checkpoint.folder(), group,
          holds_only_model(checkpoint.folder()) ? ", because it was written with --save_only_model" : "");
  return "";
}

// The values of states, which get them back if no checkpoint can be loaded. Large values are not kept, because they would be
// in memory beside those of the checkpoint.
class KeptValues {
 public:
  explicit KeptValues(const std::map<std::string, StateDict>& states) {
    std::int64_t bytes = 0;
    for (const auto& [group, state] : states) bytes += bytes_in_memory(state);
    constexpr std::int64_t kMost = std::int64_t{16} << 20;
    keeps_ = bytes <= kMost;
    if (!keeps_) return;
    for (const auto& [group, state] : states) restorers_.push_back(restorer_of(state));
  }
  // Call it if a checkpoint could not be read to its end.
  void restore() {
    for (const auto& restorer : restorers_) restorer();
    is_lost_ = !keeps_;
  }
  [[nodiscard]] bool is_lost() const { return is_lost_; }

 private:
  bool keeps_ = true;
  bool is_lost_ = false;
  std::vector<std::function<void()>> restorers_;
};

// The outcome of loading a checkpoint.
struct Attempt {
  std::optional<Checkpoint> loaded;
  std::string damage;  // why nothing was loaded, or
  std::string lack;    // the checkpoint is undamaged, but does not contain all states
};

// Loads all states, or gives them back the values of `kept`. Returns false in the latter case.
bool load_all(const Checkpoint& checkpoint, const std::map<std::string, StateDict>& states, KeptValues& kept,
              const std::function<bool(const std::function<void()>&)>& succeeds) {
  std::vector<std::vector<int>> sources;
  const bool is_read = succeeds([&] {
    checkpoint.verify_documents();
    for (const auto& [group, state] : states) sources.push_back(checkpoint.read_tensors(group, state));
  });
  if (!is_read)
    kept.restore();
  else
    for (auto next = sources.begin(); const auto& [group, state] : states) set_numbers(state, *next++);
  return is_read;
}

// Throws an Error if the checkpoint does not fit the states, or has another version of the format: it may be undamaged.
Attempt try_load(const std::string& folder, const std::map<std::string, StateDict>& states, KeptValues& kept) {
  Attempt out;
  std::optional<Checkpoint> opened;
  const std::string problem = problem_of(folder);
  const auto succeeds = [&](const std::function<void()>& body) {
    try {
      on_all_ranks(problem, body);
      return true;
    } catch (const Error& error) {
      out.damage = error.what();
      return false;
    }
  };
  if (!succeeds([&] { opened.emplace(folder); })) {
    on_all_ranks("", [&] {
      if (const std::string other = other_format_of(folder); !other.empty()) fail("{}", other);
    });
    return out;
  }
  check_same_checkpoint(folder, *opened->manifest());
  out.lack = lack_of(*opened, states);
  if (!out.lack.empty()) return out;
  for (const auto& [group, state] : states) opened->check_fit(group, state);
  if (load_all(*opened, states, kept, succeeds)) out.loaded = std::move(opened);
  return out;
}

// The names of the checkpoints that rank 0 finds. A shared file system may show other ranks an older state.
std::vector<std::string> newest_first(const std::string& folder) {
  std::string own;
  const auto found = checkpoints_in(folder);
  for (auto one = found.rbegin(); one != found.rend(); ++one)
    own += (own.empty() ? "" : "/") + fs::path(one->second).filename().string();
  const std::string names = gather_texts(*joined_world(), own).front();
  return names.empty() ? std::vector<std::string>() : split(names, '/');
}

}  // namespace

std::string damage_of(const std::string& folder) {
  try {
    std::optional<Checkpoint> opened;
    on_all_ranks(problem_of(folder), [&] { opened.emplace(folder); });
    opened->verify();
    return "";
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    const std::string other = other_format_of(folder);
    return other.empty() ? error.what() : other;
  }
}

Checkpoint load_checkpoint(const std::string& folder, const std::map<std::string, StateDict>& states) {
  on_all_ranks("cannot load a checkpoint", [&] { require_manifest(folder); });
  KeptValues kept(states);
  Attempt attempt = try_load(folder, states, kept);
  if (!attempt.loaded) throw Error(attempt.damage + attempt.lack);
  return *std::move(attempt.loaded);
}

std::optional<Checkpoint> load_newest_checkpoint(const std::string& folder,
                                                 const std::map<std::string, StateDict>& states) {
  KeptValues kept(states);
  std::vector<std::string> lacks;  // from the newest checkpoint on
  for (const std::string& name : newest_first(folder)) {
    Attempt attempt = try_load((fs::path(folder) / name).string(), states, kept);
    const bool is_first = RankContext::current().rank() == 0;
    if (is_first && !attempt.damage.empty()) log_warning("{}; the next older checkpoint is tried", attempt.damage);
    if (!attempt.lack.empty()) lacks.push_back(attempt.lack);
    if (!attempt.loaded) continue;
    for (const std::string& lack : lacks)
      if (is_first) log_warning("{}; {} is loaded", lack, attempt.loaded->folder());
    return std::move(attempt.loaded);
  }
  require(
      !kept.is_lost(),
      "all checkpoints in {} are damaged, and the states have lost the values that they had before; load checkpoints "
      "into states without values, or with less than 16 MiB of them",
      folder);
  if (!lacks.empty()) fail("no checkpoint in {} can continue its run: {}", folder, lacks.front());
  return std::nullopt;
}

}  // namespace tessera
