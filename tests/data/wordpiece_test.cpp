// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/wordpiece_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/temporary_folder.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Pieces = std::vector<std::string>;

const std::string kPieces =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\nhouse\n,\n!\n$\nun\n##aff\n##able\ncafe\n中\n文\ni\n##i\nÉ\nThe\n";

WordPieceTokenizer tokenizer(WordPieceOptions options = {}) {
  return WordPieceTokenizer::from_vocab(kPieces, "vocab.txt", std::move(options));
}

Pieces pieces(const WordPieceTokenizer& t, const std::vector<std::int32_t>& ids) {
  Pieces out;
  for (const std::int32_t id : ids) out.push_back(t.piece(id));
  return out;
}
Pieces pieces(std::string_view text, WordPieceOptions options = {}) {
  const WordPieceTokenizer t = tokenizer(std::move(options));
  return pieces(t, t.encode(text));
}

TEST(WordPiece, TheFileMayBeginWithAByteOrderMark) {
  const auto marked = WordPieceTokenizer::from_vocab("\xef\xbb\xbf" + kPieces, "vocab.txt");
  EXPECT_EQ(marked.encode("the houses"), tokenizer().encode("the houses"));
  EXPECT_EQ(marked.piece(0), "[PAD]");
}

TEST(WordPiece, TakesTheLongestPieceOfEachWord) {
  EXPECT_EQ(pieces("the houses"), (Pieces{"the", "house", "##s"}));
  EXPECT_EQ(pieces("unaffable"), (Pieces{"un", "##aff", "##able"}));
  EXPECT_EQ(pieces("unaffablex the"), (Pieces{"[UNK]", "the"}));  // a word that has no end is unknown as such
  EXPECT_EQ(pieces(""), Pieces());
}

TEST(WordPiece, EachPunctuationMarkIsAWord) {
  EXPECT_EQ(pieces("the,house!!$"), (Pieces{"the", ",", "house", "!", "!", "$"}));
}

TEST(WordPiece, LowersCaseAndStripsAccents) {
  EXPECT_EQ(pieces("THE CAFÉ cafe\xCC\x81"), (Pieces{"the", "cafe", "cafe"}));
  EXPECT_EQ(pieces("The É", {.lower_case = false}), (Pieces{"The", "É"}));
  EXPECT_EQ(pieces("É", {.lower_case = false, .strip_accents = true}), (Pieces{"[UNK]"}));
  EXPECT_EQ(pieces("İi"), (Pieces{"i", "##i"}));
}

TEST(WordPiece, EachChineseCharacterIsAWord) {
  EXPECT_EQ(pieces("the中文house"), (Pieces{"the", "中", "文", "house"}));
  EXPECT_EQ(pieces("中文", {.handle_chinese_chars = false}), (Pieces{"[UNK]"}));
}

TEST(WordPiece, RemovesControlCharactersAndWhatIsNotUtf8) {
  EXPECT_EQ(pieces("th\x01"
                   "e\t\u00a0\u2028house\ufffd\u200b\xff\xc3!"),
            (Pieces{"the", "house", "!"}));
}

TEST(WordPiece, RecognizesSpecialTokensInText) {
  EXPECT_EQ(pieces("the [MASK]s!"), (Pieces{"the", "[MASK]", "[UNK]", "!"}));
  EXPECT_EQ(pieces("[mask]"), (Pieces{"[UNK]", "[UNK]", "[UNK]"}));
}

TEST(WordPiece, AWordOfTooManyCharactersIsUnknown) {
  std::string word = "i";
  for (int n = 1; n < 100; ++n) word += "i";
  EXPECT_EQ(pieces(word).size(), 100U);
  EXPECT_EQ(pieces(word + "i"), (Pieces{"[UNK]"}));
}

