// SPDX-License-Identifier: Apache-2.0
// What run_clm reads in the place of a text: token files, JSON Lines and folders, and which tokenizers they may have.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/document_tokens.h"
#include "tessera/data/token_file.h"
#include "tessera/trainer/clm.h"
#include "tessera/trainer/model_names.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using TokenIds = std::vector<std::int32_t>;

constexpr std::int64_t kDataBlock = 5;
constexpr const char* kCats = "the cat sat on the mat, the cat sat";
constexpr const char* kDogs = "a dog dug, a dog dug, a dog";

std::string long_text() {
  std::string out;
  for (int i = 0; i < 40; ++i) out += fmt::format("the rank {} of the mesh {}\n", i * i % 17, i % 5);
  return out;
}

TokenIds ids_in_blocks(const data::BlockDataset& blocks) {
  TokenIds out(static_cast<std::size_t>(blocks.size() * kDataBlock));
  for (std::int64_t i = 0; i < blocks.size(); ++i)
    blocks.read(i, 0, std::span(out).subspan(static_cast<std::size_t>(i * kDataBlock), kDataBlock));
  return out;
}

class ClmDataFiles : public ::testing::Test {
 protected:
  // Writes what `tessera tokenize` writes.
  [[nodiscard]] std::string tokens_file(const std::string& name, const std::vector<std::string>& inputs,
                                        const data::Tokenizer& tokenizer) const {
    const std::string path = folder_.file(name);
    data::TokenFileWriter writer(path, tokenizer);
    data::tokenize_documents(data::find_texts(inputs), "text", tokenizer,
                             {.tokens = [&](std::span<const std::int32_t> ids) { writer.append(ids); },
                              .end = [&](std::int64_t text_bytes) { writer.end_document(text_bytes); }});
    writer.finish();
    return path;
  }
  [[nodiscard]] std::string tokens_file(const std::string& name, const std::string& tokenizer,
                                        const std::string& trained_on = kCats) const {
    const std::string text = folder_.write(name + ".txt", long_text());
    return tokens_file(name, {text}, *data::make_tokenizer(tokenizer, trained_on));
  }
  [[nodiscard]] ClmData load() const { return load_clm_data(arguments_, kDataBlock); }
  [[nodiscard]] std::string error() const {
    return error_of([&] { (void)load(); });
  }

  FreshRank rank_;
  TemporaryFolder folder_;
  TrainingArguments arguments_;
};

TEST_F(ClmDataFiles, ATokenFileToEvaluateIsReadAsOneBesideAText) {
  arguments_.train_file = folder_.write("train.txt", long_text() + long_text());
  arguments_.validation_file = folder_.write("validation.txt", long_text());
  const ClmData expected = load();
  arguments_.validation_file = tokens_file("validation.tokens", "bytes");
  const ClmData read = load();
  EXPECT_EQ(read.validation->token_count(), static_cast<std::int64_t>(long_text().size()));
  EXPECT_EQ(ids_in_blocks(*read.validation), ids_in_blocks(*expected.validation));
  EXPECT_EQ(read.validation_tokens_per_byte, 1);
}

TEST_F(ClmDataFiles, ATokenFileToEvaluateHasTheTokenizerOfTheTraining) {
  arguments_.train_file = folder_.write("train.txt", long_text());
  arguments_.validation_file = tokens_file("cats.tokens", "bpe:262");
  EXPECT_EQ(error(), "--validation_file " + arguments_.validation_file +
                         " was written with another tokenizer (bpe:262, 262 ids) than that of the training (bytes, 256 "
                         "ids); tokenize both texts with one tokenizer");
  arguments_.tokenizer_name = "bpe:262";  // trained on another text
  EXPECT_NE(error().find("(bpe:262, 262 ids) than that of the training (bpe:262, "), std::string::npos) << error();
  arguments_.tokenizer_name = folder_.write("own/vocab.bpe", data::make_tokenizer("bpe:262", kCats)->vocabulary());
  EXPECT_EQ(error(), "no error");
  arguments_.train_file = tokens_file("train.tokens", "bpe:262");
  arguments_.tokenizer_name = "bytes";  // the default
  EXPECT_EQ(error(), "no error");
  arguments_.validation_file = tokens_file("dogs.tokens", "bpe:262", kDogs);
  EXPECT_NE(error().find("another tokenizer (bpe:262, 262 ids) than that of the training (bpe:262, 262 ids)"),
            std::string::npos)
      << error();
}

