// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "support/temporary_folder.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/data/text_dataset.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Samples = std::vector<std::int64_t>;

BlockDataset counting_blocks(std::int32_t tokens, std::int64_t block_size) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(tokens));
  std::iota(all.begin(), all.end(), 0);
  return {all, block_size};
}

TEST(BlockDataset, DropsTheRemainder) {
  const auto blocks = counting_blocks(17, 5);
  ASSERT_EQ(blocks.size(), 3);
  std::vector<std::int32_t> last(5);
  blocks.read(2, 0, last);
  EXPECT_EQ(last, (std::vector<std::int32_t>{10, 11, 12, 13, 14}));
  EXPECT_EQ(counting_blocks(4, 5).size(), 0);
  EXPECT_EQ(error_of([] { counting_blocks(4, 1); }), "block_size must be at least 2, got 1");
}

TEST(SplitText, HoldsOutTheTail) {
  const auto [train, validation] = split_text("0123456789abcdefghij", 10);
  EXPECT_EQ(train, "0123456789abcdefgh");
  EXPECT_EQ(validation, "ij");
  EXPECT_EQ(split_text("abc", 0).second, "");
  EXPECT_EQ(error_of([] { split_text("abc", 100); }), "validation_split_percentage must be in [0, 100), got 100");
}

TEST(SplitText, SplitsNoCharacter) {
  const std::string text = "aaaaaaaaa日";  // 12 bytes; the last three are one character
  EXPECT_EQ(split_text(text, 10).second, "");
  EXPECT_EQ(split_text(text, 25).second, "日");
}

TEST(Shuffled, IsAPermutationThatDependsOnSeedAndEpoch) {
  for (const std::int64_t count : {0, 1, 2, 97, 1000}) {
    auto order = shuffled(count, 42, 3);
    std::sort(order.begin(), order.end());
    Samples wanted(static_cast<std::size_t>(count));
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_EQ(order, wanted);
  }
  EXPECT_EQ(shuffled(97, 42, 0), shuffled(97, 42, 0));
  EXPECT_NE(shuffled(97, 42, 0), shuffled(97, 42, 1));
  EXPECT_NE(shuffled(97, 42, 0), shuffled(97, 43, 0));
}

// The order that a Python implementation gives.
TEST(Shuffled, IsTheSameOnEveryMachine) { EXPECT_EQ(shuffled(8, 42, 0), (Samples{6, 2, 4, 0, 5, 7, 3, 1})); }

TEST(Shuffled, FavoursNoPosition) {
  // The position of sample 0 over many seeds: each of 5 positions 400 times in 2000, within five standard deviations
  // (18).
  std::vector<int> places(5, 0);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto order = shuffled(5, seed, 0);
    ++places[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0) - order.begin())];
  }
  for (const int count : places) EXPECT_NEAR(count, 400, 90);
}

TEST(SampleOrder, VisitsEverySampleOncePerEpoch) {
  SampleOrder order(11, {.global_batch_size = 4});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::multiset<std::int64_t> seen;
    for (int step = 0; step < 3; ++step)
      for (const auto sample : order.next()) seen.insert(sample);
    EXPECT_EQ(seen.size(), 11U);
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 11U);
    EXPECT_EQ(order.position(), 11 * (epoch + 1));
  }
  EXPECT_DOUBLE_EQ(order.epochs(), 3.0);
}

TEST(SampleOrder, TheCurrentEpochIsTheFractionOfItsBatches) {
  SampleOrder order(7, {.global_batch_size = 2});
  std::vector<double> epochs;
  for (int i = 0; i < 6; ++i) {
    (void)order.next();
    epochs.push_back(order.epochs());
  }
  EXPECT_EQ(epochs, (std::vector{0.25, 0.5, 0.75, 1.0, 1.25, 1.5})) << "the fourth batch has one sample";
  EXPECT_EQ(order.epochs_at(3), 0.5) << "a batch of another size has ended here";
}

