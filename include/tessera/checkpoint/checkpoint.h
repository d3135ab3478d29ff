// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the state of a run in a folder, for any mesh and number of ranks.
//
//   CheckpointWriter writer;
//   writer.begin("out/checkpoint-100", {.states = {{"model", model.state_dict()}}, .documents = {{"trainer_state", json}}});
//   while (training) { step(); if (auto ended = writer.poll()) report(*ended); }        writes while the steps run
//   const auto found = load_newest_checkpoint("out", {{"model", model.state_dict()}});  the newest one that is not damaged
//
// A folder contains one safetensors file for each rank that saved it, with the parts of the tensors that this rank wrote,
// and a list of the checksums of its blocks; the documents as NAME.json; and manifest.json with the parts of each tensor,
// and the size and checksum of each file. The folder is complete if it has its name: it is renamed after all its files are
// on the disk.
#pragma once

#include <cstdint>
#include <functional>
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
  /// Called on rank 0 when the folder is complete, possibly in another thread: to delete older checkpoints.
  std::function<void()> when_complete = {};
};

/// Writes a checkpoint. Collective: every rank writes the elements that it holds to its own file, and devices with equal
/// shards divide them. An existing folder of this name is replaced when the new one is complete. Error, on all ranks, if
/// a rank cannot write; then nothing is left of the new folder.
void save_checkpoint(const std::string& folder, const CheckpointContent& content);

/// Writes checkpoints in a thread of each rank while the program continues. The content is that at begin(): before a
/// program overwrites a variable in place, it copies the elements that the thread has not read yet.
class CheckpointWriter {
 public:
  struct Outcome {
    std::string folder;
    std::string error;       // of the first rank that has one; empty if the checkpoint is complete
    double cpu_seconds = 0;  // processor time of the threads of this rank that wrote
  };
  CheckpointWriter();
  /// Waits for the thread. A save that was not finished leaves a folder NAME.partial.
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&&) = delete;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;

  /// Starts a save. Waits for the values of the variables, but not for the disk. Collective. Error if a save is in flight, or,
  /// on all ranks, if the folder cannot be made.
  void begin(const std::string& folder, const CheckpointContent& content);
  /// Whether a save is in flight. The same on all ranks.
  [[nodiscard]] bool is_busy() const { return save_ != nullptr; }
  /// Continues the save in flight, and returns its outcome when it has ended on all ranks. Call it between steps. It takes
  /// some microseconds. Collective.
  std::optional<Outcome> poll();
  /// Waits for the end of the save in flight, and returns its outcome. Nullopt if there is none. Collective.
  std::optional<Outcome> finish();

 private:
  struct Save;
  std::unique_ptr<Save> save_;
};

struct CheckpointManifest;  // src/checkpoint/files/manifest.h
class PieceFiles;           // src/checkpoint/files/pieces.h

class Checkpoint {
 public:
  /// Reads the manifest. Error naming it if it is missing, truncated or not valid.
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
  /// The names of the documents.
  [[nodiscard]] std::vector<std::string> document_names() const;
  /// A document. Error if the checkpoint has none of this name, or if it is damaged.
  [[nodiscard]] JsonObject document(const std::string& name) const;
  /// Gives the variables of `state` the values of the group, in any sharding: a rank reads its shards when they are first
  /// needed, and verifies what it reads. Errors as load_state().
  LoadStateResult load(const std::string& group, const StateDict& state, const LoadStateOptions& options = {}) const;
  /// Gives the variables of `state` the values of the group and reads them. Collective: ranks whose shards have elements of
  /// the same blocks read these together, so that each block is read once. Errors as load(), on all ranks.
  void load_now(const std::string& group, const StateDict& state) const;
  /// Error as load() if the group does not fit the state. Reads nothing.
  void check_fit(const std::string& group, const StateDict& state) const;
  /// Compares the checksums of the documents.
  void verify_documents() const;
  /// Compares the checksums of all files. Collective: the ranks divide the files. Error, on all ranks, naming the file.
  void verify() const;
  /// Writes the tensors of a group to a model folder, with the names and shapes of Hugging Face, and config.json if it is a
  /// document of the checkpoint. Needs little memory: data is copied in pieces. Not collective.
  void consolidate(const std::string& group, const std::string& folder, std::int64_t max_shard_bytes) const;

  /// Writes the checkpoint to a new folder with `count` files: file k has the rows [k*L, (k+1)*L) of each tensor, with
  /// L = ceil(rows / count), as FSDP divides them. The content is the same. Data is copied in pieces. Not collective.
  void reshard(const std::string& folder, int count) const;

  [[nodiscard]] const std::shared_ptr<const CheckpointManifest>& manifest() const { return manifest_; }

 private:
  [[nodiscard]] std::vector<NamedType> types_of(const std::string& group) const;
  LoadStateResult set_readers(
      const std::string& group, const StateDict& state, const LoadStateOptions& options,
      const std::function<ShardReader(std::shared_ptr<PieceFiles>, const std::string&)>& reader_of) const;
  std::shared_ptr<const CheckpointManifest> manifest_;
};

/// A tensor that differs between two checkpoints.
struct TensorDifference {
  std::string name;           // GROUP/NAME
  std::optional<Type> first;  // nullopt: this checkpoint does not contain the tensor
  std::optional<Type> second;
  std::int64_t different = 0;  // elements with other bits, if the types are equal
  double largest = 0;          // difference; NaN if one of two different elements is NaN
};
/// The tensors that differ between two checkpoints, in any layouts, by name. Data is read in pieces. Not collective.
std::vector<TensorDifference> differences_of(const Checkpoint& a, const Checkpoint& b);

/// The complete checkpoints `checkpoint-N` in a folder, by N.
std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder);
/// Loads the groups of the newest checkpoint in a folder, and reads their values. For each damaged one it prints a warning
/// and tries the one before. Nullopt if there is none. Collective. Errors as Checkpoint::load().
std::optional<Checkpoint> load_newest_checkpoint(const std::string& folder,
                                                 const std::map<std::string, StateDict>& states);
/// The same for one folder. Error, on all ranks, if it is damaged.
Checkpoint load_checkpoint(const std::string& folder, const std::map<std::string, StateDict>& states);
/// Reads and verifies all files of the checkpoint in a folder. Returns "" or, on all ranks, the reason why it cannot be
/// loaded. Collective.
std::string damage_of(const std::string& folder);
/// Deletes what interrupted saves left in a folder, also of model folders, and returns the paths. On one rank, while no
/// rank saves.
std::vector<std::string> remove_partial_checkpoints(const std::string& folder);
/// Renames the checkpoints in a folder after `step` to NAME.replaced, so that they are no checkpoints of the run anymore
/// that continues from `step`. Returns their paths. On one rank.
std::vector<std::string> set_checkpoints_aside(const std::string& folder, std::int64_t step);
/// Deletes all but the newest `most` checkpoints in a folder. The checkpoint `best`, if given, stays and counts as one of
/// them; the newest one stays too. On one rank.
void keep_newest_checkpoints(const std::string& folder, std::int64_t most, const std::string& best = "");

}  // namespace tessera
