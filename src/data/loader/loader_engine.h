// SPDX-License-Identifier: Apache-2.0
// What the threads of a loader do: request the samples of the next batch, and make this rank's part of it.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "prefetch.h"
#include "tessera/data/loader.h"

namespace tessera::data {

/// The samples of a batch.
struct BatchRequest {
  std::vector<std::int64_t> samples;  // their numbers
  std::vector<Arrays> given;          // the samples, of an iterable
  std::int64_t epoch = 0;
  LoaderState after;
  bool ends_epoch = false;
  bool is_empty_epoch = false;  // the iterable has no sample at all
};

struct LoadedBatch {
  Batch batch;
  std::size_t hash = 0;  // of the samples of an iterable, if ranks compare them
  bool is_empty_epoch = false;
};

/// The part of each batch that this rank makes: rows, and columns if a mesh axis shards dim 1 of all arrays.
struct OwnPart {
  Interval rows;
  std::optional<Interval> columns;  // nullopt: all
};

class Loader::Engine {
 public:
  Engine(std::shared_ptr<const Source> source, Iterable iterable, LoaderOptions options);

  [[nodiscard]] bool is_iterable() const { return iterable_ != nullptr; }
  [[nodiscard]] const SampleOrder& order() const;
  LoadedBatch take();
  void load_state(const LoaderState& state);
  /// Also continues at `state`.
  void set_input_sharding(InputSharding sharding, const LoaderState& state);

 private:
  BatchRequest request();
  BatchRequest request_of_iterable();
  void look_ahead(std::int64_t number);
  [[nodiscard]] OwnPart own_part() const;
  [[nodiscard]] LoadedBatch make(BatchRequest request) const;
  [[nodiscard]] Arrays collate(const BatchRequest& request) const;
  [[nodiscard]] Arrays sample(const BatchRequest& request, std::int64_t row) const;
  [[nodiscard]] std::int64_t longest(const BatchRequest& request) const;
  [[nodiscard]] Batch::Field field(const std::string& name, const Literal& rows) const;

  std::shared_ptr<const Source> source_;
  Iterable iterable_;
  LoaderOptions options_;
  Mesh mesh_;
  std::int64_t device_ = 0;
  OwnPart part_;
  bool compares_samples_ = false;

  // Used by request(), by one thread at a time.
  std::optional<SampleOrder> order_;
  LoaderState at_;
  Generator generator_;          // null: the epoch has not begun
  std::optional<Arrays> ahead_;  // the next sample of the generator
  std::exception_ptr failure_;   // of the generator, instead of the next sample

  std::unique_ptr<Prefetch<BatchRequest, LoadedBatch>> prefetch_;  // last, because its threads use the others
};

}  // namespace tessera::data
