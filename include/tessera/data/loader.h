// SPDX-License-Identifier: Apache-2.0
// Loads batches in worker threads. Every rank makes only its shard of each array. Batches and their order do not depend
// on the mesh, the number of ranks or the number of workers.
//
//   Loader loader(std::make_shared<BlockSource>(blocks), {.batch_size = 32, .num_workers = 4, .mesh = mesh,
//                                                         .input_sharding = PartitionSpec{"data"}});
//   for (const Batch& batch : loader) train(batch.tensor("input_ids"), batch.tensor("labels"));   // an epoch
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/data/collate.h"
#include "tessera/data/source.h"
#include "tessera/frontend/tensor/tensor.h"

namespace tessera::data {

/// The sharding of the arrays of a batch: one spec for all, or one for each name. A spec may have fewer entries than an
/// array has dims; the other dims are not sharded. Without a spec every rank makes complete batches.
class InputSharding {
 public:
  InputSharding() = default;
  InputSharding(PartitionSpec all) : all_(std::move(all)) {}  // NOLINT(google-explicit-constructor): option literals
  // NOLINTNEXTLINE(google-explicit-constructor)
  InputSharding(std::map<std::string, PartitionSpec> by_name) : by_name_(std::move(by_name)), is_map_(true) {}
  /// Returns the spec of an array, with an entry for each of its dims. Errors: the spec has more entries than the array
  /// has dims; the map has no such name.
  [[nodiscard]] PartitionSpec spec_of(const std::string& name, int ndim) const;
  /// All specs, for any array.
  [[nodiscard]] std::vector<PartitionSpec> specs() const;
  /// Error if the map names an array that is not in `names`.
  void check_names(const std::vector<std::string>& names) const;

 private:
  PartitionSpec all_;
  std::map<std::string, PartitionSpec> by_name_;
  bool is_map_ = false;
};

struct LoaderOptions {
  std::int64_t batch_size = 8;  // rows of the complete batch, over all ranks
  std::uint64_t seed = 42;
  bool shuffle = false;                        // map-style sources; a new order in every epoch
  bool drop_last = false;                      // drop the last batch of an epoch if it is short
  bool group_by_length = false;                // batches of samples of similar length; see OrderOptions
  int num_workers = 0;                         // threads that make batches; 0: next() makes them
  int prefetch_factor = 2;                     // batches that each worker makes in advance
  std::shared_ptr<const Collator> collator{};  // null: StackCollator
  std::optional<Mesh> mesh{};                  // nullopt: the default mesh
  InputSharding input_sharding{};
};

/// The state of a loader. For a map-style source, `samples` is sufficient, also if the batch size changes.
struct LoaderState {
  std::int64_t samples = 0;           // taken so far, over all epochs
  std::int64_t epoch = 0;             // only for iterables: the current epoch
  std::int64_t samples_of_epoch = 0;  // only for iterables: the samples taken in this epoch
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

/// This rank's part of a batch.
struct Batch {
  struct Field {
    std::string name;
    Type type;  // of the complete array
    PartitionSpec spec;
    Literal shard;  // of shard_type(type, spec)
  };
  std::vector<Field> fields;
  Mesh mesh;
  std::int64_t rows = 0;              // of the complete batch; equal for all batches
  std::int64_t real_rows = 0;         // the first rows; the others only fill the batch
  std::vector<std::int64_t> samples;  // the numbers of the samples of the real rows (iterables: in the epoch)
  LoaderState state;                  // after this batch
  bool ends_epoch = false;

  /// Error, with the nearest name, if there is no such array.
  [[nodiscard]] const Field& field(std::string_view name) const;
  /// Returns the complete array as a tensor with its sharding. No rank holds more than its shard. Every rank must call
  /// this function.
  [[nodiscard]] Tensor tensor(std::string_view name) const;
};

/// Makes the batches of a source.
class Loader {
 public:
  /// Collective: the ranks compare their sources. Error, on every rank and with the ranks, if a source exists only on
  /// some ranks, or if the sizes differ.
  Loader(std::shared_ptr<const Source> source, LoaderOptions options);
  /// Every rank reads all samples of an iterable. The ranks compare the samples of each batch. The error, on every
  /// rank, names the ranks whose samples differ or have ended.
  Loader(Iterable source, LoaderOptions options);
  /// Ends the workers. They finish the samples that they are reading.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Returns the next batch; nullopt at the end of an epoch. The call after that begins the next epoch. Throws the
  /// error of the worker that made the batch, with the number of the sample. Collective for iterables. The metric
  /// LoaderWaitTime records the time in which the call waited for the batch, or made it.
  std::optional<Batch> next();
  /// The same, but at the end of an epoch returns the first batch of the next one.
  Batch next_batch();
  /// The batches of an epoch. Error for an iterable, whose length is not known.
  [[nodiscard]] std::int64_t len() const;
  /// The samples of an epoch that batches contain. Error for an iterable.
  [[nodiscard]] std::int64_t samples_per_epoch() const;
  /// The completed epochs, with the current one as the fraction of its batches. Error for an iterable.
  [[nodiscard]] double epochs() const;

  /// The state after the last batch that next() returned. Batches that workers made in advance do not change it.
  [[nodiscard]] const LoaderState& state() const { return state_; }
  /// Sets the state: the next batch begins where the state was taken. A map-style source reads no samples for this.
  void load_state(const LoaderState& state);
  /// The same for a map-style source.
  void seek(std::int64_t samples) { load_state({.samples = samples}); }
  /// Replaces the sharding of the arrays, beginning with the next batch.
  void set_input_sharding(InputSharding sharding);

  /// Iterates over the batches up to the end of the epoch.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;
    explicit Iterator(Loader& loader) : loader_(&loader), batch_(loader.next()) {}
    reference operator*() const { return *batch_; }
    pointer operator->() const { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t /*end*/) { return !a.batch_.has_value(); }

   private:
    Loader* loader_;
    std::optional<Batch> batch_;
  };
  Iterator begin() { return Iterator(*this); }
  static std::default_sentinel_t end() { return {}; }

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
  LoaderState state_;
  bool is_at_end_ = false;  // next() returns nullopt
};

}  // namespace tessera::data
