// SPDX-License-Identifier: Apache-2.0
// Regions of shards: every element is written once, and runs copy exactly the elements of a region.
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/base/text.h"
#include "tessera/checkpoint/regions.h"

namespace tessera {
namespace {

std::vector<Sharding> shardings() {
  const Mesh one({{"a", 6}});
  const Mesh two({{"a", 2}, {"b", 3}});
  std::vector<Sharding> out;
  for (const char* spec : {"-,-,-", "a,-,-", "-,a,-"})
    out.push_back(Sharding::from_spec(one, PartitionSpec::parse(spec), 3));
  for (const char* spec : {"a,b,-", "b,-,-", "-,-,a", "a+b,-,-", "b,-,a"})
    out.push_back(Sharding::from_spec(two, PartitionSpec::parse(spec), 3));
  return out;
}

TEST(Regions, EveryElementIsWrittenOnce) {
  for (const Dims& dims : {Dims{7, 5, 3}, Dims{1, 1, 2}, Dims{12, 6, 4}, Dims{0, 5, 3}}) {
    const Type type = Type::array(DType::kF32, dims);
    for (const Sharding& sharding : shardings()) {
      std::vector<int> written(static_cast<std::size_t>(type.element_count()), 0);
      for (std::int64_t device = 0; device < 6; ++device)
        if (const auto region = written_region(type, sharding, device))
          for_each_run(*region, RegionBuffer::complete(type), RegionBuffer::complete(type),
                       [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                         EXPECT_EQ(from, to);
                         for (std::int64_t i = 0; i < count; ++i) ++at(written, to + i);
                       });
      EXPECT_EQ(std::count(written.begin(), written.end(), 1), type.element_count()) << sharding.str() << type.str();
    }
  }
}

TEST(Regions, TheRegionsOfAllDevicesAreThoseOfEach) {
  for (const Dims& dims : {Dims{7, 5, 3}, Dims{1, 1, 2}, Dims{12, 6, 4}, Dims{0, 5, 3}}) {
    const Type type = Type::array(DType::kF32, dims);
    for (const Sharding& sharding : shardings()) {
      const auto all = written_regions(type, sharding);
      ASSERT_EQ(all.size(), 6U);
      for (std::int64_t device = 0; device < 6; ++device)
        EXPECT_EQ(at(all, device), written_region(type, sharding, device)) << sharding.str() << type.str();
    }
  }
}

// Rank 0 needs the regions of all ranks for the manifest. The time of a quadratic search would exceed the test's limit.
TEST(Regions, ThousandsOfDevicesAreFast) {
  const Mesh mesh({{"data", 64}, {"fsdp", 64}});
  const Type type = Type::array(DType::kF32, {50257, 768});
  const Sharding sharding = Sharding::from_spec(mesh, PartitionSpec::parse("fsdp,-"), 2);
  for (int tensor = 0; tensor < 100; ++tensor) {
    std::int64_t elements = 0;
    for (const auto& region : written_regions(type, sharding))
      if (region) elements += region->element_count();
    ASSERT_EQ(elements, type.element_count());
  }
}

TEST(Regions, RunsCopyTheElementsOfTheShard) {
  const Type type = Type::array(DType::kS32, {7, 5, 3});
  Literal values(type);
  const auto data = values.mutable_data<std::int32_t>();
  std::iota(data.begin(), data.end(), 0);
  for (const Sharding& sharding : shardings()) {
    for (std::int64_t device = 0; device < 6; ++device) {
      const Region region = region_of(type, sharding, device);
      Literal shard(shard_type(type, sharding));
      const auto into = shard.mutable_data<std::int32_t>();
      for_each_run(region, RegionBuffer::complete(type), RegionBuffer::shard(type, sharding, region),
                   [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                     std::copy_n(data.begin() + from, count, into.begin() + to);
                   });
      EXPECT_EQ(shard, take_shard(values, sharding, device)) << sharding.str() << " on " << device;
    }
  }
}

TEST(Regions, RunsAreAsLongAsPossible) {
  const Type type = Type::array(DType::kF32, {8, 6, 5});
  const auto runs = [&](const char* spec) {
    const Sharding sharding = Sharding::from_spec(Mesh({{"a", 2}}), PartitionSpec::parse(spec), 3);
    const Region region = region_of(type, sharding, 1);
    int count = 0;
    for_each_run(region, RegionBuffer::complete(type), RegionBuffer::shard(type, sharding, region),
                 [&](std::int64_t, std::int64_t, std::int64_t) { ++count; });
    return count;
  };
  EXPECT_EQ(runs("-,-,-"), 1);
  EXPECT_EQ(runs("a,-,-"), 1);
  EXPECT_EQ(runs("-,a,-"), 8);
  EXPECT_EQ(runs("-,-,a"), 48);
}

}  // namespace
}  // namespace tessera
