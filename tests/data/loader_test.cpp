// SPDX-License-Identifier: Apache-2.0
// The loader gives the same batches for every number of workers and ranks, in order, and each rank reads only its part.
#include "tessera/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/sharding/placement.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using Numbers = std::vector<std::int64_t>;
constexpr std::int64_t kColumns = 6;

// Sample i is "x" = [10 i, 10 i + 1, …] and "labels" = [i].
Arrays sample_of(std::int64_t i) {
  std::vector<std::int32_t> x(kColumns);
  std::iota(x.begin(), x.end(), static_cast<std::int32_t>(10 * i));
  return {{"x", Literal::from<std::int32_t>({kColumns}, x)},
          {"labels", Literal::from<std::int32_t>({1}, {static_cast<std::int32_t>(i)})}};
}

// Records the samples that are read, and takes longer for some than for others.
class Counting : public Source {
 public:
  explicit Counting(std::int64_t size) : size_(size) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Arrays get(std::int64_t i) const override {
    {
      const std::scoped_lock lock(mutex_);
      read_.push_back(i);
    }
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    require(i != failing, "the disk is gone");
    return sample_of(i);
  }
  [[nodiscard]] Numbers read() const {
    const std::scoped_lock lock(mutex_);
    return read_;
  }
  std::int64_t failing = -1;

 private:
  std::int64_t size_;
  mutable std::mutex mutex_;
  mutable Numbers read_;
};

// The samples of the next `count` batches.
std::vector<Numbers> take(Loader& loader, int count) {
  std::vector<Numbers> out;
  while (static_cast<int>(out.size()) < count)
    if (const auto batch = loader.next()) out.push_back(batch->samples);
  return out;
}

TEST(Loader, GivesTheBatchesOfTheOrderForEveryNumberOfWorkers) {
  SampleOrder order(23, {.global_batch_size = 4, .seed = 7});
  std::vector<Numbers> wanted;
  for (int i = 0; i < 14; ++i) wanted.push_back(order.next());  // more than two epochs
  for (const int workers : {0, 1, 4}) {
    Loader loader(std::make_shared<Counting>(23),
                  {.batch_size = 4, .seed = 7, .shuffle = true, .num_workers = workers, .prefetch_factor = 3});
    EXPECT_EQ(loader.len(), 6);
    EXPECT_EQ(take(loader, 14), wanted) << workers;
    EXPECT_EQ(loader.state().samples, order.position());
    EXPECT_DOUBLE_EQ(loader.epochs(), order.epochs());
  }
}

