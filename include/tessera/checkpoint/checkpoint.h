// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the state of a run in a folder, for any mesh and number of ranks.
//
//   CheckpointWriter writer;
//   writer.begin("out/checkpoint-100", {.states = {{"model", model.state_dict()}},
//                                       .documents = {{"trainer_state", json}}});
//   while (training) { step(); if (auto ended = writer.poll()) report(*ended); }        writes while the steps run
//   const auto found = load_newest_checkpoint("out", {{"model", model.state_dict()}});      the newest undamaged one
//
// A checkpoint is a folder. Each rank that saved it wrote a safetensors file with its parts of the tensors, and a list
// of the checksums of the blocks of this file. NAME.json contains the document NAME. manifest.json lists the parts of
// each tensor, and the size and checksum of each file. The folder gets its name only when all files are on the disk, so
// a folder with this name is complete.
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

/// The content of a new checkpoint.
struct CheckpointContent {
  std::map<std::string, StateDict> states;      // by group: "model", "optimizer"
  std::map<std::string, JsonObject> documents;  // by name, the same names on all ranks; those of rank 0 are written
  /// Called on one rank when all files are on the disk, before the folder gets its name, possibly in another thread: on
  /// rank 0, or, if a rank leaves the save with an exception, on any rank. If it throws an exception, the save fails.
  std::function<void()> before_complete = {};
  /// Called on the same rank when the folder is complete, possibly in another thread. Used to delete older checkpoints.
  std::function<void()> when_complete = {};
};

/// Writes a checkpoint. Collective: every rank writes the elements that it holds to its own file, and devices with
/// equal shards divide them. An existing folder of this name is replaced when the new one is complete. If a rank cannot
/// write, all ranks throw an Error, and the new folder is deleted.
void save_checkpoint(const std::string& folder, const CheckpointContent& content);

/// Writes checkpoints in a thread of each rank while the program continues. The checkpoint has the values at the time
/// of begin(): before a program overwrites a variable in place, it copies the elements that the thread has not read
/// yet.
class CheckpointWriter {
 public:
  struct Outcome {
    std::string folder;
    std::string error;       // of the first rank with an error; "" if the checkpoint is complete
    double cpu_seconds = 0;  // processor time of the threads of this rank that wrote
  };
  CheckpointWriter();
  /// Calls finish() if a save is in flight; rank 0 prints a warning if that save fails. If an exception leaves the
  /// scope, perhaps on one rank alone, waits at most 60 s for the files of all ranks. If they are complete, one of the
  /// ranks with an exception completes the checkpoint, and prints a line. Otherwise, it warns that the save is lost. It
  /// leaves a folder NAME.partial, and earlier checkpoints remain.
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&&) = delete;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;

  /// Starts a save. Waits for the values of the variables, but not for the disk. Collective. Errors: a save of this
  /// writer, or to the same folder, is in flight; the folder cannot be created; FOLDER.partial exists and no save has
  /// left it; a name cannot be loaded again: a group with a slash, the document `manifest`, names that are not UTF-8;
  /// the ranks save different folders, tensors or documents. Errors are thrown on all ranks.
  void begin(const std::string& folder, const CheckpointContent& content);
  /// True if a save is in flight. The result is the same on all ranks.
  [[nodiscard]] bool is_busy() const { return save_ != nullptr; }
  /// Returns the outcome of the save in flight if it has ended on all ranks, else nullopt. Must be called between
  /// steps, because it also continues the save. Takes some microseconds. Collective.
  std::optional<Outcome> poll();
  /// Waits for the end of the save in flight, and returns its outcome. Nullopt if there is none. Collective.
  std::optional<Outcome> finish();
  /// Gives up the save in flight, because its values must not be used. It leaves a folder NAME.partial. If all ranks
  /// have written their files, the checkpoint may be complete already. All ranks must call it, but it is not
  /// collective.
  void drop();

 private:
  struct Save;
  std::unique_ptr<Save> save_;
};

struct CheckpointManifest;  // src/checkpoint/files/manifest.h
class PieceFiles;           // src/checkpoint/files/pieces.h

