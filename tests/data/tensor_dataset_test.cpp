// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/tensor_dataset.h"

#include <gtest/gtest.h>

#include <numeric>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/data/loader.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;

Literal counted(Dims dims) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(Type::array(DType::kS32, dims).element_count()));
  std::iota(values.begin(), values.end(), 0);
  return Literal::from<std::int32_t>(std::move(dims), values);
}

TEST(TensorDataset, SampleIIsElementIOfDim0OfEveryArray) {
  const TensorDataset samples({{"image", counted({3, 2, 2})}, {"label", counted({3})}, {"one", counted({3, 1})}});
  ASSERT_EQ(samples.size(), 3);
  const Arrays last = samples.get(2);
  EXPECT_EQ(last.names(), (std::vector<std::string>{"image", "label", "one"}));
  EXPECT_EQ(last.at("image"), Literal::from<std::int32_t>({2, 2}, {8, 9, 10, 11}));
  EXPECT_EQ(last.at("label"), Literal::scalar<std::int32_t>(2));
  EXPECT_EQ(last.at("one"), Literal::from<std::int32_t>({1}, {2}));
  const TensorDataset single({{"x", counted({1, 2})}});
  EXPECT_EQ(single.get(0).at("x"), Literal::from<std::int32_t>({2}, {0, 1}));
}

TEST(TensorDataset, KnowsTheLengthThatAllSamplesHave) {
  EXPECT_EQ(TensorDataset({{"ids", counted({3, 5})}, {"labels", counted({3, 5})}}).fixed_length(), 5);
  const TensorDataset scalars({{"ids", counted({3, 5})}, {"label", counted({3})}});
  EXPECT_EQ(scalars.fixed_length(), std::nullopt);  // labels have no dim to shard
  EXPECT_EQ(scalars.length(1), 5);
  EXPECT_EQ(TensorDataset({{"a", counted({3, 5})}, {"b", counted({3, 4})}}).fixed_length(), std::nullopt);
}

TEST(TensorDataset, ErrorsNameTheArrays) {
  const auto error = [](const Arrays& arrays) { return error_of([&] { const TensorDataset made(arrays); }); };
  EXPECT_EQ(error({}), "TensorDataset: there are no arrays; give at least one, such as input_ids");
  EXPECT_EQ(error({{"x", counted({3, 2})}, {"y", counted({4})}}),
            "TensorDataset: dim 0 of every array counts the samples, but x has 3 and y has 4");
  EXPECT_EQ(error({{"x", counted({})}}), "TensorDataset: x is s32[], but dim 0 of every array counts the samples");
  const TensorDataset samples({{"x", counted({3})}});
  EXPECT_EQ(error_of([&] { (void)samples.get(3); }), "TensorDataset: there is no sample 3; there are 3 samples");
  EXPECT_EQ(error_of([&] { (void)samples.length(0); }),
            "the length of sample 0 is not known: its first array has no dims");
}

// 7 samples in batches of 4 on a mesh of 2 x 2: the last batch has 3 samples, and 5 columns are uneven over 2.
TEST(TensorDataset, RanksReadTheirRowsAndColumnsOfUnevenBatches) {
  on_ranks(4, [](int rank) {
    const Mesh mesh = Mesh::parse("rows=2,columns=2", 4);
    Loader loader(std::make_shared<TensorDataset>(Arrays{{"x", counted({7, 5})}}),
                  {.batch_size = 4, .mesh = mesh, .input_sharding = PartitionSpec{"rows", "columns"}});
    std::int64_t rows = 0;
    for (const Batch& batch : loader) {
      rows += batch.real_rows;
      const auto shard = batch.field("x").shard.data<std::int32_t>();
      ASSERT_EQ(shard.size(), 2U * 3U);  // of 4 x 5, with padding
      const std::int64_t row = batch.samples.front() + 2 * (rank / 2);
      const std::int64_t column = 3 * (rank % 2);
      EXPECT_EQ(shard[0], 5 * row + column) << rank;
      EXPECT_EQ(shard[1], 5 * row + column + 1) << rank;
    }
    EXPECT_EQ(rows, 7);
  });
}

}  // namespace
}  // namespace tessera::data
