// SPDX-License-Identifier: Apache-2.0
// The files with which Hugging Face's libraries read a trained tokenizer. tests/oracles/bpe_tokenizers.py compares the ids.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/json_object.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/split_pattern.h"

namespace tessera::data {
namespace {

constexpr const char* kTextToTrain = "the cat sat on the mat, \"the\" cat\tsat\\ the café — 猫 the cat sat on the mat";

TEST(HuggingFaceFiles, GiveAnEqualTokenizer) {
  const auto trained = BpeTokenizer::train(kTextToTrain, 280);
  const auto files = trained.hugging_face_files();
  ASSERT_EQ(files.size(), 2U);
  const auto read = BpeTokenizer::from_tokenizer_json(files.at("tokenizer.json"), "tokenizer.json");
  EXPECT_TRUE(is_same_tokenizer(trained, read));
  EXPECT_EQ(read.vocabulary(), trained.vocabulary());  // it has the rules of GPT-2
  for (const char* text : {kTextToTrain, "a<|endoftext|>the  cat\n\n", "\xff\x80 猫"})
    EXPECT_EQ(read.encode(text), trained.encode(text)) << text;
}

TEST(HuggingFaceFiles, HaveTheStepsOfGpt2) {
  const auto files = BpeTokenizer::train(kTextToTrain, 280).hugging_face_files();
  const auto json = JsonObject::parse(files.at("tokenizer.json"));
  for (const char* part : {"pre_tokenizer", "decoder", "post_processor", "model"}) {
    JsonObject step;
    ASSERT_TRUE(json.read(part, step)) << part;
    EXPECT_EQ(step.text("type"), std::string(part) == "model" ? "BPE" : "ByteLevel") << part;
  }
  EXPECT_TRUE(json.is_null("normalizer"));
  std::vector<JsonObject> added;
  json.read("added_tokens", added);
  ASSERT_EQ(added.size(), 1U);
  EXPECT_EQ(added.front().text("content"), "<|endoftext|>");
  EXPECT_EQ(added.front().text("normalized"), "false");
  const auto config = JsonObject::parse(files.at("tokenizer_config.json"));
  EXPECT_EQ(config.text("tokenizer_class"), "PreTrainedTokenizerFast");
  EXPECT_EQ(config.text("eos_token"), "<|endoftext|>");
}

TEST(HuggingFaceFiles, DoNotExistForIdsInAnotherOrder) {
  const auto trained = BpeTokenizer::train(kTextToTrain, 258);
  std::string json = trained.hugging_face_files().at("tokenizer.json");
  const auto swap = [&](const std::string& from, const std::string& to) {
    const auto place = json.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    json.replace(place, from.size(), to);
  };
  swap("\"!\":0,\"\\\"\":1,", "\"!\":1,\"\\\"\":0,");
  EXPECT_TRUE(BpeTokenizer::from_tokenizer_json(json, "other.json").hugging_face_files().empty());
  EXPECT_TRUE(ByteTokenizer().hugging_face_files().empty());
}

std::vector<std::string> pieces_by(const SplitPattern& pattern, std::string_view text) {
  std::vector<std::string> out;
  pattern.split(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

// U+180E separates vowels. Hugging Face's tokenizers follow Unicode, which counts it as a blank only before version 6.3.
TEST(SplitPattern, WhiteSpaceIsThatOfUnicode) {
  const std::string vowel_separator = "\xe1\xa0\x8e";
  const std::string wide_blank = "\xe3\x80\x80";  // U+3000
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces_by(gpt2_pattern(), "x  " + vowel_separator + "y"), (Pieces{"x", " ", " " + vowel_separator, "y"}));
  EXPECT_EQ(pieces_by(gpt2_pattern(), "x" + wide_blank + " y"), (Pieces{"x", wide_blank, " y"}));
  const std::string text = "a\t" + vowel_separator + "]-s";
  EXPECT_EQ(pieces_by(SplitPattern(R"(\s)"), text), (Pieces{"a", "\t", vowel_separator + "]-s"}));
  EXPECT_EQ(pieces_by(SplitPattern(R"(\S+)"), text), (Pieces{"a", "\t", vowel_separator + "]-s"}));
  EXPECT_EQ(pieces_by(SplitPattern(R"([^]\s]+)"), text), (Pieces{"a", "\t", vowel_separator, "]", "-s"}));
  EXPECT_EQ(pieces_by(SplitPattern(R"([]\s-])"), text), (Pieces{"a", "\t", vowel_separator, "]", "-", "s"}));
  EXPECT_EQ(pieces_by(SplitPattern(R"(\\s)"), R"(x\sy)"), (Pieces{"x", R"(\s)", "y"}));
}

}  // namespace
}  // namespace tessera::data
