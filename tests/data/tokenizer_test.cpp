// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/tokenizer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "support/temporary_folder.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/split_pattern.h"
#include "tessera/data/wordpiece_tokenizer.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using Ids = std::vector<std::int32_t>;

std::vector<std::string> pretokenized(std::string_view text) {
  std::vector<std::string> out;
  split_like_gpt2(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

std::string random_bytes(std::mt19937& random, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(random() % 256);
  return out;
}

// Returns text that is difficult to split: runs of spaces, contractions, digits, accents, several scripts, invalid
// UTF-8.
std::string random_text(std::mt19937& random, int words) {
  static const std::vector<std::string> kWords = {"the",   " ",  "  ", "\n",   "\t\n",  "don't", "'",
                                                  "we'll", "42", "é",  "日本", "\xFF",  "a",     "ab",
                                                  "aab",   "!?", "€",  "\xC3", "x\r\n", " the"};
  std::string out;
  for (int i = 0; i < words; ++i) out += kWords[random() % kWords.size()];
  return out;
}

TEST(SplitLikeGpt2, KeepsTheSpaceWithTheWordAndSplitsContractions) {
  EXPECT_EQ(pretokenized("I don't know 42 things!"),
            (std::vector<std::string>{"I", " don", "'t", " know", " 42", " things", "!"}));
}

TEST(SplitLikeGpt2, LeavesOneSpaceOfARunToTheNextWord) {
  EXPECT_EQ(pretokenized("a   b\n\nc  "), (std::vector<std::string>{"a", "  ", " b", "\n", "\n", "c", "  "}));
}

TEST(SplitLikeGpt2, RecognizesLettersAndNumbersOfAllScripts) {
  EXPECT_EQ(pretokenized("naïve 日本語٣٤"), (std::vector<std::string>{"naïve", " 日本語", "٣٤"}));
}

TEST(SplitLikeGpt2, MakesPiecesOfInvalidUtf8) {
  // A stray continuation byte, an overlong slash, a surrogate, a code point above the maximum, a truncated sequence.
  EXPECT_EQ(pretokenized("a\x80"
                         "b"),
            (std::vector<std::string>{"a", "\x80", "b"}));
  EXPECT_EQ(pretokenized("a\xC0\xAF"
                         "b"),
            (std::vector<std::string>{"a", "\xC0\xAF", "b"}));
  EXPECT_EQ(pretokenized("\xED\xA0\x80"), (std::vector<std::string>{"\xED\xA0\x80"}));
  EXPECT_EQ(pretokenized("\xF4\x90\x80\x80"), (std::vector<std::string>{"\xF4\x90\x80\x80"}));
  EXPECT_EQ(pretokenized("x\xE2\x82"), (std::vector<std::string>{"x", "\xE2\x82"}));
}

TEST(SplitLikeGpt2, ConcatenatedPiecesAreTheText) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const std::string text = round % 2 == 0 ? random_bytes(random, 301) : random_text(random, 97);
    std::string joined;
    for (const auto& piece : pretokenized(text)) {
      EXPECT_FALSE(piece.empty());
      joined += piece;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(ByteTokenizer, GivesEveryByteItsValue) {
  const ByteTokenizer bytes;
  EXPECT_EQ(bytes.encode(std::string_view("A\0\xFF", 3)), (Ids{65, 0, 255}));
  EXPECT_EQ(bytes.vocab_size(), 256);
  EXPECT_FALSE(bytes.end_of_text().has_value());
  EXPECT_EQ(error_of([&] { (void)bytes.decode(Ids{256}); }), "bytes: id 256 is not in 0..255");
  EXPECT_EQ(error_of([&] { (void)bytes.decode(Ids{-1}); }), "bytes: id -1 is not in 0..255");
}

TEST(Tokenizers, DecodeTheirEncodingOfAnyBytes) {
  std::mt19937 random(11);
  const std::string training = random_text(random, 2000);
  for (const std::string spec : {"bytes", "bpe:257", "bpe:300"}) {
    const auto tokenizer = make_tokenizer(spec, training);
    for (int round = 0; round < 30; ++round) {
      const std::string text = round % 2 == 0 ? random_bytes(random, 257) : random_text(random, 101);
      const auto ids = tokenizer->encode(text);
      for (const auto id : ids) EXPECT_TRUE(id >= 0 && id < tokenizer->vocab_size());
      EXPECT_EQ(tokenizer->decode(ids), text) << spec;
    }
    EXPECT_EQ(tokenizer->encode(""), Ids{});
  }
}

// The definition of training, which counts all pairs again for every merge. The incremental trainer must give the same
// result.
std::vector<std::pair<std::string, std::string>> naive_merges(std::string_view text, int count) {
  std::map<std::string, std::int64_t> counts;
  split_like_gpt2(text, [&](std::string_view piece) { ++counts[std::string(piece)]; });
  // The id of a letter is its position in GPT-2's byte order. The ASCII letters used here have the same order.
  std::map<std::string, int> id_of;
  for (int c = 33; c < 127; ++c) id_of.emplace(std::string(1, static_cast<char>(c)), c - 33);
  std::vector<std::pair<std::vector<std::string>, std::int64_t>> words;
  for (const auto& [piece, n] : counts) {
    std::vector<std::string> letters;
    for (const char c : piece) letters.emplace_back(1, c);
    words.emplace_back(letters, n);
  }
  std::vector<std::pair<std::string, std::string>> merges;
  for (int next = 256; next < 256 + count; ++next) {
    std::map<std::pair<int, int>, std::pair<std::int64_t, std::pair<std::string, std::string>>> pairs;
    for (const auto& [word, n] : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        auto& entry = pairs[{id_of.at(word[i]), id_of.at(word[i + 1])}];
        entry.first += n;
        entry.second = {word[i], word[i + 1]};
      }
    std::int64_t most = 1;
    std::pair<std::string, std::string> best;
    for (const auto& [ids, entry] : pairs)
      if (entry.first > most) std::tie(most, best) = entry;
    if (most < 2) break;
    id_of.emplace(best.first + best.second, next);
    merges.push_back(best);
    for (auto& [word, n] : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i)
        if (word[i] == best.first && word[i + 1] == best.second) {
          word[i] += word[i + 1];
          word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
  }
  return merges;
}

TEST(BpeTraining, AgreesWithCountingAgainForEveryMerge) {
  std::mt19937 random(5);
  std::string text;
  for (int i = 0; i < 400; ++i) {
    // Short words over three letters give many ties and runs of one letter.
    for (auto length = 1 + random() % 7; length > 0; --length) text += static_cast<char>('a' + random() % 3);
    text += '.';
  }
  const auto merges = naive_merges(text, 60);
  std::string wanted = "#version: 0.2\n";
  for (const auto& [left, right] : merges) wanted.append(left).append(" ").append(right).append("\n");
  EXPECT_EQ(BpeTokenizer::train(text, 257 + 60).merges_text(), wanted);
}

TEST(BpeTraining, StopsWhenNoPairOccursTwice) {
  const auto tokenizer = BpeTokenizer::train("abab", 1000);
  // "abab" is one piece: ab is merged, then "ab ab" occurs once.
  EXPECT_EQ(tokenizer.vocab_size(), 258);
  EXPECT_EQ(tokenizer.encode("abab"), (Ids{256, 256}));
  EXPECT_EQ(*tokenizer.end_of_text(), 257);
}

TEST(BpeTraining, KeepsTheMarkBetweenDocumentsOutOfTheCounts) {
  const std::string mark(kEndOfText);
  const auto with_marks = BpeTokenizer::train("low lower" + mark + "lowest slow" + mark, 270);
  EXPECT_EQ(with_marks.merges_text().find("<"), std::string::npos);
}

TEST(BpeTokenizer, EncodesTheMarkAsEndOfText) {
  const auto tokenizer = BpeTokenizer::train("aaaa aaaa", 260);
  const auto ids = tokenizer.encode("a<|endoftext|>b");
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(ids[1], *tokenizer.end_of_text());
  EXPECT_EQ(tokenizer.decode(ids), "a<|endoftext|>b");
}

TEST(BpeTokenizer, MergesALongRunQuicklyAndInOrder) {
  const auto tokenizer = BpeTokenizer::train("aaaa aaaa", 260);  // merges "a a", then "aa aa"
  const auto ids = tokenizer.encode(std::string(100'003, 'a'));
  EXPECT_EQ(ids.size(), 25'002U);
  EXPECT_EQ(tokenizer.decode(ids), std::string(100'003, 'a'));
}

TEST(SameTokenizer, ComparesMeaningsAndNotNames) {
  const auto cats = BpeTokenizer::train("the cat sat on the mat, the cat sat", 262);
  const auto again = BpeTokenizer::from_merges(cats.merges_text(), "vocab.bpe");
  const auto dogs = BpeTokenizer::train("a dog dug, a dog dug, a dog", 262);
  ASSERT_EQ(cats.vocab_size(), dogs.vocab_size());
  EXPECT_TRUE(is_same_tokenizer(cats, again));
  EXPECT_FALSE(is_same_tokenizer(cats, dogs));
  EXPECT_FALSE(is_same_tokenizer(cats, BpeTokenizer::train("the cat sat on the mat, the cat sat", 261)));
  EXPECT_TRUE(is_same_tokenizer(ByteTokenizer(), ByteTokenizer()));
  EXPECT_FALSE(is_same_tokenizer(ByteTokenizer(), cats));
}

TEST(SameTokenizer, ComparesTheRulesOfWordPieces) {
  const std::string pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n";
  const auto lower = WordPieceTokenizer::from_vocab(pieces, "a", {.lower_case = true});
  EXPECT_TRUE(is_same_tokenizer(lower, WordPieceTokenizer::from_vocab(pieces, "b", {.lower_case = true})));
  EXPECT_FALSE(is_same_tokenizer(lower, WordPieceTokenizer::from_vocab(pieces, "a", {.lower_case = false})));
  EXPECT_FALSE(is_same_tokenizer(lower, WordPieceTokenizer::from_vocab("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\nthe\n",
                                                                       "a", {.lower_case = true})));
}

TEST(MakeTokenizer, AFolderWithoutAVocabularyIsAnErrorThatNamesBytes) {
  const ::tessera::testing::TemporaryFolder folder;
  EXPECT_EQ(
      error_of([&] { make_tokenizer(folder.path(), ""); }),
      "no vocabulary in " + folder.path() +
          "; looked for tokenizer.json, merges.txt, vocab.bpe and vocab.txt; a model that was trained on bytes has "
          "none: name its tokenizer, as in --tokenizer_name bytes");
}

TEST(MakeTokenizer, ErrorsListTheFormsOfASpec) {
  EXPECT_EQ(error_of([] { make_tokenizer("bpe:12", ""); }),
            "bpe:12: a byte-level vocabulary has at least 257 ids (256 bytes and the end of text)");
  EXPECT_EQ(error_of([] { make_tokenizer("bpe:1k", ""); }),
            "tokenizer bpe:1k: bpe: must be followed by the number of ids, as in bpe:1024");
  EXPECT_EQ(error_of([] { make_tokenizer("byte", ""); }),
            "tokenizer \"byte\" is neither bytes, nor bpe:N, nor a vocabulary file: cannot read byte: No such file or "
            "directory");
}

}  // namespace
}  // namespace tessera::data