TEST(SampleOrder, MayDropTheShortBatch) {
  SampleOrder order(11, {.global_batch_size = 4, .drop_last = true});
  EXPECT_EQ(order.batches_per_epoch(), 2);
  for (int step = 0; step < 5; ++step) EXPECT_EQ(order.next().size(), 4U);
  EXPECT_EQ(error_of([] { SampleOrder(3, {.global_batch_size = 4, .drop_last = true}); }),
            "3 samples do not fill a batch of 4, and drop_last drops batches with too few samples");
  EXPECT_EQ(error_of([] { SampleOrder(0, {}); }), "the data contains no sample: it is shorter than one block");
}

TEST(SampleOrder, ResumesFromItsPosition) {
  SampleOrder straight(13, {.global_batch_size = 3});
  for (int step = 0; step < 7; ++step) (void)straight.next();
  SampleOrder resumed(13, {.global_batch_size = 3});
  resumed.seek(straight.position());
  for (int step = 0; step < 9; ++step) EXPECT_EQ(resumed.next(), straight.next());
}

TEST(SampleOrder, IsTheSameForEveryBatchSize) {
  SampleOrder small(12, {.global_batch_size = 2});
  SampleOrder large(12, {.global_batch_size = 6});
  Samples joined;
  for (int step = 0; step < 3; ++step)
    for (const auto sample : small.next()) joined.push_back(sample);
  EXPECT_EQ(joined, large.next());
}

TEST(ReadWikitext, ReadsTheRawFilesAndNamesMissingOnes) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { read_wikitext(folder.file("")); }),
            "no training text in " + folder.file("") + "; looked for wiki.train.raw, wiki.train.tokens, train.txt");
  (void)folder.write("wiki.train.raw", " = Title = \n text \n");
  (void)folder.write("wiki.test.raw", " test \n");
  const RawText text = read_wikitext(folder.file(""));
  EXPECT_EQ(text.train, " = Title = \n text \n");
  EXPECT_EQ(text.validation, "");
  EXPECT_EQ(text.test, " test \n");
}

TEST(FindDatasetFolder, LooksUnderTheCacheAndThenUnderTesseraData) {
  const TemporaryFolder cache;
  const TemporaryFolder shared;
  RankContext context(0, 1);
  const RankScope scope(context);
  EXPECT_EQ(error_of([] { find_dataset_folder("wikitext", "wikitext-2-raw-v1", ""); }),
            "no folder for dataset wikitext wikitext-2-raw-v1; looked for nothing, as neither --cache_dir nor "
            "TESSERA_DATA is "
            "set; unpack its raw text into one of these, or give --train_file");
  options().set("TESSERA_DATA", shared.file("data"));
  (void)shared.write("data/wikitext-2-raw/wiki.train.raw", "x");
  EXPECT_EQ(find_dataset_folder("wikitext", "wikitext-2-raw-v1", cache.file("none")),
            shared.file("data/wikitext-2-raw"));
  (void)cache.write("wikitext/wikitext-2-raw-v1/wiki.train.raw", "y");
  EXPECT_EQ(find_dataset_folder("wikitext", "wikitext-2-raw-v1", cache.file("")),
            cache.file("wikitext/wikitext-2-raw-v1"));
}

TEST(CheckReadable, NamesRankAndPathInAJobOfSeveral) {
  RankContext context(3, 8);
  const RankScope scope(context);
  const std::string text = error_of([] { check_readable("/nowhere/train.txt"); });
  EXPECT_TRUE(text.starts_with("rank 3 on host ")) << text;
  EXPECT_TRUE(text.ends_with(" cannot read /nowhere/train.txt: No such file or directory")) << text;
  EXPECT_EQ(error_of([] { check_readable("/"); }).substr(0, 15), "rank 3 on host ");
}

}  // namespace
}  // namespace tessera::data
