// SPDX-License-Identifier: Apache-2.0
#include "loader_engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/base/timeline.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/sharding/placement.h"

namespace tessera::data {
namespace {

// Runs f. Its exception gets the number of the sample.
template <class F>
auto reading(std::int64_t sample, F&& f) {
  const std::string note = fmt::format("  in sample {} of the loader's source", sample);
  try {
    return f();
  } catch (Error& error) {
    error.note(note);
    throw;
  } catch (const std::exception& error) {
    throw Error(error.what()).note(note);
  }
}

std::shared_ptr<const std::vector<std::int64_t>> lengths_of(const Source& source) {
  auto out = std::make_shared<std::vector<std::int64_t>>();
  for (std::int64_t i = 0; i < source.size(); ++i) out->push_back(reading(i, [&] { return source.length(i); }));
  return out;
}

// The interval of dim `dim` of the arrays of a batch under a spec.
Interval interval_of(const Mesh& mesh, const PartitionSpec& spec, int dim, std::int64_t size, std::int64_t device) {
  const auto entries = std::span(spec.entries());
  if (static_cast<int>(entries.size()) <= dim) return {0, size};
  const PartitionSpec one(std::vector{entries[static_cast<std::size_t>(dim)]});
  return placement_of(Type::array(DType::kU8, {size}), Sharding::from_spec(mesh, one, 1)).interval(device, 0);
}

}  // namespace

Loader::Engine::Engine(std::shared_ptr<const Source> source, Iterable iterable, LoaderOptions options)
    : source_(std::move(source)),
      iterable_(std::move(iterable)),
      options_(std::move(options)),
      mesh_(options_.mesh ? *options_.mesh : default_mesh()),
      device_(RankContext::current().rank()),
      compares_samples_(joined_world()->size() > 1) {
  require(mesh_.device_count() == device_count(), "{} has {} devices; this job has {}", mesh_, mesh_.device_count(),
          device_count());
  require(options_.num_workers >= 0, "num_workers must not be negative, got {}", options_.num_workers);
  require(options_.prefetch_factor >= 1, "prefetch_factor must be at least 1, got {}", options_.prefetch_factor);
  if (!options_.collator) options_.collator = std::make_shared<StackCollator>();
  part_ = own_part();
  if (is_iterable()) {
    require(options_.batch_size >= 1, "batch_size must be at least 1, got {}", options_.batch_size);
    require(!options_.shuffle && !options_.group_by_length,
            "shuffle and group_by_length need a map-style source; an iterable determines its own order");
    return;
  }
  order_.emplace(source_->size(),
                 OrderOptions{.global_batch_size = options_.batch_size,
                              .seed = options_.seed,
                              .shuffle = options_.shuffle,
                              .drop_last = options_.drop_last,
                              .group_by_length = options_.group_by_length ? lengths_of(*source_) : nullptr});
}

const SampleOrder& Loader::Engine::order() const {
  require(order_.has_value(), "the length of an iterable is not known");
  return *order_;
}

OwnPart Loader::Engine::own_part() const {
  const auto specs = options_.input_sharding.specs();
  OwnPart out{.rows = {0, options_.batch_size}, .columns = std::nullopt};
  if (specs.empty()) return out;
  out.rows = {options_.batch_size, 0};
  const auto length = source_ && options_.collator->keeps_columns() ? source_->fixed_length() : std::nullopt;
  for (const PartitionSpec& spec : specs) {
    const Interval rows = interval_of(mesh_, spec, 0, options_.batch_size, device_);
    if (rows.size() > 0) out.rows = {std::min(out.rows.start, rows.start), std::max(out.rows.limit, rows.limit)};
    if (!length) continue;
    const Interval columns = interval_of(mesh_, spec, 1, *length, device_);
    const Interval before = out.columns.value_or(columns);
    out.columns = Interval{std::min(before.start, columns.start), std::max(before.limit, columns.limit)};
  }
  if (out.rows.start > out.rows.limit) out.rows = {0, 0};  // more devices than rows
  return out;
}

void Loader::Engine::load_state(const LoaderState& state) {
  prefetch_.reset();  // drops what is made already
  require(state.samples >= 0 && state.epoch >= 0 && state.samples_of_epoch >= 0,
          "a loader's state must not be negative, got {} samples, epoch {}, {} samples of the epoch", state.samples,
          state.epoch, state.samples_of_epoch);
  if (order_) order_->seek(state.samples);
  at_ = state;
  generator_ = nullptr;
  ahead_.reset();
  failure_ = nullptr;
}

void Loader::Engine::set_input_sharding(InputSharding sharding, const LoaderState& state) {
  load_state(state);  // ends the threads that use the sharding
  options_.input_sharding = std::move(sharding);
  part_ = own_part();
}

LoadedBatch Loader::Engine::take() {
  if (!prefetch_) {
    const auto capacity = std::int64_t{options_.num_workers} * options_.prefetch_factor;
    prefetch_ = std::make_unique<Prefetch<BatchRequest, LoadedBatch>>(
        [this] { return request(); }, [this](BatchRequest request) { return make(std::move(request)); },
        options_.num_workers, capacity);
  }
  return prefetch_->take();
}

BatchRequest Loader::Engine::request() {
  if (is_iterable()) return request_of_iterable();
  BatchRequest out;
  out.epoch = order_->position() / order_->samples_per_epoch();
  out.samples = order_->next();
  out.after.samples = order_->position();
  out.ends_epoch = order_->position() % order_->samples_per_epoch() == 0;
  return out;
}

void Loader::Engine::look_ahead(std::int64_t number) {
  ahead_.reset();
  try {
    ahead_ = reading(number, [&] { return generator_(); });
  } catch (...) {  // the batch before this sample is complete, so the next request throws
    failure_ = std::current_exception();
  }
}

BatchRequest Loader::Engine::request_of_iterable() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  BatchRequest out;
  out.epoch = at_.epoch;
  if (!generator_) {
    generator_ = iterable_(at_.epoch, at_.samples_of_epoch);
    look_ahead(at_.samples_of_epoch);
    out.is_empty_epoch = !ahead_ && !failure_ && at_.samples_of_epoch == 0;
  }
  while (ahead_ && static_cast<std::int64_t>(out.given.size()) < options_.batch_size) {
    const std::int64_t number = at_.samples_of_epoch++;
    ++at_.samples;
    out.samples.push_back(number);
    out.given.push_back(std::move(*ahead_));
    look_ahead(number + 1);
  }
  const bool is_short = static_cast<std::int64_t>(out.given.size()) < options_.batch_size;
  if (is_short && failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (is_short && options_.drop_last) {
    out.given.clear();
    out.samples.clear();
  }
  out.ends_epoch = !ahead_ && !failure_;
  if (out.ends_epoch) {
    at_ = {.samples = at_.samples, .epoch = at_.epoch + 1, .samples_of_epoch = 0};
    generator_ = nullptr;
  }
  out.after = at_;
  return out;
}

Arrays Loader::Engine::sample(const BatchRequest& request, std::int64_t row) const {
  if (is_iterable()) return at(request.given, row);
  const std::int64_t number = at(request.samples, row);
  return reading(number,
                 [&] { return part_.columns ? source_->get_part(number, *part_.columns) : source_->get(number); });
}

std::int64_t Loader::Engine::longest(const BatchRequest& request) const {
  std::int64_t out = 0;
  for (std::size_t row = 0; row < request.samples.size(); ++row) {
    const std::int64_t number = request.samples[row];
    out = std::max(out, reading(number, [&] {
                     if (!is_iterable()) return source_->length(number);
                     const auto& entries = request.given[row].entries();
                     require(!entries.empty() && entries.front().second.type().ndim() >= 1,
                             "the first array of a sample has no dims, so the sample has no length");
                     return entries.front().second.type().dim(0);
                   }));
  }
  return out;
}

Arrays Loader::Engine::collate(const BatchRequest& request) const {
  const auto real = static_cast<std::int64_t>(request.samples.size());
  RowsToMake rows;
  rows.rows = part_.rows.size();
  rows.seed = options_.seed;
  rows.epoch = request.epoch;
  std::vector<Arrays> samples;
  for (std::int64_t row = part_.rows.start; row < std::min(part_.rows.limit, real); ++row) {
    rows.samples.push_back(at(request.samples, row));
    samples.push_back(sample(request, row));
  }
  rows.real_rows = static_cast<std::int64_t>(samples.size());
  if (samples.empty()) samples.push_back(sample(request, 0));
  if (options_.collator->needs_longest()) rows.longest = longest(request);
  return options_.collator->collate(samples, rows);
}

Batch::Field Loader::Engine::field(const std::string& name, const Literal& rows) const {
  Dims dims = rows.type().dims();
  require(!dims.empty() && dims.front() == part_.rows.size(), "the collator made {} of type {}, not {} rows", name,
          rows.type(), part_.rows.size());
  Dims origin(dims.size());
  dims.front() = options_.batch_size;
  origin.front() = part_.rows.start;
  if (part_.columns) {
    dims.at(1) = source_->fixed_length().value();
    origin.at(1) = part_.columns->start;
  }
  const Type type = Type::array(rows.type().dtype(), dims);
  const PartitionSpec spec = options_.input_sharding.spec_of(name, type.ndim());
  const Sharding sharding = Sharding::from_spec(mesh_, spec, type.ndim());
  check_sharding(type, sharding);
  const Placement placement = placement_of(type, sharding);
  Dims start;
  for (int d = 0; d < type.ndim(); ++d) start.push_back(placement.interval(device_, d).start);
  return {name, type, spec, take_box({rows, origin}, start, shard_type(type, sharding).dims())};
}

LoadedBatch Loader::Engine::make(BatchRequest request) const {
  const TimelineSpan span("loader", "make a batch");
  LoadedBatch out;
  out.batch.mesh = mesh_;
  out.batch.rows = options_.batch_size;
  out.batch.real_rows = static_cast<std::int64_t>(request.samples.size());
  out.batch.state = request.after;
  out.batch.ends_epoch = request.ends_epoch;
  out.is_empty_epoch = request.is_empty_epoch;
  if (compares_samples_)
    for (const Arrays& one : request.given) out.hash = hash_mix(out.hash, one.hash());
  if (request.samples.empty()) return out;
  const Arrays rows = collate(request);
  options_.input_sharding.check_names(rows.names());
  for (const auto& [name, value] : rows.entries()) out.batch.fields.push_back(field(name, value));
  out.batch.samples = std::move(request.samples);
  return out;
}

}  // namespace tessera::data
