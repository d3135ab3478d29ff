// SPDX-License-Identifier: Apache-2.0
// Padding, masked tokens, packing and grouping by length.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/text.h"
#include "tessera/data/loader.h"
#include "tessera/data/packing.h"
#include "tessera/data/padding.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Row = std::vector<std::int32_t>;

// Sample i has lengths[i] tokens: 100 i, 100 i + 1, …
class Sentences final : public Source {
 public:
  explicit Sentences(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}
  [[nodiscard]] std::int64_t size() const override { return isize(lengths_); }
  [[nodiscard]] Arrays get(std::int64_t i) const override {
    Row ids(static_cast<std::size_t>(at(lengths_, i)));
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(100 * i));
    return {{"input_ids", Literal::from<std::int32_t>({at(lengths_, i)}, ids)}};
  }
  [[nodiscard]] std::int64_t length(std::int64_t i) const override { return at(lengths_, i); }

 private:
  std::vector<std::int64_t> lengths_;
};

Row row_of(const Literal& rows, std::int64_t row) {
  const auto length = static_cast<std::size_t>(rows.type().dim(1));
  const auto all = rows.data<std::int32_t>().subspan(static_cast<std::size_t>(row) * length, length);
  return {all.begin(), all.end()};
}

Batch first_batch(std::vector<std::int64_t> lengths, std::shared_ptr<const Collator> collator) {
  const auto rows = isize(lengths);
  Loader loader(std::make_shared<Sentences>(std::move(lengths)), {.batch_size = rows, .collator = std::move(collator)});
  return loader.next().value();
}

