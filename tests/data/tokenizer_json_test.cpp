// SPDX-License-Identifier: Apache-2.0
// The tokenizer.json of Qwen, Llama and Mistral: each step gives the ids of Hugging Face's tokenizers, and steps that are not
// supported are named. tests/oracles/bpe_tokenizers.py compares more texts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/error_of.h"
#include "tessera/data/bpe_tokenizer.h"

namespace tessera::data {
namespace {

using Ids = std::vector<std::int32_t>;
using ::tessera::testing::error_of;

// The parts of a tokenizer.json, as JSON.
struct TokenizerParts {
  std::string vocab;
  std::string merges;
  std::string model;  // further members of the model
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string added = "[]";
  [[nodiscard]] std::string json() const {
    return fmt::format(
        R"({{"added_tokens": {}, "normalizer": {}, "pre_tokenizer": {}, "post_processor": {},
             "model": {{"type": "BPE", {}"vocab": {{{}}}, "merges": {}}}}})",
        added, normalizer, pre_tokenizer, post_processor, model, vocab, merges);
  }
  [[nodiscard]] BpeTokenizer read() const { return BpeTokenizer::from_tokenizer_json(json(), "t.json"); }
  [[nodiscard]] std::string error() const {
    return error_of([&] { (void)read(); });
  }
};

std::string utf8_of(unsigned code) {
  if (code < 0x80)
    return code == '"' || code == '\\' ? fmt::format("\\{}", static_cast<char>(code))
                                       : std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3FU))};
}

// The 256 bytes in GPT-2's order and spelling: '!' has id 0, a blank 220.
std::string byte_vocab() {
  std::vector<unsigned> printable, others;
  for (unsigned byte = 0; byte < 256; ++byte)
    ((byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173) ? printable : others).push_back(byte);
  std::string out;
  int id = 0;
  for (const unsigned byte : printable) out += fmt::format("\"{}\": {}, ", utf8_of(byte), id++);
  for (unsigned i = 0; i < others.size(); ++i) out += fmt::format("\"{}\": {}, ", utf8_of(256 + i), id++);
  return out;
}

std::string added_token(const std::string& content, int id, const std::string& more = "") {
  return fmt::format(R"({{"content": "{}", "id": {}, "special": true, "normalized": false{}}})", content, id, more);
}

std::string split_step(const std::string& digits) {
  const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|)" + digits +
                              R"(| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
  return R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": ")" + pattern +
         R"("}, "behavior": "Isolated", "invert": false},
          {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]})";
}

constexpr int kBlank = 220;
constexpr int code_of(char c) { return c - '!'; }

// Ids: 256 " t", 257 "he", 258 " the", 259 "12", 260 "123".
TokenizerParts byte_level(const std::string& digits = R"(\\p{N})") {
  return {.vocab = byte_vocab() + R"("Ġt": 256, "he": 257, "Ġthe": 258, "12": 259, "123": 260)",
          .merges = R"(["Ġ t", "h e", "Ġt he", ["1", "2"], "12 3"])",
          .model = "",
          .pre_tokenizer = split_step(digits)};
}

// Ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, then ▁ t h e he ▁t ▁the.
TokenizerParts characters() {
  std::string vocab = R"("<unk>": 0, "<s>": 1, "</s>": 2)";
  for (int byte = 0; byte < 256; ++byte) vocab += fmt::format(", \"<0x{:02X}>\": {}", byte, 3 + byte);
  int id = 259;
  for (const char* token : {"▁", "t", "h", "e", "he", "▁t", "▁the"}) vocab += fmt::format(", \"{}\": {}", token, id++);
  return {.vocab = vocab,
          .merges = R"(["h e", "▁ t", "▁t he"])",
          .model = R"("unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, )",
          .normalizer = R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                          {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})",
          .added = "[" + added_token("<unk>", 0) + "," + added_token("<s>", 1) + "," + added_token("</s>", 2) + "]"};
}

std::string metaspace(const std::string& members) {
  return R"({"type": "Metaspace", "replacement": "▁", )" + members + "}";
}

// ---- byte-level ---------------------------------------------------------------------------------------------------------

TEST(TokenizerJson, APatternDividesTheText) {
  const Ids the = {code_of('t'), 257};
  EXPECT_EQ(byte_level().read().encode("the the 123"),
            (Ids{the[0], the[1], 258, kBlank, code_of('1'), code_of('2'), code_of('3')}));
  EXPECT_EQ(byte_level(R"(\\p{N}{1,3})").read().encode("the 1234"), (Ids{the[0], the[1], kBlank, 260, code_of('4')}));
  TokenizerParts gpt2 = byte_level();
  gpt2.pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
  EXPECT_EQ(gpt2.read().encode("the 123"), (Ids{the[0], the[1], kBlank, 260}));
  TokenizerParts digits = byte_level();
  digits.pre_tokenizer = R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
                            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
  EXPECT_EQ(digits.read().encode(" the12"), (Ids{258, code_of('1'), code_of('2')}));
}