TEST_F(ClmDataFiles, ATokenFileAndAModelHaveOneTokenizer) {
  arguments_.train_file = tokens_file("train.tokens", "bpe:262");
  arguments_.model_name_or_path = folder_.file("model");
  const auto loaded = [&] {
    TrainingArguments found = arguments_;
    use_tokenizer_of_model(found);
    return load_clm_data(found, kDataBlock).tokenizer->vocabulary();
  };
  const std::string cats = data::make_tokenizer("bpe:262", kCats)->vocabulary();
  std::filesystem::create_directory(folder_.file("model"));
  EXPECT_EQ(loaded(), cats) << "a model without a tokenizer";
  (void)folder_.write("model/vocab.bpe", cats);
  EXPECT_EQ(loaded(), cats);
  for (const auto& other : {data::make_tokenizer("bpe:262", kDogs), data::make_tokenizer("bpe:260", kCats)}) {
    (void)folder_.write("model/vocab.bpe", other->vocabulary());
    EXPECT_EQ(
        error_of([&] { loaded(); }),
        fmt::format("--train_file {0} was written with the tokenizer bpe:262 (262 ids), but the model in {1} has "
                    "another tokenizer ({2} ids); tokenize the text with that of the model: `tessera tokenize TEXT "
                    "--tokenizer {1} -o FILE`; or give --tokenizer_name bpe:262 to use the ids of the file",
                    arguments_.train_file, folder_.file("model"), other->vocab_size()));
  }
  arguments_.tokenizer_name = "bpe:262";  // as a flag
  EXPECT_EQ(load().tokenizer->vocabulary(), cats);
}

TEST_F(ClmDataFiles, DocumentsGiveTheTokensOfTheirTokenFile) {
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += fmt::format("{{\"text\": \"the rank {} of the mesh\", \"id\": {}}}\n", i, i);
  const std::string jsonl = folder_.write("in/a.jsonl", lines);
  (void)folder_.write("in/b.txt", long_text());
  for (const std::string& input : {jsonl, folder_.file("in")}) {
    arguments_.train_file = input;
    for (const char* name : {"bytes", "bpe:270"}) {
      arguments_.tokenizer_name = name;
      const auto tokenizer =
          data::make_tokenizer(name, data::beginning_of_documents(data::find_texts({input}), "text"));
      TrainingArguments of_tokens = arguments_;
      of_tokens.train_file = tokens_file("expected.tokens", {input}, *tokenizer);
      const ClmData expected = load_clm_data(of_tokens, kDataBlock);
      const ClmData read = load();
      EXPECT_EQ(ids_in_blocks(*read.train), ids_in_blocks(*expected.train)) << input << name;
      EXPECT_EQ(ids_in_blocks(*read.validation), ids_in_blocks(*expected.validation)) << input << name;
      EXPECT_EQ(read.validation_tokens_per_byte, expected.validation_tokens_per_byte) << input << name;
      EXPECT_EQ(read.tokenizer->decode(ids_in_blocks(*read.train)).find('{'), std::string::npos) << "braces of JSON";
    }
  }
  // To evaluate beside a text, too.
  arguments_.train_file = folder_.write("train.txt", long_text());
  arguments_.tokenizer_name = "bytes";
  arguments_.validation_file = jsonl;
  EXPECT_EQ(load().validation->token_count(), 10 * 22 + 20 * 23);
}

