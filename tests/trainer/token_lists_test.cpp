// SPDX-License-Identifier: Apache-2.0
// The tokens that run_mlm keeps in --cache_dir.
#include "tasks/token_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::TemporaryFolder;
namespace fs = std::filesystem;

class CachedTokenLists : public ::testing::Test {
 protected:
  CachedTokenLists() { arguments_.cache_dir = folder_.file("cache"); }
  TokenLists load(std::size_t key = 7) {
    return cached_token_lists(arguments_, key, [&] {
      ++made_;
      return lists_;
    });
  }
  [[nodiscard]] std::string path() const {
    for (const auto& entry : fs::directory_iterator(folder_.file("cache/tessera_tokens"))) return entry.path().string();
    return "";
  }

  FreshRank rank_;
  TemporaryFolder folder_;
  TrainingArguments arguments_;
  const TokenLists lists_{{3, 1, 4}, {}, {1, 5, 9, 2}};
  int made_ = 0;
};

TEST_F(CachedTokenLists, AreMadeOnceForAKey) {
  EXPECT_EQ(load(), lists_);
  EXPECT_EQ(load(), lists_);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(load(8), lists_);
  EXPECT_EQ(made_, 2);
}

TEST_F(CachedTokenLists, AreMadeAgainIfTheFlagOverwritesThem) {
  EXPECT_EQ(load(), lists_);
  arguments_.overwrite_cache = true;
  EXPECT_EQ(load(), lists_);
  EXPECT_EQ(made_, 2);
  arguments_.overwrite_cache = false;
  EXPECT_EQ(load(), lists_);
  EXPECT_EQ(made_, 2);
}

TEST_F(CachedTokenLists, ADamagedFileIsReplacedWithAWarning) {
  EXPECT_EQ(load(), lists_);
  const std::string file = path();
  const std::string good = read_file(file);
  std::string bad = good;
  bad.back() = static_cast<char>(bad.back() ^ 1);
  for (const std::string& content : {bad, good.substr(0, good.size() - 3), std::string("x")}) {
    write_file(file, content);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(load(), lists_);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(said.starts_with("warning: " + file + ": ")) << said;
    EXPECT_NE(said.find("; the text is tokenized again\n"), std::string::npos) << said;
    EXPECT_EQ(read_file(file), good);
  }
}

TEST_F(CachedTokenLists, AreNotKeptWithoutAFolder) {
  arguments_.cache_dir.clear();
  EXPECT_EQ(load(), lists_);
  EXPECT_EQ(load(), lists_);
  EXPECT_EQ(made_, 2);
  EXPECT_FALSE(fs::exists(folder_.file("cache")));
}

}  // namespace
}  // namespace tessera::trainer
