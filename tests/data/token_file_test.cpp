// SPDX-License-Identifier: Apache-2.0
// Token files: what is written is read back, damaged files are named, and parts of a text give the same tokens.
#include "tessera/data/token_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "support/temporary_folder.h"
#include "tessera/base/checksum.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/text_dataset.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

constexpr const char* kText = "the cat sat on the mat, and the dog sat on the log. ";

std::string write_documents(const TemporaryFolder& folder, const Tokenizer& tokenizer,
                            const std::vector<std::string>& texts) {
  std::string path = folder.file("a.tokens");
  TokenFileWriter writer(path, tokenizer);
  for (const auto& text : texts) {
    writer.append(tokenizer.encode(text));
    writer.end_document(static_cast<std::int64_t>(text.size()));
  }
  writer.finish();
  return path;
}

Ids document(const TokenFile& file, std::int64_t i) {
  const Interval range = file.document(i);
  Ids out(static_cast<std::size_t>(range.size()));
  file.read(range.start, out);
  return out;
}

TEST(TokenFile, ALinkStaysAndItsTargetIsWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("disk"));
  std::filesystem::create_symlink("disk/a.tokens", folder.file("a.tokens"));
  const auto tokenizer = make_tokenizer("bpe:280", kText);
  for (const std::string text : {"the cat", "the dog sat"}) {  // a new file, and then an existing one
    write_documents(folder, *tokenizer, {text});
    EXPECT_TRUE(std::filesystem::is_symlink(folder.file("a.tokens")));
    EXPECT_EQ(TokenFile::open(folder.file("disk/a.tokens")).info().text_bytes, static_cast<std::int64_t>(text.size()));
  }
}

TEST(TokenFile, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const auto tokenizer = make_tokenizer("bpe:280", kText);
  const std::string path = write_documents(folder, *tokenizer, {kText, "", "the end"});
  const TokenFile file = TokenFile::open(path);
  EXPECT_EQ(file.info().documents, 3);  // an empty document is its end of text
  EXPECT_EQ(file.info().token_bytes, 2);
  EXPECT_EQ(file.info().text_bytes, static_cast<std::int64_t>(std::strlen(kText)) + 7);
  Ids last = tokenizer->encode("the end");
  last.push_back(*tokenizer->end_of_text());
  EXPECT_EQ(document(file, 2), last);
  EXPECT_EQ(document(file, 1), Ids{*tokenizer->end_of_text()});
  file.verify();
  const auto again = file.make_tokenizer();  // of the file alone
  EXPECT_EQ(again->encode(kText), tokenizer->encode(kText));
  EXPECT_EQ(again->name(), "bpe:280");
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("")))
    EXPECT_EQ(entry.path().filename(), "a.tokens") << "a temporary file is left";
}

TEST(TokenFile, KnowsWithWhichTokenizerItWasWritten) {
  const TemporaryFolder folder;
  const auto tokenizer = make_tokenizer("bpe:262", kText);
  const auto other = make_tokenizer("bpe:262", "a dog dug, a dog dug, a dog");
  const TokenFile file = TokenFile::open(write_documents(folder, *tokenizer, {kText}));
  EXPECT_TRUE(file.was_written_with(BpeTokenizer::from_merges(tokenizer->vocabulary(), "another name")));
  EXPECT_FALSE(file.was_written_with(*other)) << "the same name and number of ids";
  EXPECT_FALSE(file.was_written_with(*make_tokenizer("bpe:261", kText)));
  EXPECT_FALSE(file.was_written_with(ByteTokenizer()));
  EXPECT_TRUE(TokenFile::open(write_documents(folder, ByteTokenizer(), {kText})).was_written_with(ByteTokenizer()));
}

// A file of pieces is not in the header, so the file itself is read, as long as it is there.
TEST(TokenFile, ComparesVocabulariesThatItOnlyNames) {
  const TemporaryFolder folder;
  const auto pieces = [&](const std::string& name, const std::string& words) {
    return make_tokenizer(folder.write(name, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + words), "");
  };
  const auto tokenizer = pieces("own/vocab.txt", "the\ncat\n");
  const auto copy = pieces("copy/vocab.txt", "the\ncat\n");
  const auto other = pieces("other/vocab.txt", "cat\nthe\n");
  const TokenFile file = TokenFile::open(write_documents(folder, *tokenizer, {"the cat"}));
  EXPECT_TRUE(file.was_written_with(*copy));
  EXPECT_FALSE(file.was_written_with(*other));
  std::filesystem::remove(folder.file("own/vocab.txt"));
  EXPECT_TRUE(file.was_written_with(*copy)) << "at another place";
}

