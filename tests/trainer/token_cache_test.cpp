// SPDX-License-Identifier: Apache-2.0
// The tokens that run_clm keeps in --cache_dir.
#include "clm/token_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/text.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/token_file.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::TemporaryFolder;
namespace fs = std::filesystem;

constexpr std::int64_t kCachedBlock = 5;

// A text with bytes that are not UTF-8, and with an end of text.
std::string text_to_cache() {
  std::string out;
  for (int i = 0; i < 90; ++i) out += fmt::format("the rank {} of the mesh {}\n", i * i % 17, i % 5);
  return out + "\xff\xfe<|endoftext|>the end";
}

class TokenCache : public ::testing::Test {
 protected:
  TokenCache() {
    arguments_.train_file = folder_.write("text.txt", text_to_cache());
    arguments_.tokenizer_name = "bpe:270";
    arguments_.cache_dir = folder_.file("cache");
  }

  // The blocks to train on and to evaluate.
  [[nodiscard]] static std::vector<std::int32_t> blocks_of(const TrainingArguments& arguments) {
    const ClmData data = load_clm_data(arguments, kCachedBlock);
    std::vector<std::int32_t> out;
    for (const data::BlockDataset* blocks : {&*data.train, &*data.validation})
      for (std::int64_t i = 0; i < blocks->size(); ++i) {
        out.resize(out.size() + kCachedBlock);
        blocks->read(i, 0, std::span(out).last(kCachedBlock));
      }
    return out;
  }
  [[nodiscard]] std::vector<std::int32_t> blocks() const { return blocks_of(arguments_); }
  [[nodiscard]] std::vector<std::int32_t> blocks_without_cache() const {
    TrainingArguments arguments = arguments_;
    arguments.cache_dir.clear();
    return blocks_of(arguments);
  }
  // What the load prints to standard error. Its tokens must be right.
  [[nodiscard]] std::string warnings_of_load() const {
    ::testing::internal::CaptureStderr();
    const auto loaded = blocks();
    std::string out = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(loaded, blocks_without_cache());
    return out;
  }

  // The cached files, the largest first: that of the training text.
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> out;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_.file("cache/tessera_tokens"), none))
      out.push_back(entry.path().string());
    std::sort(out.begin(), out.end(),
              [](const std::string& a, const std::string& b) { return fs::file_size(a) > fs::file_size(b); });
    return out;
  }

  FreshRank rank_;
  TemporaryFolder folder_;
  TrainingArguments arguments_;
};

TEST_F(TokenCache, KeepsTheTokensOfBothTexts) {
  const auto expected = blocks_without_cache();
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(blocks(), expected);
  ASSERT_EQ(files().size(), 2U);
  const auto written = fs::last_write_time(files()[0]);
  EXPECT_EQ(blocks(), expected);
  EXPECT_EQ(files().size(), 2U);
  EXPECT_EQ(fs::last_write_time(files()[0]), written);
}

// A tokenization without merges, which also decodes to the text, shows whether a load reads the file.
TEST_F(TokenCache, LaterLoadsReadTheTokensUnlessTheFlagOverwritesThem) {
  const auto merged = blocks();
  const std::string path = files().at(0);
  const auto tokenizer = data::TokenFile::open(path).make_tokenizer();
  const std::string text = text_to_cache();
  const std::string_view trained = data::split_text(text, arguments_.validation_split_percentage).first;
  {
    data::TokenFileWriter writer(path, *tokenizer);
    for (const char byte : trained) writer.append(tokenizer->encode(std::string(1, byte)));
    writer.end_document(static_cast<std::int64_t>(trained.size()));
    writer.finish();
  }
  EXPECT_GT(blocks().size(), merged.size());
  arguments_.overwrite_cache = true;
  EXPECT_EQ(blocks(), merged);
  arguments_.overwrite_cache = false;
  EXPECT_EQ(blocks(), merged);
}

TEST_F(TokenCache, ReplacesDamagedFilesWithAWarning) {
  const auto expected = blocks();
  const std::string path = files().at(0);
  const std::string good = read_file(path);
  std::string other_token = good;
  const auto middle = good.size() / 2;
  other_token[middle - middle % 2] = static_cast<char>(other_token[middle - middle % 2] ^ 1);
  std::string other_header = good;
  other_header[20] = static_cast<char>(other_header[20] ^ 1);
  const std::string of_other_text = read_file(files().at(1));
  for (const auto& [content, reason] :
       {std::pair{of_other_text, ": its tokens are not those of the text; the text is tokenized again\n"},
        std::pair{other_token, ": damaged: the bytes "}, std::pair{other_header, ": the header is damaged: "},
        std::pair{good.substr(0, good.size() - 8), ": truncated: "}, std::pair{std::string(), ": not a token file"}}) {
    write_file(path, content);
    const std::string said = warnings_of_load();
    EXPECT_TRUE(said.starts_with("warning: " + path + reason)) << said << reason;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_EQ(warnings_of_load(), "") << reason;  // the file was replaced
    EXPECT_EQ(read_file(path), good) << reason;
  }
}

TEST_F(TokenCache, HasAFileForEachTextAndVocabulary) {
  const std::string validation = folder_.write("validation.txt", text_to_cache() + text_to_cache());
  arguments_.validation_file = validation;
  EXPECT_EQ(blocks(), blocks_without_cache());
  EXPECT_EQ(files().size(), 2U);
  arguments_.tokenizer_name = "bpe:265";
  EXPECT_EQ(blocks(), blocks_without_cache());
  EXPECT_EQ(files().size(), 4U);
  // Another training text gives another vocabulary, also for the same held-out text.
  std::string rings;
  for (int i = 0; i < 200; ++i) rings += "a ring of shards, a ring of groups; ";
  arguments_.train_file = folder_.write("other.txt", rings + text_to_cache());
  EXPECT_EQ(blocks(), blocks_without_cache());
  EXPECT_EQ(files().size(), 6U);
  // A vocabulary that is read from a file, under a name that later means another vocabulary.
  arguments_.tokenizer_name = folder_.write("vocab.bpe", data::BpeTokenizer::train(text_to_cache(), 262).merges_text());
  EXPECT_EQ(blocks(), blocks_without_cache());
  EXPECT_EQ(files().size(), 8U);
  (void)folder_.write("vocab.bpe",
                      data::BpeTokenizer::train("a ring of shards of a ring of shards", 262).merges_text());
  EXPECT_EQ(blocks(), blocks_without_cache());
  EXPECT_EQ(files().size(), 10U);
}

TEST_F(TokenCache, HoldsNoBytes) {
  arguments_.tokenizer_name = "bytes";
  EXPECT_EQ(blocks(), blocks_without_cache());
  EXPECT_FALSE(fs::exists(arguments_.cache_dir));
}

TEST_F(TokenCache, SeveralRanksMayStartAtTheSameTime) {
  const auto expected = blocks_without_cache();
  for (const bool overwrites : {false, false, true}) {
    arguments_.overwrite_cache = overwrites;
    on_ranks(4, [&](int rank) { EXPECT_EQ(blocks(), expected) << rank; });
    for (const std::string& path : files()) EXPECT_TRUE(path.ends_with(".tokens")) << path << " is left";
    EXPECT_EQ(files().size(), 2U);
  }
}

TEST_F(TokenCache, WithoutAFolderToWriteToARunContinues) {
  arguments_.cache_dir = folder_.write("a_file", "");
  const std::string said = warnings_of_load();
  EXPECT_TRUE(said.starts_with("warning: --cache_dir: ")) << said;
  EXPECT_TRUE(said.ends_with("; the run continues and writes nothing more there\n")) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace tessera::trainer