TEST(Loader, IteratesOverOneEpochAndFillsTheLastBatch) {
  Loader loader(std::make_shared<Counting>(5), {.batch_size = 2, .num_workers = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<Batch> batches;
    for (const Batch& batch : loader) batches.push_back(batch);
    ASSERT_EQ(batches.size(), 3U);
    const Batch& last = batches.back();
    EXPECT_EQ(last.real_rows, 1);
    EXPECT_EQ(last.field("labels").shard, Literal::from<std::int32_t>({2, 1}, {4, kIgnoredLabel}));
    EXPECT_EQ(last.field("x").shard,
              Literal::from<std::int32_t>({2, kColumns}, {40, 41, 42, 43, 44, 45, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(error_of([&] { (void)last.field("label"); }),
              "the batch has no array \"label\"; did you mean \"labels\"?");
  }
}

TEST(Loader, ContinuesAtAnyState) {
  const auto make = [](int workers) {
    return std::make_unique<Loader>(
        std::make_shared<Counting>(23),
        LoaderOptions{.batch_size = 4, .shuffle = true, .drop_last = true, .num_workers = workers});
  };
  const auto all = take(*make(0), 13);
  for (const int taken : {0, 1, 4, 5, 6, 12}) {
    const auto first = make(3);
    take(*first, taken);
    const auto second = make(2);
    take(*second, 2);  // what it has prepared is dropped
    second->load_state(first->state());
    EXPECT_EQ(take(*second, 13 - taken), (std::vector<Numbers>{all.begin() + taken, all.end()})) << taken;
  }
}

TEST(Loader, AnErrorOfAWorkerComesInOrderWithItsSample) {
  for (const int workers : {0, 3}) {
    const auto source = std::make_shared<Counting>(12);
    source->failing = 5;
    Loader loader(source, {.batch_size = 2, .num_workers = workers});
    EXPECT_EQ(take(loader, 2), (std::vector<Numbers>{{0, 1}, {2, 3}}));
    EXPECT_EQ(error_of([&] { (void)loader.next(); }), "the disk is gone\n  in sample 5 of the loader's source");
    EXPECT_EQ(take(loader, 1), (std::vector<Numbers>{{6, 7}}));
  }
}

TEST(Loader, PreparesABoundedNumberOfBatches) {
  const auto source = std::make_shared<Counting>(1000);
  Loader loader(source, {.batch_size = 2, .num_workers = 3, .prefetch_factor = 2});
  take(loader, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(source->read().size(), 2U * (1 + 3 * 2));
}

TEST(Loader, MeasuresTheTimeThatTheConsumerWaits) {
  const FreshRank fresh;
  class Slow final : public Counting {
   public:
    using Counting::Counting;
    [[nodiscard]] Arrays get(std::int64_t i) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return sample_of(i);
    }
  };
  Loader loader(std::make_shared<Slow>(6), {.batch_size = 1, .num_workers = 1, .prefetch_factor = 8});
  (void)loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // the other batches are ready then
  take(loader, 5);
  const auto waited = metrics().metric_data("LoaderWaitTime").value();
  EXPECT_EQ(waited.total_samples, 6);
  EXPECT_GE(waited.samples.front().value, 15e6);
  EXPECT_LT(waited.accumulator - waited.samples.front().value, 15e6);
}

TEST(Loader, EndsAtAnyTime) {
  for (int taken = 0; taken < 30; ++taken) {
    Loader loader(std::make_shared<Counting>(7), {.batch_size = 2, .num_workers = 4, .prefetch_factor = 1 + taken % 3});
    take(loader, taken);
    if (taken % 2 == 0) loader.seek(taken);
  }
}

TEST(Loader, WrongOptionsAreErrors) {
  const auto error = [](LoaderOptions options) {
    return error_of([&] { Loader(std::make_shared<Counting>(5), std::move(options)).next(); });
  };
  EXPECT_EQ(error({.num_workers = -1}), "num_workers must not be negative, got -1");
  EXPECT_EQ(error({.prefetch_factor = 0}), "prefetch_factor must be at least 1, got 0");
  EXPECT_EQ(error({.batch_size = 0}), "the global batch size must be at least 1, got 0");
  EXPECT_EQ(error({.batch_size = 6, .drop_last = true}),
            "5 samples do not fill a batch of 6, and drop_last drops batches with too few samples");
  const Mesh mesh({{"data", 1}});
  EXPECT_EQ(error({.mesh = mesh, .input_sharding = PartitionSpec{{}, {}, "data"}}),
            "input_sharding {-,-,data}: the array \"x\" has only 2 dims");
  EXPECT_EQ(error({.mesh = mesh, .input_sharding = std::map<std::string, PartitionSpec>{{"x", {"data"}}}}),
            "input_sharding has no spec for \"labels\"; known: x");
  using Map = std::map<std::string, PartitionSpec>;
  EXPECT_EQ(error({.mesh = mesh, .input_sharding = Map{{"x", {}}, {"labels", {}}, {"ids", {}}}}),
            "input_sharding has a spec for \"ids\", but the batch has no such array; known: x, labels");
  EXPECT_EQ(error_of([] { Loader(std::shared_ptr<const Source>(), {}); }), "a Loader needs a source");
}

// ---- several ranks ------------------------------------------------------------------------------------------------------

struct Layout {
  const char* name;
  std::vector<MeshAxis> axes;
  InputSharding sharding;
  Numbers rows_read;  // by rank 0 in the first batch of 5 rows
};

TEST(Loader, EveryRankMakesItsShardOfTheSameBatches) {
  using Map = std::map<std::string, PartitionSpec>;
  const std::vector<Layout> layouts = {
      {"replicated", {{"data", 2}}, {}, {0, 1, 2, 3, 4}},
      {"rows", {{"data", 2}}, PartitionSpec{"data"}, {0, 1, 2}},
      {"uneven rows", {{"data", 3}}, PartitionSpec{"data"}, {0, 1}},
      {"more devices than rows", {{"data", 7}}, PartitionSpec{"data"}, {0}},
      {"rows over the second axis", {{"model", 2}, {"data", 3}}, PartitionSpec{"data"}, {0, 1}},
      {"rows and columns", {{"data", 2}, {"seq", 2}}, Map{{"x", {"data", "seq"}}, {"labels", {"data"}}}, {0, 1, 2}},
      {"one by one", {{"data", 2}}, Map{{"x", {"data"}}, {"labels", {}}}, {0, 1, 2, 3, 4}}};
  Loader reference(std::make_shared<Counting>(13), {.batch_size = 5});
  std::vector<Batch> wanted;
  for (const Batch& batch : reference) wanted.push_back(batch);
  for (const Layout& layout : layouts) {
    const Mesh mesh(layout.axes);
    on_ranks(static_cast<int>(mesh.device_count()), [&](int rank) {
      const auto source = std::make_shared<Counting>(13);
      Loader loader(source, {.batch_size = 5, .mesh = mesh, .input_sharding = layout.sharding});
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto batch = loader.next();
        ASSERT_TRUE(batch);
        if (i == 0 && rank == 0) {
          EXPECT_EQ(source->read(), layout.rows_read) << layout.name;
        }
        EXPECT_EQ(batch->samples, wanted[i].samples);
        for (const char* name : {"x", "labels"})
          EXPECT_EQ(batch->tensor(name).to_host(), wanted[i].field(name).shard) << layout.name << " " << name;
      }
      EXPECT_FALSE(loader.next());
    });
  }
}

// Records the columns that are read.
class Columns final : public Counting {
 public:
  using Counting::Counting;
  [[nodiscard]] Arrays get(std::int64_t i) const override { return {{"x", sample_of(i).at("x")}}; }
  [[nodiscard]] std::optional<std::int64_t> fixed_length() const override { return kColumns; }
  [[nodiscard]] Arrays get_part(std::int64_t i, Interval part) const override {
    columns = part;
    return Source::get_part(i, part);
  }
  mutable Interval columns;
};

TEST(Loader, ARankReadsOnlyItsColumns) {
  const Mesh mesh({{"data", 2}, {"seq", 4}});  // columns 0-1, 2-3, 4-5, none
  const LoaderOptions options{.batch_size = 3, .mesh = mesh, .input_sharding = PartitionSpec{"data", "seq"}};
  on_ranks(8, [&](int rank) {
    const auto source = std::make_shared<Columns>(3);
    Loader loader(source, options);
    const auto batch = loader.next();
    const std::int64_t start = std::min<std::int64_t>(2 * (rank % 4), kColumns);
    EXPECT_EQ(source->columns, (Interval{start, std::min<std::int64_t>(start + 2, kColumns)})) << rank;
    const Literal x = batch->tensor("x").to_host();
    EXPECT_EQ(x.type().dims(), (Dims{3, kColumns}));
    for (std::int64_t i = 0; i < 3 * kColumns; ++i) EXPECT_EQ(element_as_int(x, i), 10 * (i / kColumns) + i % kColumns);
  });
}

TEST(Loader, ContinuesMidEpochOnAnotherNumberOfRanks) {
  const auto options = [](const Mesh& mesh) {
    return LoaderOptions{
        .batch_size = 4, .shuffle = true, .num_workers = 2, .mesh = mesh, .input_sharding = PartitionSpec{"data"}};
  };
  LoaderState state;
  std::vector<Numbers> seen;
  for (const std::int64_t ranks : {3, 2, 5, 1}) {
    const Mesh mesh({{"data", ranks}});
    LoaderState after;
    std::vector<Numbers> of_rank_0;
    on_ranks(static_cast<int>(ranks), [&](int rank) {
      Loader loader(std::make_shared<Counting>(23), options(mesh));
      loader.load_state(state);
      const auto batches = take(loader, 3);
      if (rank != 0) return;
      of_rank_0 = batches;
      after = loader.state();
    });
    seen.insert(seen.end(), of_rank_0.begin(), of_rank_0.end());
    state = after;
  }
  Loader uninterrupted(std::make_shared<Counting>(23), {.batch_size = 4, .shuffle = true});
  EXPECT_EQ(seen, take(uninterrupted, 12));
}

// ---- iterables ----------------------------------------------------------------------------------------------------------

Generator counting(std::int64_t first, std::int64_t limit) {
  return [i = first, limit]() mutable { return i < limit ? std::optional(sample_of(i++)) : std::nullopt; };
}
const Iterable kElevenSamples = [](std::int64_t, std::int64_t first) { return counting(first, 11); };

TEST(Loader, AnIterableGivesItsSamplesInOrderInEveryEpoch) {
  for (const int workers : {0, 3}) {
    Loader loader(kElevenSamples, {.batch_size = 4, .num_workers = workers});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<Numbers> samples;
      std::int32_t last = 0;
      for (const Batch& batch : loader) {
        samples.push_back(batch.samples);
        last = batch.field("labels").shard.data<std::int32_t>()[2];
      }
      EXPECT_EQ(samples, (std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10}}));
      EXPECT_EQ(last, 10);
      EXPECT_EQ(loader.state(), (LoaderState{.samples = 11 * (epoch + 1), .epoch = epoch + 1}));
    }
    EXPECT_EQ(error_of([&] { (void)loader.len(); }), "the length of an iterable is not known");
  }
  Loader dropping(kElevenSamples, {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(take(dropping, 3), (std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}}));
}