TEST(WordPiece, PairsHaveTypesAndSpecialTokens) {
  const WordPieceTokenizer t = tokenizer();
  const TokenizedText pair = t.encode_pair("the house", "the");
  EXPECT_EQ(pieces(t, pair.input_ids), (Pieces{"[CLS]", "the", "house", "[SEP]", "the", "[SEP]"}));
  EXPECT_EQ(pair.token_type_ids, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(t.decode(t.encode("The houses!")), "the houses !");
}

TEST(WordPiece, TruncatesTheLongerTextFirst) {
  const WordPieceTokenizer t = tokenizer();
  const auto lengths = [&](int first, int second, std::int64_t max_length) {
    std::string a, b;
    for (int i = 0; i < first; ++i) a += "the ";
    for (int i = 0; i < second; ++i) b += "the ";
    const TokenizedText pair = t.encode_pair(a, b, {.max_length = max_length});
    EXPECT_LE(pair.input_ids.size(), static_cast<std::size_t>(max_length));
    const auto ones = std::count(pair.token_type_ids.begin(), pair.token_type_ids.end(), 1);
    return std::pair(static_cast<int>(pair.input_ids.size()) - static_cast<int>(ones) - 2, static_cast<int>(ones) - 1);
  };
  EXPECT_EQ(lengths(3, 4, 10), std::pair(3, 4));
  EXPECT_EQ(lengths(2, 9, 10), std::pair(2, 5));
  EXPECT_EQ(lengths(9, 2, 10), std::pair(5, 2));
  EXPECT_EQ(lengths(9, 8, 9), std::pair(3, 3));
  EXPECT_EQ(lengths(8, 8, 10), std::pair(3, 4));
  EXPECT_EQ(lengths(8, 8, 3), std::pair(0, 0));
  EXPECT_EQ(pieces(t, t.encode_text("the the the", {.max_length = 4}).input_ids),
            (Pieces{"[CLS]", "the", "the", "[SEP]"}));
  EXPECT_NE(error_of([&] {
              (void)t.encode_text("the", {.max_length = 1});
            }).find("max_length 1 leaves no room for 2 special tokens"),
            std::string::npos);
}

TEST(WordPiece, ReadsFoldersOfHuggingFace) {
  const TemporaryFolder folder;
  (void)folder.write("vocab.txt", kPieces);
  (void)folder.write(
      "tokenizer_config.json",
      R"({"do_lower_case": false, "strip_accents": null, "mask_token": {"content": "[MASK]", "lstrip": false}})");
  const auto cased = WordPieceTokenizer::from_file(folder.file(""));
  EXPECT_EQ(pieces(cased, cased.encode("The the")), (Pieces{"The", "the"}));
  EXPECT_EQ(cased.vocab_text(), kPieces);
  const std::string json = R"({"added_tokens": [{"id": 0, "content": "[PAD]"}, {"id": 1, "content": "[UNK]"},
      {"id": 2, "content": "[CLS]"}, {"id": 3, "content": "[SEP]"}, {"id": 4, "content": "[MASK]"}],
      "normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null, "handle_chinese_chars": true,
      "clean_text": true}, "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": 100, "vocab": {"the": 5, "##s": 6}}})";
  const auto read = WordPieceTokenizer::from_tokenizer_json(json, "tokenizer.json");
  EXPECT_EQ(pieces(read, read.encode("Thes [MASK]")), (Pieces{"the", "##s", "[MASK]"}));
  // make_tokenizer() finds out which tokenizer a file has.
  EXPECT_EQ(make_tokenizer(folder.file(""), "")->encode("The"), cased.encode("The"));
  const TemporaryFolder other;
  (void)other.write("tokenizer.json", json);
  EXPECT_EQ(make_tokenizer(other.file(""), "")->vocab_size(), 7);
}

TEST(WordPiece, ErrorsNameTheFile) {
  EXPECT_NE(error_of([] {
              WordPieceTokenizer::from_vocab("a\nb\n", "my.txt");
            }).find("my.txt: the special token \"[UNK]\" is missing"),
            std::string::npos);
  EXPECT_NE(error_of([] { WordPieceTokenizer::from_vocab("", "my.txt"); }).find("my.txt: has no pieces"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              WordPieceTokenizer::from_tokenizer_json(R"({"model": {"type": "BPE"}})", "t.json");
            }).find("t.json: model.type must be WordPiece, got BPE"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              WordPieceTokenizer::from_tokenizer_json(
                  R"({"model": {"type": "WordPiece", "vocab": {"a": 1}}, "normalizer": {"type": "BertNormalizer"}})",
                  "t.json");
            }).find("t.json: no piece has the id 0"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::data