/// A complete checkpoint on disk.
class Checkpoint {
 public:
  /// Reads the manifest. Error, with its path, if it is missing, truncated (even by one byte) or not valid.
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
    Dims exported_dims;  // the shape in model folders
    std::int64_t parts = 0;
  };
  [[nodiscard]] std::vector<Entry> entries() const;
  /// The size of a group.
  struct Group {
    std::int64_t tensors = 0;
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
  };
  [[nodiscard]] std::map<std::string, Group> groups() const;
  /// The class of the object whose state the group is, such as AdamW; "" if the checkpoint does not contain it.
  [[nodiscard]] std::string class_name(const std::string& group) const;
  /// The sizes of all files in bytes, by name.
  [[nodiscard]] std::map<std::string, std::uint64_t> files() const;
  /// The names of the documents.
  [[nodiscard]] std::vector<std::string> document_names() const;
  /// Returns a document. Error if there is no document of this name, or if it is damaged.
  [[nodiscard]] JsonObject document(const std::string& name) const;
  /// Gives the variables and numbers of `state` the values of the group. Shardings may differ from those of the save. A
  /// rank reads numbers during the call, and its shards when they are first needed. It verifies the checksums of both.
  /// Errors: those of load_state().
  LoadStateResult load(const std::string& group, const StateDict& state, const LoadStateOptions& options = {}) const;
  /// The same, but reads all values during the call. Collective: if several ranks need the same block of a file, one
  /// rank reads it for all of them. Errors: those of load(), on all ranks.
  void load_now(const std::string& group, const StateDict& state) const;
  /// The same without the numbers of the state. Returns the sources that set_numbers() takes.
  std::vector<int> read_tensors(const std::string& group, const StateDict& state) const;
  /// Checks that the group fits the state. Reads no values. Errors: those of load().
  void check_fit(const std::string& group, const StateDict& state) const;
  /// Compares the checksums of the documents.
  void verify_documents() const;
  /// Compares the checksums of all files, and the names and types in them, with the manifest. Collective: each rank
  /// reads some of the files. Error, on all ranks, with each damaged file.
  void verify() const;
  /// Writes the tensors of a group to a model folder, with the names and shapes of Hugging Face, and config.json if it
  /// is a document of the checkpoint. Needs little memory: data is copied in pieces. The folder is FOLDER.partial until
  /// it is complete. If FOLDER cannot be replaced (it is mounted, for example), the files are written into it, the
  /// weights last. Files that an interrupted call has left are deleted first, with a warning. Not collective. Error if
  /// the folder exists and is not empty.
  void consolidate(const std::string& group, const std::string& folder, std::int64_t max_shard_bytes) const;

  /// Writes the same checkpoint to a new folder with `count` files. File k has the rows [k*L, (k+1)*L) of each tensor
  /// with L = ceil(rows / count), which are the shards of FSDP. Data is copied in pieces. Not collective. Errors: the
  /// folder exists; no tensor has `count` rows.
  void reshard(const std::string& folder, int count) const;

  [[nodiscard]] const std::shared_ptr<const CheckpointManifest>& manifest() const { return manifest_; }

 private:
  [[nodiscard]] std::vector<NamedType> types_of(const std::string& group) const;
  /// Returns the result of match_state().
  std::vector<int> set_readers(
      const std::string& group, const StateDict& state, const LoadStateOptions& options, LoadStateResult& result,
      const std::function<ShardReader(std::shared_ptr<PieceFiles>, const std::string&)>& reader_of) const;
  std::shared_ptr<const CheckpointManifest> manifest_;
};

/// A tensor that differs between two checkpoints.
struct TensorDifference {
  std::string name;             // GROUP/NAME
  std::optional<Type> first{};  // nullopt: this checkpoint does not contain the tensor
  std::optional<Type> second{};
  std::int64_t different = 0;        // elements with other bits, if the types are equal
  double largest = 0;                // difference; NaN if one of two different elements is NaN
  std::optional<Dims> largest_at{};  // the index of this element; nullopt if no difference is above 0
};
/// The tensors that differ between two checkpoints, by name. The checkpoints may be from different layouts. Data is
/// read in pieces. Not collective.
std::vector<TensorDifference> differences_of(const Checkpoint& a, const Checkpoint& b);

