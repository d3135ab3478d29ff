// SPDX-License-Identifier: Apache-2.0
// MpDeviceLoader marks steps, keeps the length, and gives sharded tensors.
#include "tessera/data/device_loader.h"

#include <gtest/gtest.h>

#include <numeric>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;

BlockDataset seven_blocks() {
  std::vector<std::int32_t> tokens(7 * 4);
  std::iota(tokens.begin(), tokens.end(), 0);
  return {tokens, 4};
}

TEST(MpDeviceLoader, MarksAStepAfterEveryKBatchesAndAtTheEnd) {
  const BlockDataset blocks = seven_blocks();
  for (const auto& [batches, steps] : {std::pair{1, 7}, {2, 4}, {3, 3}, {7, 1}, {9, 1}}) {
    const FreshRank fresh;
    Loader loader(std::make_shared<BlockSource>(blocks), {.batch_size = 1, .num_workers = 2});
    MpDeviceLoader device_loader(loader, {.batches_per_execution = batches});
    EXPECT_EQ(device_loader.len(), 7);
    Tensor total = Tensor::scalar(DType::kS32, 0);
    for (int epoch = 1; epoch <= 2; ++epoch) {
      for (const DeviceBatch& batch : device_loader) total = total + sum(batch.at("input_ids"));
      EXPECT_EQ(lazy_counters().mark_steps, epoch * steps) << batches;
      EXPECT_EQ(metrics().counter_value("sync::loader"), epoch * steps) << batches;
      EXPECT_TRUE(total.is_materialized());
      EXPECT_EQ(total.item(), epoch * 27 * 28 / 2);
    }
  }
}

TEST(MpDeviceLoader, GivesTensorsWithTheInputSharding) {
  const BlockDataset blocks = seven_blocks();
  const Mesh mesh({{"data", 2}, {"seq", 2}});
  on_ranks(4, [&](int) {
    Loader loader(std::make_shared<BlockSource>(blocks), {.batch_size = 3, .mesh = mesh});
    (void)loader.next();  // complete batches until now
    const std::map<std::string, PartitionSpec> specs = {{"input_ids", {"data", "seq"}}, {"labels", {"data"}}};
    MpDeviceLoader device_loader(loader, {.input_sharding = specs});
    std::int64_t first = 3;
    for (const DeviceBatch& batch : device_loader) {
      EXPECT_EQ(batch.at("input_ids").sharding(), Sharding::from_spec(mesh, {"data", "seq"}, 2));
      EXPECT_EQ(batch.at("labels").local_shard().type().dims(), (Dims{2, 4}));
      const Literal ids = batch.at("input_ids").to_host();
      EXPECT_EQ(ids.data<std::int32_t>()[5], 4 * first + 5 < 28 ? 4 * first + 5 : 0);
      first += 3;
    }
    EXPECT_EQ(first, 9);
  });
}

TEST(MpDeviceLoader, ErrorsSurfaceWhereTheBatchIsTaken) {
  const BlockDataset blocks = seven_blocks();
  Loader loader(std::make_shared<BlockSource>(blocks), {.batch_size = 2});
  EXPECT_EQ(error_of([&] { MpDeviceLoader(loader, {.batches_per_execution = 0}); }),
            "batches_per_execution must be at least 1, got 0");
  const std::map<std::string, PartitionSpec> missing = {{"input_ids", {}}};
  MpDeviceLoader device_loader(loader, {.input_sharding = missing});
  EXPECT_EQ(error_of([&] { device_loader.begin(); }), "input_sharding has no spec for \"labels\"; known: input_ids");
  loader.set_input_sharding({});
  EXPECT_EQ(error_of([&] { (void)device_loader.begin()->at("label"); }),
            "the batch has no array \"label\"; did you mean \"labels\"?");
}

}  // namespace
}  // namespace tessera::data