// A vocabulary of a given size whose ids are numbers.
class AnyIds final : public Tokenizer {
 public:
  explicit AnyIds(int size) : size_(size) {}
  [[nodiscard]] Ids encode(std::string_view) const override { return {0, size_ - 1}; }
  [[nodiscard]] std::string decode(std::span<const std::int32_t>) const override { return {}; }
  [[nodiscard]] int vocab_size() const override { return size_; }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override { return std::nullopt; }
  [[nodiscard]] const std::string& name() const override { return name_; }

 private:
  int size_;
  std::string name_ = "numbers";
};

TEST(TokenFile, TheTypeOfTokensFollowsTheVocabulary) {
  const TemporaryFolder folder;
  for (const auto& [size, bytes] : {std::pair{65536, 2}, std::pair{65537, 4}}) {
    const TokenFile file = TokenFile::open(write_documents(folder, AnyIds(size), {"x"}));
    EXPECT_EQ(file.info().token_bytes, bytes);
    EXPECT_EQ(document(file, 0), (Ids{0, size - 1}));
  }
}

TEST(TokenFile, OnlyACompleteFileAppears) {
  const TemporaryFolder folder;
  const std::string path = folder.file("b.tokens");
  {
    TokenFileWriter writer(path, ByteTokenizer());
    writer.append(Ids{1, 2});
    EXPECT_EQ(error_of([&] { writer.append(Ids{256}); }), "token id 256 is outside the vocabulary of 256 ids");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("")));
  EXPECT_NE(error_of([&] { TokenFileWriter(folder.file(""), ByteTokenizer()); }).find("it is not a file"),
            std::string::npos);
}

// No process has the number 999999999.
TEST(TokenFile, WhatAKilledWriterLeftIsDeleted) {
  const TemporaryFolder folder;
  const std::vector<std::string> left = {"b.tokens.tmp999999999.0", "b.tokens.tmp999999999.0.documents"};
  const std::string running = fmt::format("b.tokens.tmp{}.1", getpid());
  for (const std::string& name : left) write_file(folder.file(name), "x");
  for (const std::string& name : {running, std::string("c.tokens.tmp999999999.0")}) write_file(folder.file(name), "x");
  const std::string path = write_documents(folder, ByteTokenizer(), {"abc"});
  const std::string target = folder.file("b.tokens");
  TokenFileWriter writer(target, ByteTokenizer());
  for (const std::string& name : left) EXPECT_FALSE(std::filesystem::exists(folder.file(name))) << name;
  EXPECT_TRUE(std::filesystem::exists(folder.file(running)));
  EXPECT_TRUE(std::filesystem::exists(folder.file("c.tokens.tmp999999999.0")));
}

// Returns the error of a file whose bytes `damage` has changed. `repair` computes the checksum of the header again.
template <class F>
std::string error_after(F&& damage, bool repair) {
  const TemporaryFolder folder;
  const std::string path = write_documents(folder, ByteTokenizer(), {"abc", "defgh"});
  std::string bytes = read_file(path);
  damage(bytes);
  if (repair) {
    Checksum sum;
    sum.add(std::as_bytes(std::span(bytes)).first(64));
    sum.add(std::as_bytes(std::span(bytes)).subspan(72, 5));  // "bytes"
    const std::uint64_t value = sum.value();
    std::memcpy(bytes.data() + 64, &value, sizeof(value));
  }
  write_file(path, bytes);
  const std::string error = error_of([&] { TokenFile::open(path).verify(); });
  EXPECT_TRUE(error == "no error" || error.starts_with(path + ": ")) << error;
  return error == "no error" ? error : error.substr(path.size() + 2);
}