TEST(TokenizerJson, AnyBytesComeBackWithoutANormalizer) {
  const BpeTokenizer tokenizer = byte_level().read();
  EXPECT_TRUE(tokenizer.keeps_text());
  const std::string text = "In the\n\n  beginning\xff \xc3\xa9 12345 don't \xe6\x97" + std::string(70000, ' ') + "x\t";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.vocabulary(), "") << "GPT-2's merges do not describe the pattern";
  EXPECT_NE(tokenizer.fingerprint(), "");
}

TEST(TokenizerJson, NfcComposesCharacters) {
  TokenizerParts parts = byte_level();
  parts.normalizer = R"({"type": "NFC"})";
  const BpeTokenizer tokenizer = parts.read();
  constexpr int kC3 = 127, kA9 = 102;
  EXPECT_EQ(tokenizer.encode("e\xcc\x81"), (Ids{kC3, kA9}));
  EXPECT_EQ(tokenizer.encode("\xc3\xa9"), (Ids{kC3, kA9}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("e\xcc\x81\xff")), "\xc3\xa9\xff") << "bytes that are not UTF-8 stay";
  EXPECT_FALSE(tokenizer.keeps_text());
}

TEST(TokenizerJson, APieceThatIsATokenMayIgnoreTheMerges) {
  TokenizerParts parts = byte_level();
  parts.merges = R"(["Ġ t", "h e"])";
  EXPECT_EQ(parts.read().encode(" the"), (Ids{256, 257}));
  parts.model = R"("ignore_merges": true, )";
  EXPECT_EQ(parts.read().encode(" the"), (Ids{258}));
}

TEST(TokenizerJson, AddedTokensAreFoundInTheText) {
  TokenizerParts parts = byte_level();
  parts.added = "[" + added_token("<|begin_of_text|>", 261) + "," + added_token("<|end_of_text|>", 262) + "," +
                added_token("[X]", 263, R"(, "lstrip": true, "rstrip": true)") + "," + added_token("[X][X]", 264) + "]";
  parts.post_processor = R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [261], "tokens": ["<|begin_of_text|>"]}}}]})";
  const BpeTokenizer tokenizer = parts.read();
  EXPECT_EQ(tokenizer.encode("a<|end_of_text|>a"), (Ids{code_of('a'), 262, code_of('a')}));
  EXPECT_EQ(tokenizer.encode("a [X]\xe3\x80\x80\n a"), (Ids{code_of('a'), 263, code_of('a')}));
  EXPECT_EQ(tokenizer.encode("[X][X]"), (Ids{264})) << "the longest of several";
  EXPECT_EQ(tokenizer.end_of_text(), 262);
  EXPECT_EQ(tokenizer.document_prefix(), (Ids{261}));
  EXPECT_EQ(tokenizer.encode_document("a"), (Ids{261, code_of('a')}));
  EXPECT_EQ(tokenizer.decode(Ids{261, 258, 264}), "<|begin_of_text|> the[X][X]");
  EXPECT_FALSE(tokenizer.keeps_text()) << "[X] takes white space";
}

// ---- characters ---------------------------------------------------------------------------------------------------------

