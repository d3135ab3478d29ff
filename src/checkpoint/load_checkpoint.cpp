// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

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
                   isize(tensor.parts)});
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

LoadStateResult Checkpoint::set_readers(
    const std::string& group, const StateDict& state, const LoadStateOptions& options,
    const std::function<ShardReader(std::shared_ptr<PieceFiles>, const std::string&)>& reader_of) const {
  const std::vector<NamedType> given = types_of(group);
  LoadStateResult result;
  const auto sources = match_state(state, given, folder() + " (" + group + ")", options, result);
  const auto files = std::make_shared<PieceFiles>(manifest_);
  const std::uint64_t checksums = manifest_->hash();
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i] >= 0) {
      const std::string name = group + "/" + at(given, sources[i]).name;
      read_when_needed(state.entries()[i].tensor, reader_of(files, name), hash_mix(checksums, hash_text(name)));
    }
  return result;
}

LoadStateResult Checkpoint::load(const std::string& group, const StateDict& state,
                                 const LoadStateOptions& options) const {
  return set_readers(group, state, options, [&](std::shared_ptr<PieceFiles> files, const std::string& name) {
    return independent_reader(std::move(files), name, manifest_->tensors.at(name).type.dtype());
  });
}

void Checkpoint::load_now(const std::string& group, const StateDict& state) const {
  set_readers(group, state, {}, [&](std::shared_ptr<PieceFiles> files, const std::string& name) {
    return collective_reader(std::move(files), manifest_, name);
  });
  read_now(state);
}

void Checkpoint::check_fit(const std::string& group, const StateDict& state) const {
  LoadStateResult ignored;
  match_state(state, types_of(group), folder() + " (" + group + ")", {}, ignored);
}

void Checkpoint::verify_documents() const {
  for (const auto& [name, file] : manifest_->files)
    if (!file.has_list) verify_file(folder(), name, file);
}

void Checkpoint::verify() const {
  const auto world = joined_world();
  on_all_ranks(folder() + " is damaged", [&] {
    int number = 0;
    for (const auto& [name, file] : manifest_->files) {
      if (number++ % world->size() != world->rank()) continue;
      verify_file(folder(), name, file);
    }
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

// If the checkpoint is damaged, returns nullopt and the reason. If it does not fit the states, throws an Error.
std::optional<Checkpoint> try_load(const std::string& folder, const std::map<std::string, StateDict>& states,
                                   std::string& reason) {
  std::optional<Checkpoint> opened;
  // A folder of this name need not be a checkpoint.
  const bool is_checkpoint = fs::exists(fs::path(folder) / kManifestFile);
  const std::string problem = folder + (is_checkpoint ? " is damaged" : " is not a checkpoint");
  const auto succeeds = [&](const std::function<void()>& body) {
    try {
      on_all_ranks(problem, body);
      return true;
    } catch (const Error& error) {
      reason = error.what();
      return false;
    }
  };
  if (!succeeds([&] { opened.emplace(folder); })) return std::nullopt;
  check_same_checkpoint(folder, *opened->manifest());
  for (const auto& [group, state] : states)
    if (!state.entries().empty() && !has_group(*opened, group)) {
      reason = fmt::format(
          "{} contains no {}, for example because of --save_only_model: it can start another run, but not "
          "continue its own (tessera checkpoint consolidate, then --model_name_or_path)",
          folder, group);
      return std::nullopt;
    }
  for (const auto& [group, state] : states) opened->check_fit(group, state);
  const bool is_read = succeeds([&] {
    opened->verify_documents();
    for (const auto& [group, state] : states) opened->load_now(group, state);
  });
  return is_read ? std::move(opened) : std::nullopt;
}

}  // namespace

namespace {

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
    on_all_ranks(folder + " is damaged", [&] { opened.emplace(folder); });
    opened->verify();
    return "";
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
}

Checkpoint load_checkpoint(const std::string& folder, const std::map<std::string, StateDict>& states) {
  on_all_ranks("cannot load a checkpoint", [&] { require_manifest(folder); });
  std::string reason;
  auto out = try_load(folder, states, reason);
  if (!out) throw Error(reason);
  return *std::move(out);
}

std::optional<Checkpoint> load_newest_checkpoint(const std::string& folder,
                                                 const std::map<std::string, StateDict>& states) {
  for (const std::string& name : newest_first(folder)) {
    std::string reason;
    if (auto out = try_load((fs::path(folder) / name).string(), states, reason)) return out;
    if (RankContext::current().rank() == 0) log_warning("{}; the checkpoint before it is tried", reason);
  }
  return std::nullopt;
}

}  // namespace tessera
