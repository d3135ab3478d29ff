// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the state of a run in a folder, for any mesh and number of ranks.
//
//   save_checkpoint("out/checkpoint-100", {.states = {{"model", model.state_dict()}}, .documents = {{"trainer_state", json}}});
//   const auto found = newest_checkpoint("out");              the newest one that is not damaged
//   found->load("model", model.state_dict());                 every rank reads its shards when it needs them
//
// A folder contains one safetensors file for each rank that saved it, with the parts of the tensors that this rank wrote;
// the documents as NAME.json; and manifest.json with the parts of each tensor, and the size and checksum of each file.
// The folder is complete if it has its name: it is renamed after all its files are on the disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/json_object.h"
#include "tessera/frontend/tensor/state_dict.h"

namespace tessera {

struct CheckpointContent {
  std::map<std::string, StateDict> states;      // by group: "model", "optimizer"
  std::map<std::string, JsonObject> documents;  // by name; equal on all ranks
};

/// Writes a checkpoint. Collective: every rank writes the elements that it holds to its own file, and devices with equal
/// shards divide them. An existing folder of this name is replaced when the new one is complete. Error, on all ranks, if
/// a rank cannot write; then nothing is left of the new folder.
void save_checkpoint(const std::string& folder, const CheckpointContent& content);

struct CheckpointManifest;  // src/checkpoint/manifest.h

class Checkpoint {
 public:
  /// Reads the manifest and the headers. Error naming the file that is missing, truncated or not valid.
  explicit Checkpoint(const std::string& folder);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  [[nodiscard]] const std::string& folder() const;
  /// A tensor of the checkpoint.
  struct Entry {
    std::string group;
    std::string name;
    Type type;
    std::int64_t parts = 0;
  };
  [[nodiscard]] std::vector<Entry> entries() const;
  /// The sizes of all files in bytes, by name.
  [[nodiscard]] std::map<std::string, std::uint64_t> files() const;
  /// A document. Error if the checkpoint has none of this name.
  [[nodiscard]] JsonObject document(const std::string& name) const;
  /// Gives the variables of `state` the values of the group, in any sharding: a rank reads its shards when they are first
  /// needed. Errors as load_state().
  LoadStateResult load(const std::string& group, const StateDict& state, const LoadStateOptions& options = {}) const;
  /// Compares the checksums of all files. Collective: the ranks divide the files. Error, on all ranks, naming the file.
  void verify() const;
  /// Writes the tensors of a group to a model folder, with the names and shapes of Hugging Face, and config.json if it is a
  /// document of the checkpoint. Needs little memory: data is copied in pieces. Not collective.
  void consolidate(const std::string& group, const std::string& folder, std::int64_t max_shard_bytes) const;

 private:
  std::unique_ptr<CheckpointManifest> manifest_;
};

/// The complete checkpoints `checkpoint-N` in a folder, by N.
std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder);
/// Opens and verifies the newest checkpoint in a folder. For each damaged one it prints a warning and tries the one
/// before. Nullopt if there is none. Collective.
std::optional<Checkpoint> newest_checkpoint(const std::string& folder);
/// Deletes what interrupted saves left in a folder, and returns the paths. On one rank, while no rank saves.
std::vector<std::string> remove_partial_checkpoints(const std::string& folder);
/// Deletes all but the newest `most` checkpoints in a folder. On one rank.
void keep_newest_checkpoints(const std::string& folder, std::int64_t most);

}  // namespace tessera