TEST(Loader, AnIterableContinuesAtItsState) {
  Loader first(kElevenSamples, {.batch_size = 3, .num_workers = 2});
  take(first, 6);  // two of the second epoch
  Loader second(from_the_start([](std::int64_t) { return counting(0, 11); }), {.batch_size = 3});
  second.load_state(first.state());
  EXPECT_EQ(take(second, 3), take(first, 3));
}

TEST(Loader, AnErrorOfAnIterableComesAfterTheBatchesBeforeIt) {
  for (const int workers : {0, 2})
    for (const std::int64_t failing : {0, 4, 5}) {
      const auto failing_at = [&](std::int64_t) -> Generator {
        return [i = std::int64_t{0}, failing]() mutable {
          require(i != failing, "the stream has ended early");
          return std::optional(sample_of(i++));
        };
      };
      Loader loader(from_the_start(failing_at), {.batch_size = 2, .num_workers = workers});
      for (std::int64_t first = 0; first + 2 <= failing; first += 2)
        EXPECT_EQ(take(loader, 1), (std::vector<Numbers>{{first, first + 1}}));
      EXPECT_EQ(error_of([&] { (void)loader.next(); }),
                fmt::format("the stream has ended early\n  in sample {} of the loader's source", failing));
    }
}

TEST(Loader, AGeneratorHasOneEpoch) {
  Loader loader(only_once(counting(0, 3)), {.batch_size = 2});
  EXPECT_EQ(take(loader, 2), (std::vector<Numbers>{{0, 1}, {2}}));
  EXPECT_FALSE(loader.next());
  EXPECT_EQ(error_of([&] { (void)loader.next(); }),
            "a generator gives its samples only once; make an iterable for more than one epoch");
  EXPECT_EQ(error_of([&] { Loader(kElevenSamples, {.shuffle = true}); }),
            "shuffle and group_by_length need a map-style source; an iterable determines its own order");
}