TEST(TokenizerJson, CharactersWithoutATokenBecomeBytes) {
  const BpeTokenizer tokenizer = characters().read();
  constexpr int kMark = 259;
  EXPECT_EQ(tokenizer.encode("the the"), (Ids{265, 265}));
  EXPECT_EQ(tokenizer.encode("the \xc3\xa9"), (Ids{265, kMark, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer.encode("  the\xff"), (Ids{kMark, kMark, 265, 3 + 0xFF}));
  EXPECT_EQ(tokenizer.encode("<s>the</s>"), (Ids{1, 265, 2}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode_continued(" the"), (Ids{265}));
  EXPECT_EQ(tokenizer.encode_continued("the"), (Ids{260, 263}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("the \xc3\xa9\n")), "the \xc3\xa9\n");
  EXPECT_EQ(tokenizer.end_of_text(), 2);
  EXPECT_FALSE(tokenizer.keeps_text());
}

TEST(TokenizerJson, MergesAcrossWordsAreMade) {
  TokenizerParts parts = characters();
  parts.vocab += R"(, "e▁": 266, "he▁t": 267)";
  parts.merges = R"(["e ▁", "h e", "▁ t", "he ▁t"])";
  const BpeTokenizer tokenizer = parts.read();
  // "▁the▁the": "e▁" is merged before all others.
  EXPECT_EQ(tokenizer.encode("the the"), (Ids{264, 261, 266, 260, 263}));
}

TEST(TokenizerJson, UnknownCharactersAreFusedOrNot) {
  TokenizerParts parts = characters();
  parts.model = R"("unk_token": "<unk>", "fuse_unk": true, "byte_fallback": false, )";
  EXPECT_EQ(parts.read().encode("the \xc3\xa9\xc3\xbc the"), (Ids{265, 259, 0, 265}));
  parts.model = R"("unk_token": "<unk>", "fuse_unk": false, )";
  EXPECT_EQ(parts.read().encode("the \xc3\xa9\xc3\xbc"), (Ids{265, 259, 0, 0}));
}

TEST(TokenizerJson, MetaspaceMarksTheBeginOfATextOrOfEachPart) {
  TokenizerParts parts = characters();
  parts.normalizer = "null";
  const auto encode = [&](const std::string& members, const std::string& text) {
    parts.pre_tokenizer = metaspace(members);
    return parts.read().encode(text);
  };
  EXPECT_EQ(encode(R"("prepend_scheme": "first", "split": false)", "the<s>the"), (Ids{265, 1, 260, 263}));
  EXPECT_EQ(encode(R"("prepend_scheme": "first")", "<s>the"), (Ids{1, 260, 263}));
  EXPECT_EQ(encode(R"("prepend_scheme": "always", "split": true)", "<s>the the"), (Ids{1, 265, 265}));
  EXPECT_EQ(encode(R"("add_prefix_space": true)", " the"), (Ids{265})) << "the text has a mark already";
  EXPECT_EQ(encode(R"("prepend_scheme": "never")", "the the"), (Ids{260, 263, 265}));
}

// ---- errors -------------------------------------------------------------------------------------------------------------

TEST(TokenizerJson, StepsThatAreNotSupportedAreNamed) {
  const auto with = [](std::string TokenizerParts::*part, const std::string& json) {
    TokenizerParts parts = byte_level();
    parts.*part = json;
    return parts.error();
  };
  EXPECT_EQ(with(&TokenizerParts::normalizer, R"({"type": "Lowercase"})"),
            "t.json: normalizer: Lowercase is not supported; NFC, Prepend, Replace and Sequence are");
  EXPECT_EQ(with(&TokenizerParts::normalizer, R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"})"),
            "t.json: normalizer: Replace needs the pattern of a String that is not empty, got {\"Regex\":\"a\"}");
  EXPECT_EQ(with(&TokenizerParts::pre_tokenizer, R"({"type": "Whitespace"})"),
            "t.json: pre_tokenizer: Whitespace is not supported; ByteLevel, Split, Digits, Metaspace and Sequence are");
  EXPECT_EQ(with(&TokenizerParts::pre_tokenizer, R"({"type": "ByteLevel", "add_prefix_space": true})"),
            "t.json: pre_tokenizer: ByteLevel with add_prefix_space true is not supported; it must be false");
  EXPECT_EQ(
      with(&TokenizerParts::pre_tokenizer,
           R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "MergedWithNext"})"),
      "t.json: pre_tokenizer: Split needs the behavior Isolated, or Removed with invert true, got MergedWithNext");
  EXPECT_EQ(
      with(&TokenizerParts::pre_tokenizer, R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"})"),
      "t.json: pre_tokenizer: the splitting pattern \"(a\" is wrong at character 2: missing closing parenthesis");
  EXPECT_EQ(with(&TokenizerParts::pre_tokenizer, "null"),
            "t.json: without the pre_tokenizer ByteLevel, model needs byte_fallback true or an unk_token");
  EXPECT_EQ(
      with(&TokenizerParts::post_processor, R"({"type": "RobertaProcessing"})"),
      "t.json: post_processor: RobertaProcessing is not supported; ByteLevel, TemplateProcessing and Sequence are");
  EXPECT_EQ(with(&TokenizerParts::model, R"("dropout": 0.1, )"), "t.json: model.dropout must be null, got 0.1");
  EXPECT_EQ(with(&TokenizerParts::model, R"("end_of_word_suffix": "</w>", )"),
            "t.json: model.end_of_word_suffix is not supported; it must be null");
  EXPECT_EQ(with(&TokenizerParts::added, "[" + added_token("x", 5, R"(, "single_word": true)") + "]"),
            "t.json: added token \"x\": single_word true is not supported");
}

}  // namespace
}  // namespace tessera::data