/// The complete checkpoints `checkpoint-N` in a folder, by N. A symbolic link to nothing counts as one, too: it cannot be
/// loaded, but must not be passed over silently.
std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder);
/// The name of a file with a model's weights in the folder, also of other libraries, such as model.safetensors; "" if
/// there is none.
std::string weights_in(const std::string& folder);
/// Whether a checkpoint of a training program was written with --save_only_model, so that no run can be continued from
/// it.
bool holds_only_model(const std::string& checkpoint);
/// Loads the groups of the newest checkpoint in a folder, and reads their values. If it is damaged or lacks a group,
/// prints a warning and tries the previous checkpoint. Nullopt if there is none, or if all are damaged; the states then
/// keep the values that they had before the call. Collective. Errors: those of Checkpoint::load(); that of
/// other_format_of(), instead of trying older checkpoints; there are undamaged checkpoints, but all of them lack a
/// group; all are damaged, and the states had more than 16 MiB of values in memory, which are lost.
std::optional<Checkpoint> load_newest_checkpoint(const std::string& folder,
                                                 const std::map<std::string, StateDict>& states);
/// The same for one folder. Error, on all ranks, if it is damaged or has another format.
Checkpoint load_checkpoint(const std::string& folder, const std::map<std::string, StateDict>& states);
/// Reads and verifies all files of the checkpoint in a folder. Returns "" or, on all ranks, the reason why it cannot be
/// loaded. Collective.
std::string damage_of(const std::string& folder);
/// Returns the error about a checkpoint in another version of the format, such as one of a newer version of Tessera,
/// with both versions. "" if it has the version that this program reads, or if its manifest cannot be read.
std::string other_format_of(const std::string& folder);
/// Deletes the remains of interrupted saves in a folder, including those of model folders, and returns their paths.
/// Call it on one rank, while no rank saves.
std::vector<std::string> remove_partial_checkpoints(const std::string& folder);
/// Renames the checkpoints in a folder after `step` to NAME.replaced, because they do not belong to a run that resumes
/// from `step`. Returns their former paths. Call it on one rank.
std::vector<std::string> set_checkpoints_aside(const std::string& folder, std::int64_t step);
/// Deletes all but the newest `most` checkpoints in a folder. The checkpoints `best` and `written`, if given, are kept
/// and count. `written` is the one that was just saved. It counts as the newest checkpoint, whatever its number is. If
/// it is not given, the newest checkpoint is the one with the highest number. The newest checkpoint is always kept.
/// Call it on one rank.
void keep_newest_checkpoints(const std::string& folder, std::int64_t most, const std::string& best = "",
                             const std::string& written = "");

// A run that writes over another one in the same folder. If it is interrupted at any moment, the folder contains the
// complete checkpoints of exactly one of the two runs after recover_replaced_run(). Call these on one rank.

/// Moves the complete checkpoints in a folder to FOLDER/replaced_run. Call it when the first checkpoint of the new run
/// is on the disk, before it gets its name (CheckpointContent::before_complete).
void set_run_aside(const std::string& folder);
/// Deletes the checkpoints in FOLDER/replaced_run, and returns their number. Call it when the new run has a complete
/// checkpoint.
std::int64_t delete_run_aside(const std::string& folder);
/// Whether an interrupted run has left checkpoints in FOLDER/replaced_run.
bool holds_replaced_run(const std::string& folder);
/// The numbers of checkpoints of the replaced run that recover_replaced_run() has deleted and restored.
struct ReplacedRun {
  std::int64_t deleted = 0;   // because there is a complete checkpoint of the run that replaced it
  std::int64_t restored = 0;  // because there is none
};
/// Completes or undoes the replacement of a run that was interrupted: if the new run has a complete checkpoint, deletes
/// those of the replaced run, otherwise restores them. Does nothing if no run was being replaced.
ReplacedRun recover_replaced_run(const std::string& folder);

}  // namespace tessera