// Returns the errors of the ranks.
std::vector<std::string> errors_of_ranks(int count, const std::function<void(int)>& body) {
  std::vector<std::string> out(static_cast<std::size_t>(count));
  on_ranks(count, [&](int rank) { out[static_cast<std::size_t>(rank)] = error_of([&] { body(rank); }); });
  return out;
}

TEST(Loader, ASourceOfSomeRanksOnlyIsAnErrorThatNamesThem) {
  const std::vector<std::string> none(3,
                                      "every rank must give its Loader the same source: an iterable on rank 0; no "
                                      "source on ranks 1, 2");
  EXPECT_EQ(errors_of_ranks(3, [](int rank) { Loader(rank == 0 ? kElevenSamples : Iterable(), {}); }), none);
  const std::vector<std::string> sizes(
      2,
      "every rank must give its Loader the same source: a map-style source of 5 samples on rank 0; a map-style source "
      "of 6 samples on rank 1");
  EXPECT_EQ(errors_of_ranks(2, [](int rank) { Loader(std::make_shared<Counting>(5 + rank), {}); }), sizes);
  const auto empty = errors_of_ranks(3, [](int rank) {
    Loader loader(only_once(counting(0, rank == 0 ? 11 : 0)), {.batch_size = 2, .num_workers = 1});
    loader.next();
  });
  for (const std::string& error : empty)
    EXPECT_TRUE(error.starts_with("every rank must read the same samples from its iterable, but the next batch has: 2 "
                                  "samples (hash ") &&
                error.ends_with(" on rank 0; the end of the source on ranks 1, 2"))
        << error;
  const auto differ = errors_of_ranks(2, [](int rank) {
    Loader loader(only_once(counting(rank, 11)), {.batch_size = 2});
    loader.next();
  });
  for (const std::string& error : differ) EXPECT_NE(error.find(" on rank 1"), std::string::npos) << error;
}

}  // namespace
}  // namespace tessera::data