TEST(TokenFile, DamageIsNamed) {
  const auto set = [](std::size_t at, char value) { return [=](std::string& bytes) { bytes[at] = value; }; };
  EXPECT_EQ(error_after([](std::string&) {}, true), "no error");
  EXPECT_EQ(error_after([](std::string& bytes) { bytes.pop_back(); }, false), "truncated: 167 bytes instead of 168");
  EXPECT_EQ(error_after([](std::string& bytes) { bytes.resize(40); }, false),
            "truncated: the header has 72 bytes, the file 40");
  EXPECT_EQ(error_after([](std::string& bytes) { bytes += "x"; }, false),
            "longer than its header states: 169 bytes instead of 168");
  EXPECT_EQ(error_after([](std::string& bytes) { bytes.clear(); }, false), "not a token file: it is empty");
  EXPECT_EQ(error_after(set(0, 'x'), false), "not a token file; `tessera tokenize` writes them");
  EXPECT_EQ(error_after(set(8, 3), false), "token file of version 3; this build reads the versions 1 and 2");
  EXPECT_NE(error_after(set(16, 9), false).find("the header is damaged"), std::string::npos);
  EXPECT_EQ(error_after(set(12, 3), true), "its tokens have 3 bytes each; they must have 2 or 4");
  EXPECT_EQ(error_after(set(22, 1), true), "truncated: 168 bytes instead of 563018672898216");
  EXPECT_EQ(error_after(set(23, '\xff'), true).substr(0, 20), "18374686479671623688");
  for (const std::size_t at : {128, 143, 144, 159, 160, 167})  // tokens, ends of documents, the checksum of both
    EXPECT_EQ(error_after([&](std::string& bytes) { bytes[at] = static_cast<char>(bytes[at] ^ 1); }, false),
              "damaged: the bytes 128 to 160 do not have the checksum with which they were saved")
        << at;
  EXPECT_EQ(error_after(set(56, '\xff'), true).substr(0, 22), "truncated or damaged: ");
}

TEST(TokenFile, OlderFilesHaveNoChecksumsOfBlocks) {
  const auto older = [](std::size_t at, char value) {
    return [=](std::string& bytes) {
      bytes.resize(160);
      bytes[8] = 1;
      bytes[at] = value;
    };
  };
  EXPECT_EQ(error_after(older(128, 'A'), true), "no error");
  EXPECT_EQ(error_after(older(129, 1), true),
            "token 0 has the id 353, but the vocabulary has 256 ids; the file is damaged");
  EXPECT_EQ(error_after(older(152, 7), true), "the last document ends at token 7, but the file has 8 tokens");
  EXPECT_EQ(error_after(older(144, 8), true),
            "document 1 of 2 has the tokens 8 to 8 of 8; the offsets do not increase, so the file is damaged");
  EXPECT_EQ(error_after([](std::string& bytes) { bytes[8] = 1; }, true),
            "longer than its header states: 168 bytes instead of 160");
}

TEST(TokenFile, ABlockIsVerifiedWhenItIsFirstRead) {
  const TemporaryFolder folder;
  const std::string path = write_documents(folder, ByteTokenizer(), {std::string(100000, 'x')});
  std::string bytes = read_file(path);
  ASSERT_EQ(bytes.size(), 128U + 200000 + 8 + 4 * 8);  // tokens, the end of the document, four checksums
  const std::size_t in_third_block = 128 + 2 * 65536 + 10;
  bytes[in_third_block] = 'y';
  write_file(path, bytes);
  const TokenFile file = TokenFile::open(path);
  Ids some(10);
  file.read(65526, some);  // the last tokens of the second block
  file.read(98304, some);  // the first tokens of the fourth one
  const std::string expected =
      path + ": damaged: the bytes 131200 to 196736 do not have the checksum with which they were saved";
  EXPECT_EQ(error_of([&] { file.read(65527, some); }), expected);
  EXPECT_EQ(error_of([&] { file.read(98303, some); }), expected);
  EXPECT_EQ(error_of([&] { file.verify(); }), expected);
}

TEST(TokenFile, BlocksAreThoseOfTheTokensInMemory) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i);
  const auto file =
      std::make_shared<const TokenFile>(TokenFile::open(write_documents(folder, ByteTokenizer(), {text})));
  const BlockDataset mapped(file, {20, 90}, 8);
  Ids all(70);
  std::iota(all.begin(), all.end(), 20);
  const BlockDataset blocks(all, 8);
  ASSERT_EQ(mapped.size(), blocks.size());
  Ids a(3);
  Ids b(3);
  for (std::int64_t i = 0; i < blocks.size(); ++i) {
    mapped.read(i, 5, a);
    blocks.read(i, 5, b);
    EXPECT_EQ(a, b);
  }
}

}  // namespace
}  // namespace tessera::data
