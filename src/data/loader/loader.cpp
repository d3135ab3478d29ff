// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "loader_engine.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/execution/values_by_rank.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::data {

PartitionSpec InputSharding::spec_of(const std::string& name, int ndim) const {
  std::vector<PartitionSpec::Entry> entries = all_.entries();
  if (is_map_) {
    const auto found = by_name_.find(name);
    std::vector<std::string> known;
    for (const auto& [key, spec] : by_name_) known.push_back(key);
    require(found != by_name_.end(), "input_sharding has no spec for \"{}\"{}", name,
            [&] { return suggest_name(name, known); });
    entries = found->second.entries();
  }
  require(isize(entries) <= ndim, "input_sharding {}: the array \"{}\" has only {} dims", PartitionSpec(entries), name,
          ndim);
  entries.resize(static_cast<std::size_t>(ndim));
  return PartitionSpec(std::move(entries));
}

std::vector<PartitionSpec> InputSharding::specs() const {
  if (!is_map_) return {all_};
  std::vector<PartitionSpec> out;
  for (const auto& [name, spec] : by_name_) out.push_back(spec);
  return out;
}

void InputSharding::check_names(const std::vector<std::string>& names) const {
  for (const auto& [name, spec] : by_name_)
    require(std::find(names.begin(), names.end(), name) != names.end(),
            "input_sharding has a spec for \"{}\", but the batch has no such array{}", name,
            [&] { return suggest_name(name, names); });
}

const Batch::Field& Batch::field(std::string_view name) const {
  std::vector<std::string> known;
  for (const Field& one : fields) {
    if (one.name == name) return one;
    known.push_back(one.name);
  }
  fail("the batch has no array \"{}\"{}", name, suggest_name(name, known));
}

Tensor Batch::tensor(std::string_view name) const {
  const Field& one = field(name);
  const bool is_complete = Sharding::from_spec(mesh, one.spec, one.type.ndim()).is_replicated();
  return is_complete ? Tensor::from_host(one.shard) : Tensor::from_local_shards(one.type, mesh, one.spec, one.shard);
}

namespace {

// Throws on every rank unless all ranks have the same text.
void require_same(const std::string& what, const std::string& mine) {
  const auto all = gather_texts(*joined_world(), mine);
  const bool is_same = std::all_of(all.begin(), all.end(), [&](const auto& text) { return text == all.front(); });
  require(is_same, "{}: {}", what, [&] { return values_by_rank(all); });
}

void check_source(const std::string& kind, const LoaderOptions& options) {
  require_same("every rank must give its Loader the same source", kind);
  require(kind != "no source", "a Loader needs a source");
  require_same("every rank must give its Loader the same options",
               fmt::format("batch_size={} seed={} shuffle={} drop_last={} group_by_length={}", options.batch_size,
                           options.seed, options.shuffle, options.drop_last, options.group_by_length));
}

}  // namespace

Loader::Loader(std::shared_ptr<const Source> source, LoaderOptions options) {
  check_source(source ? fmt::format("a map-style source of {} samples", source->size()) : "no source", options);
  engine_ = std::make_unique<Engine>(std::move(source), nullptr, std::move(options));
}

Loader::Loader(Iterable source, LoaderOptions options) {
  check_source(source ? "an iterable" : "no source", options);
  engine_ = std::make_unique<Engine>(nullptr, std::move(source), std::move(options));
}

Loader::~Loader() = default;

namespace {

// Takes the next batch of an iterable. Ranks whose sources have ended, failed or given other samples are named on all.
template <class Engine>
LoadedBatch take_compared(Engine& engine) {
  LoadedBatch out;
  std::string problem;
  try {
    out = engine.take();
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const std::string mine = !problem.empty() ? problem
                           : out.batch.real_rows == 0
                               ? "the end of the source"
                               : fmt::format("{} samples (hash {:016x})", out.batch.real_rows, out.hash);
  require_same("every rank must read the same samples from its iterable, but the next batch has", mine);
  if (!problem.empty()) throw Error(problem);
  return out;
}

}  // namespace

std::optional<Batch> Loader::next() {
  if (std::exchange(is_at_end_, false)) return std::nullopt;
  const bool compares = engine_->is_iterable() && joined_world()->size() > 1;
  LoadedBatch loaded;
  {
    const TimedScope wait("LoaderWaitTime", "wait");
    loaded = compares ? take_compared(*engine_) : engine_->take();
  }
  require(!loaded.is_empty_epoch, "the loader's source has no samples in epoch {}", state_.epoch);
  state_ = loaded.batch.state;
  if (loaded.batch.real_rows == 0) return std::nullopt;
  is_at_end_ = loaded.batch.ends_epoch;
  return std::move(loaded.batch);
}

Batch Loader::next_batch() {
  while (true)
    if (auto batch = next()) return std::move(*batch);
}

void Loader::set_input_sharding(InputSharding sharding) { engine_->set_input_sharding(std::move(sharding), state_); }

std::int64_t Loader::len() const { return engine_->order().batches_per_epoch(); }
std::int64_t Loader::samples_per_epoch() const { return engine_->order().samples_per_epoch(); }
double Loader::epochs() const { return engine_->order().epochs_at(state_.samples); }

void Loader::load_state(const LoaderState& state) {
  engine_->load_state(state);
  state_ = state;
  is_at_end_ = false;
}

}  // namespace tessera::data