TEST_F(ClmDataFiles, TheTextsAreInOneColumnOfAllFiles) {
  std::string lines = "id,content\n";
  std::string json;
  for (int i = 0; i < 30; ++i) {
    lines += fmt::format("{},the rank {} of the mesh\n", i, i);
    json += fmt::format("{{\"content\": \"the rank {} of the mesh\", \"id\": \"{}\"}}\n", i, i);
  }
  arguments_.validation_file = folder_.write("v.csv", lines);
  arguments_.train_file = folder_.write("t.jsonl", json);
  const ClmData by_first = load();  // `content` is the first key of the training file
  EXPECT_EQ(by_first.validation->token_count(), 10 * 22 + 20 * 23);
  EXPECT_EQ(ids_in_blocks(*by_first.train), ids_in_blocks(*by_first.validation));
  arguments_.text_column_name = "id";
  EXPECT_EQ(load().validation->token_count(), 10 + 2 * 20);
  arguments_.text_column_name = "contents";
  EXPECT_EQ(error(), arguments_.train_file +
                         ", line 1: has no column \"contents\"; the columns are content, id; --text_column_name (of "
                         "tessera tokenize: --text-column) names that of the text");
  arguments_.train_file = folder_.write("train.txt", long_text());
  arguments_.text_column_name = "";
  EXPECT_EQ(load().validation->token_count(), 10 + 2 * 20) << "id is the first column";
}

TEST_F(ClmDataFiles, TokensOfDocumentsAreCached) {
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += fmt::format("{{\"text\": \"the rank {} of the mesh\"}}\n", i);
  arguments_.train_file = folder_.write("a.jsonl", lines);
  arguments_.tokenizer_name = "bpe:270";
  const TokenIds expected = ids_in_blocks(*load().train);
  arguments_.cache_dir = folder_.file("cache");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ids_in_blocks(*load().train), expected) << i;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.file("cache/tessera_tokens"))) {
    EXPECT_EQ(entry.path().extension(), ".safetensors");
    ++files;
  }
  EXPECT_EQ(files, 1U);
}

TEST_F(ClmDataFiles, AnEvaluationNeedsNoTextToTrainOn) {
  arguments_.train_file = folder_.write("train.txt", long_text() + long_text());
  arguments_.validation_file = folder_.write("validation.txt", long_text());
  const TokenIds expected = ids_in_blocks(*load().validation);
  arguments_.train_file = "";
  EXPECT_NE(error(), "no error");
  arguments_.do_train = false;
  const ClmData read = load();
  EXPECT_FALSE(read.train);
  EXPECT_EQ(ids_in_blocks(*read.validation), expected);
  // The tokenizer is that of the token file, which has other ids than bytes.
  arguments_.validation_file = tokens_file("validation.tokens", "bpe:262");
  EXPECT_EQ(load().tokenizer->name(), "bpe:262");
  EXPECT_EQ(load().validation->token_count(), data::TokenFile::open(arguments_.validation_file).info().tokens);
  arguments_.tokenizer_name = folder_.write("own/vocab.bpe", data::make_tokenizer("bpe:262", kDogs)->vocabulary());
  EXPECT_EQ(error(),
            fmt::format("--tokenizer_name {}: {} was written with another vocabulary, which has the same number of ids",
                        arguments_.tokenizer_name, arguments_.validation_file));
}

TEST_F(ClmDataFiles, AnEvaluationMayHaveFewTokensToTrainOn) {
  arguments_.do_train = false;
  arguments_.train_file = folder_.write("short.txt", "abc");
  EXPECT_EQ(error(),
            arguments_.train_file + " gives no block of 5 tokens; give a longer text or a smaller --block_size");
  arguments_.validation_file = folder_.write("validation.txt", long_text());
  EXPECT_FALSE(load().train);
  EXPECT_TRUE(load().validation);
}

TEST_F(ClmDataFiles, CompressedTextsAreRefused) {
  arguments_.train_file = folder_.write("t.txt.gz", "\x1f\x8b\x08 and so on");
  EXPECT_EQ(error(), arguments_.train_file + ": is compressed by gzip, not a text; `gunzip FILE` makes a text of it");
  arguments_.validation_file = arguments_.train_file;
  arguments_.train_file = folder_.write("train.txt", long_text());
  EXPECT_NE(error().find("t.txt.gz: is compressed by gzip"), std::string::npos);
}

}  // namespace
}  // namespace tessera::trainer