TEST(Padding, ToTheLongestSampleRoundedUp) {
  const PaddingOptions options{.pad_to_multiple_of = 4, .pad_token_id = 9};
  const Batch batch = first_batch({2, 5}, std::make_shared<PaddingCollator>(options));
  EXPECT_EQ(row_of(batch.field("input_ids").shard, 0), (Row{0, 1, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(row_of(batch.field("labels").shard, 0), (Row{0, 1, -100, -100, -100, -100, -100, -100}));
  EXPECT_EQ(row_of(batch.field("attention_mask").shard, 1), (Row{1, 1, 1, 1, 1, 0, 0, 0}));
}

TEST(Padding, ToMaxLengthWithTruncation) {
  PaddingOptions options{.padding = "max_length", .max_length = 3};
  EXPECT_EQ(error_of([&] {
              first_batch({2, 5}, std::make_shared<PaddingCollator>(options));
            }),
            "sample 1 has 5 tokens, more than max_length 3; allow truncation to shorten it");
  options.truncation = true;
  const Batch batch = first_batch({2, 5}, std::make_shared<PaddingCollator>(options));
  EXPECT_EQ(row_of(batch.field("input_ids").shard, 0), (Row{0, 1, 0}));
  EXPECT_EQ(row_of(batch.field("input_ids").shard, 1), (Row{100, 101, 102}));
  EXPECT_EQ(row_of(batch.field("attention_mask").shard, 1), (Row{1, 1, 1}));
}

TEST(Padding, WrongOptionsAreErrors) {
  const auto error = [](const PaddingOptions& options) { return error_of([&] { PaddingCollator collator(options); }); };
  EXPECT_EQ(error({.padding = "max"}), "padding must be \"longest\" or \"max_length\", got \"max\"");
  EXPECT_EQ(error({.padding = "max_length"}), "padding=\"max_length\" and truncation need max_length");
  EXPECT_EQ(error({.pad_to_multiple_of = 0}), "pad_to_multiple_of must be at least 1, got 0");
}

TEST(Padding, ToTheFirstBucketThatIsLongEnough) {
  PaddingOptions options{.length_buckets = {2, 4, 7}};
  const auto width = [&](std::vector<std::int64_t> lengths) {
    return first_batch(std::move(lengths), std::make_shared<PaddingCollator>(options)).field("input_ids").type.dim(1);
  };
  EXPECT_EQ(width({1, 1}), 2);
  EXPECT_EQ(width({1, 2}), 2);
  EXPECT_EQ(width({3, 1}), 4);
  EXPECT_EQ(width({2, 5}), 7);
  EXPECT_EQ(error_of([&] { width({8, 1}); }), "a sample has 8 tokens, more than the last of length_buckets, 7");
  options.max_length = 9;  // is the last bucket
  EXPECT_EQ(width({8, 1}), 9);
  options.truncation = true;
  EXPECT_EQ(width({12, 1}), 9);
}

TEST(Padding, WrongBucketsAreErrors) {
  const auto error = [](const PaddingOptions& options) { return error_of([&] { PaddingCollator collator(options); }); };
  for (const std::vector<std::int64_t>& buckets : std::vector<std::vector<std::int64_t>>{{0, 4}, {4, 4}, {8, 4}})
    EXPECT_EQ(error({.length_buckets = buckets}),
              "length_buckets must be at least 1 and increase, got " + fmt::format("{}", fmt::join(buckets, ",")));
  const std::string others = "length_buckets need padding=\"longest\" without pad_to_multiple_of";
  EXPECT_EQ(error({.padding = "max_length", .max_length = 8, .length_buckets = {4}}), others);
  EXPECT_EQ(error({.pad_to_multiple_of = 8, .length_buckets = {4}}), others);
  EXPECT_EQ(error({.max_length = 8, .length_buckets = {4, 9}}), "length_buckets has 9, more than max_length 8");
  EXPECT_EQ(read_length_buckets("4,64,128"), (std::vector<std::int64_t>{4, 64, 128}));
  for (const char* text : {"4,x", "4,", "4 ,8", "4.5"})
    EXPECT_NE(error_of([&] { (void)read_length_buckets(text); }).find("must be a list of lengths such as 64,128,256"),
              std::string::npos)
        << text;
  for (const char* text : {"8,4", "0", "-1", "4,4"})
    EXPECT_EQ(error_of([&] { (void)read_length_buckets(text); }),
              fmt::format("the lengths must be at least 1 and increase, got \"{}\"", text));
}

std::vector<std::int64_t> varied_lengths() {
  std::vector<std::int64_t> out(500);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 1 + static_cast<std::int64_t>(i * i * 31 % 200);
  return out;
}

TEST(Padding, ThereAreAtMostAsManyShapesAsMultiples) {
  for (const std::int64_t multiple : {32, 64}) {
    std::set<std::int64_t> shapes;
    Loader loader(std::make_shared<Sentences>(varied_lengths()),
                  {.batch_size = 4,
                   .shuffle = true,
                   .num_workers = 2,
                   .collator = std::make_shared<PaddingCollator>(PaddingOptions{.pad_to_multiple_of = multiple})});
    for (const Batch& batch : loader) shapes.insert(batch.field("input_ids").type.dim(1));
    EXPECT_LE(isize(shapes), ceil_div(200, multiple));
    for (const std::int64_t shape : shapes) EXPECT_EQ(shape % multiple, 0);
  }
}

TEST(Padding, AllRanksHaveTheLengthOfTheLongestSample) {
  const Mesh mesh({{"data", 4}});
  on_ranks(4, [&](int rank) {
    Loader loader(std::make_shared<Sentences>(std::vector<std::int64_t>{3, 1, 7, 2, 5}),
                  {.batch_size = 4,
                   .collator = std::make_shared<PaddingCollator>(PaddingOptions{}),
                   .mesh = mesh,
                   .input_sharding = PartitionSpec{"data"}});
    for (const std::int64_t wanted : {7, 5}) {  // ranks 1 to 3 have no sample of the second batch
      const auto batch = loader.next();
      EXPECT_EQ(batch->field("input_ids").shard.type().dims(), (Dims{1, wanted})) << rank;
      const Literal labels = batch->tensor("labels").to_host();
      EXPECT_EQ(row_of(labels, 3).back(), -100);
    }
  });
}

TEST(GroupByLength, NeedsMuchLessPaddingAndGivesEverySampleOnce) {
  const auto lengths = varied_lengths();
  const auto padding_of = [&](bool groups) {
    Loader loader(std::make_shared<Sentences>(lengths),
                  {.batch_size = 8,
                   .shuffle = true,
                   .group_by_length = groups,
                   .collator = std::make_shared<PaddingCollator>(PaddingOptions{})});
    std::set<std::int64_t> seen;
    std::int64_t padding = 0;
    std::int64_t first = 0;
    for (const Batch& batch : loader) {
      const std::int64_t width = batch.field("input_ids").type.dim(1);
      if (first == 0) first = width;
      for (const std::int64_t sample : batch.samples) {
        EXPECT_TRUE(seen.insert(sample).second);
        padding += width - at(lengths, sample);
      }
    }
    EXPECT_EQ(seen.size(), lengths.size());
    if (groups) {
      EXPECT_EQ(first, *std::max_element(lengths.begin(), lengths.end()));
    }
    return padding;
  };
  EXPECT_LT(5 * padding_of(true), padding_of(false));
}

// ---- masks --------------------------------------------------------------------------------------------------------------

constexpr std::int32_t kMaskId = 999999;
constexpr std::int32_t kVocabulary = 1000000;

std::shared_ptr<const Collator> masking(PaddingOptions padding = {}) {
  return std::make_shared<MlmCollator>(
      std::move(padding), MlmOptions{.mask_token_id = kMaskId, .vocab_size = kVocabulary, .special_ids = {0, 100}});
}

TEST(Padding, LabelsOfSamplesAreNotPadded) {
  const PaddingCollator collator({.padding = "max_length", .max_length = 3});
  const auto sample = [](std::int32_t label) {
    return Arrays{{"input_ids", Literal::from<std::int32_t>({2}, {5, 6})},
                  {"labels", Literal::from<std::int32_t>({}, {label})}};
  };
  const Arrays out = collator.collate({sample(1), sample(2)}, {.rows = 3, .real_rows = 2, .samples = {0, 1}});
  EXPECT_EQ(out.at("labels").type().dims(), Dims({3}));
  const auto labels = out.at("labels").data<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(labels.begin(), labels.end()), (std::vector<std::int32_t>{1, 2, kIgnoredLabel}));
}

TEST(Mlm, ChoosesTheTokensAndReplacesThemInTheGivenShares) {
  const std::int64_t length = 40000;
  const Batch batch = first_batch({length, length - 1000}, masking());
  std::map<std::string, double> count;
  for (const std::int64_t row : {0, 1}) {
    const Row ids = row_of(batch.field("input_ids").shard, row);
    const Row labels = row_of(batch.field("labels").shard, row);
    for (std::int32_t i = 0; i < length; ++i) {
      const auto original = static_cast<std::int32_t>(100 * row + i);
      const bool is_padding = row == 1 && i >= length - 1000;
      if (at(labels, i) == kIgnoredLabel) {
        EXPECT_EQ(at(ids, i), is_padding ? 0 : original);
        continue;
      }
      EXPECT_TRUE(!is_padding && original != 0 && original != 100);
      EXPECT_EQ(at(labels, i), original);
      ++count["chosen"];
      ++count[at(ids, i) == kMaskId ? "mask" : at(ids, i) == original ? "same" : "random"];
    }
  }
  EXPECT_NEAR(count["chosen"] / (2 * length - 1000), 0.15, 0.006);
  EXPECT_NEAR(count["mask"] / count["chosen"], 0.8, 0.015);
  EXPECT_NEAR(count["random"] / count["chosen"], 0.1, 0.015);
  EXPECT_NEAR(count["same"] / count["chosen"], 0.1, 0.015);
}

TEST(Mlm, TheMaskOfASampleFollowsFromSeedEpochAndNumber) {
  // The labels of the samples of two epochs.
  const auto labels = [](int workers, std::int64_t rows, std::uint64_t seed) {
    const PaddingOptions padding{.padding = "max_length", .max_length = 50};
    Loader loader(
        std::make_shared<Sentences>(std::vector<std::int64_t>(12, 50)),
        {.batch_size = rows, .seed = seed, .shuffle = true, .num_workers = workers, .collator = masking(padding)});
    std::map<std::pair<int, std::int64_t>, Row> out;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const Batch& batch : loader)
        for (std::size_t row = 0; row < batch.samples.size(); ++row)
          out[{epoch, batch.samples[row]}] = row_of(batch.field("labels").shard, static_cast<std::int64_t>(row));
    return out;
  };
  const auto one = labels(0, 3, 1);
  EXPECT_EQ(one, labels(4, 5, 1));
  EXPECT_NE(one, labels(0, 3, 2));
  EXPECT_NE(one.at({0, 7}), one.at({1, 7}));
}

// ---- packing ------------------------------------------------------------------------------------------------------------

TEST(Packing, FillsRowsWithDocumentsAndMarksTheirBoundaries) {
  const auto documents = std::make_shared<Sentences>(std::vector<std::int64_t>{2, 3, 4, 11, 1});
  const PackedSource rows(documents, {.length = 5, .pad_token_id = 7});
  ASSERT_EQ(rows.size(), 5);  // 0 and 1; 2; 5 + 5 + 1 tokens of 3, the last with 4
  const auto row = [&](std::int64_t i, const char* name) {
    const Arrays sample = rows.get(i);
    const auto data = sample.at(name).data<std::int32_t>();
    return Row(data.begin(), data.end());
  };
  EXPECT_EQ(row(0, "input_ids"), (Row{0, 1, 100, 101, 102}));
  EXPECT_EQ(row(0, "labels"), (Row{-100, 1, -100, 101, 102}));
  EXPECT_EQ(row(0, "segment_ids"), (Row{1, 1, 2, 2, 2}));
  EXPECT_EQ(row(0, "position_ids"), (Row{0, 1, 0, 1, 2}));
  EXPECT_EQ(row(1, "input_ids"), (Row{200, 201, 202, 203, 7}));
  EXPECT_EQ(row(1, "segment_ids"), (Row{1, 1, 1, 1, 0}));
  EXPECT_EQ(row(1, "labels"), (Row{-100, 201, 202, 203, -100}));
  EXPECT_EQ(row(3, "input_ids"), (Row{305, 306, 307, 308, 309}));
  EXPECT_EQ(row(3, "position_ids"), (Row{0, 1, 2, 3, 4}));
  EXPECT_EQ(row(4, "input_ids"), (Row{310, 400, 7, 7, 7}));
  EXPECT_EQ(row(4, "segment_ids"), (Row{1, 2, 0, 0, 0}));
  EXPECT_EQ(error_of([&] { PackedSource(documents, {.length = 1}); }),
            "a packed row must have at least 2 tokens, got 1");
}

TEST(Packing, GivesEveryTokenOfATokenFileOnce) {
  const TemporaryFolder folder;
  const ByteTokenizer tokenizer;
  TokenFileWriter writer(folder.file("a.tokens"), tokenizer);
  std::string text;
  for (int i = 1; i < 40; ++i) {
    const std::string document(static_cast<std::size_t>(i * 7 % 23 + 1), static_cast<char>('a' + i % 26));
    writer.append(tokenizer.encode(document));
    writer.end_document(isize(document));
    text += document;
  }
  writer.finish();
  const auto file = std::make_shared<const TokenFile>(TokenFile::open(folder.file("a.tokens")));
  Loader loader(std::make_shared<PackedSource>(std::make_shared<DocumentSource>(file), PackingOptions{.length = 10}),
                {.batch_size = 3, .num_workers = 2});
  std::string packed;
  for (const Batch& batch : loader)
    for (std::int64_t row = 0; row < batch.real_rows; ++row) {
      const Row ids = row_of(batch.field("input_ids").shard, row);
      const Row segments = row_of(batch.field("segment_ids").shard, row);
      for (std::size_t i = 0; i < ids.size(); ++i)
        if (segments[i] > 0) packed += static_cast<char>(ids[i]);
    }
  EXPECT_EQ(packed, text);
}

}  // namespace
}  // namespace tessera::data
