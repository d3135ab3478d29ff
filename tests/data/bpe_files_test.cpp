// SPDX-License-Identifier: Apache-2.0
// Vocabulary files: each format gives the same ids, each mistake gives one clear error, and damage causes no crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "support/temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/tokenizer.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

// "Ġ" is the space. Ids: 256 "Ġt", 257 "he", 258 "Ġthe", 259 end of text.
constexpr char kMerges[] = "#version: 0.2\nĠ t\nh e\nĠt he\n";

// The same vocabulary in Hugging Face's formats, with bytes in GPT-2's order.
std::string vocab_json() {
  std::string out = "{";
  int id = 0;
  const auto add = [&](std::uint32_t code) {
    std::string token;
    if (code < 0x80) {
      if (code == '"' || code == '\\') token += '\\';
      token += static_cast<char>(code);
    } else {
      token += static_cast<char>(0xC0U | (code >> 6));
      token += static_cast<char>(0x80U | (code & 0x3FU));
    }
    out += "\"" + token + "\": " + std::to_string(id++) + ", ";
  };
  const auto printable = [](std::uint32_t b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    if (printable(byte)) add(byte);
  std::uint32_t substitute = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    if (!printable(byte)) add(substitute++);
  return out + "\"Ġt\": 256, \"he\": 257, \"Ġthe\": 258, \"<|endoftext|>\": 259}";
}

std::string tokenizer_json(const std::string& merges = "[\"Ġ t\", [\"h\", \"e\"], \"Ġt he\"]") {
  std::string vocab = vocab_json();
  vocab.replace(vocab.find(", \"<|endoftext|>\""), std::string::npos, "}");
  return "{\"added_tokens\": [{\"id\": 259, \"content\": \"<|endoftext|>\", \"special\": true}], \"normalizer\": null, "
         "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
         "\"model\": {\"type\": \"BPE\", \"vocab\": " +
         vocab + ", \"merges\": " + merges + "}}";
}

TEST(BpeFiles, MayBeginWithAByteOrderMark) {
  const std::string mark = "\xef\xbb\xbf";
  const std::string text = "the heat of the mesh";
  const Ids expected = BpeTokenizer::from_merges(kMerges, "m").encode(text);
  EXPECT_EQ(BpeTokenizer::from_merges(mark + kMerges, "m").encode(text), expected);
  EXPECT_EQ(BpeTokenizer::from_merges(mark + "Ġ t\nh e\nĠt he\n", "m").encode(text), expected) << "without #version";
  EXPECT_EQ(BpeTokenizer::from_vocab_and_merges(mark + vocab_json(), mark + kMerges, "m").encode(text), expected);
}

TEST(BpeFiles, ALinkToNothingIsNamed) {
  const TemporaryFolder folder;
  (void)folder.write("merges.txt", kMerges);
  const std::string link = folder.file("tokenizer.json");
  std::filesystem::create_symlink("/no/such", link);
  EXPECT_EQ(error_of([&] { (void)make_tokenizer(folder.path(), ""); }),
            "cannot read " + link + ": " + link + " is a symbolic link to /no/such, which does not exist");
}

TEST(BpeFiles, EveryFormGivesTheSameIds) {
  const TemporaryFolder folder;
  const auto merges = make_tokenizer(folder.write("vocab.bpe", kMerges), "");
  const auto json = make_tokenizer(folder.write("a/tokenizer.json", tokenizer_json()), "");
  (void)folder.write("b/vocab.json", vocab_json());
  const auto pair = make_tokenizer(folder.write("b/merges.txt", kMerges), "");
  const auto inside = make_tokenizer(folder.file("b"), "");
  // "then the" = t he n | Ġthe: the pieces are "then" and " the"; '!' has id 0, so 't' has id 't' - '!'.
  const Ids wanted = {'t' - '!', 257, 'n' - '!', 258, 259};
  for (const auto* tokenizer : {merges.get(), json.get(), pair.get(), inside.get()}) {
    EXPECT_EQ(tokenizer->encode("then the<|endoftext|>"), wanted) << tokenizer->name();
    EXPECT_EQ(tokenizer->vocab_size(), 260);
    EXPECT_EQ(tokenizer->end_of_text(), 259);
    EXPECT_EQ(tokenizer->decode(wanted), "then the<|endoftext|>");
  }
}

TEST(BpeFiles, ATrainedVocabularyIsReadBackFromItsMerges) {
  const std::string text = "the lowest of the low, the newest of the new; they wrote the\n\n  rest themselves";
  const auto trained = BpeTokenizer::train(text, 280);
  const auto again = BpeTokenizer::from_merges(trained.merges_text(), "again");
  EXPECT_EQ(again.encode(text), trained.encode(text));
  EXPECT_EQ(again.vocab_size(), trained.vocab_size());
  EXPECT_LT(trained.encode(text).size(), text.size());
}

TEST(BpeFiles, MalformedMergesAreNamedByLine) {
  EXPECT_EQ(error_of([] { BpeTokenizer::from_merges("#version: 0.2\nĠ t\nbroken\n", "v.bpe"); }),
            "v.bpe:3: a merge is two tokens with a blank between them, got \"broken\"");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_merges("a b c\n", "v.bpe"); }),
            "v.bpe:1: a merge is two tokens with a blank between them, got \"a b c\"");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_merges("#version: 0.2\n", "v.bpe"); }), "v.bpe: contains no merges");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_merges("a bc\n", "v.bpe"); }),
            "v.bpe: a merge names \"bc\", which is not a token");
}

TEST(BpeFiles, MalformedVocabulariesGiveErrorsThatNameTheFault) {
  EXPECT_EQ(error_of([] { BpeTokenizer::from_tokenizer_json("{}", "t.json"); }), "t.json: has no model");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_tokenizer_json("{\"model\": {\"type\": \"WordPiece\"}}", "t.json"); }),
            "t.json: model.type must be BPE, got \"WordPiece\"");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_tokenizer_json("{\"model\": {}}", "t.json"); }),
            "t.json: model must have vocab and merges");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_tokenizer_json(tokenizer_json("[[1, 2]]"), "t.json"); }),
            "t.json: merge 0 is neither a string nor a pair of strings");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_vocab_and_merges("{\"a\": -1}", "a b", "v.json"); }),
            "v.json: token \"a\" has no valid id");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_vocab_and_merges("{\"a\": 7}", "a b", "v.json"); }),
            "v.json: token \"a\" has id 7, but there are 1 tokens: ids must be 0..0");
  EXPECT_EQ(error_of([] { BpeTokenizer::from_vocab_and_merges("{\"a\": 0, \"b\": 1}", "a b", "v.json"); }),
            "v.json: a merge names \"Ā\", which is not a token");
}

// Removes, changes and repeats bytes of a valid file. The file must be read, or refused with an Error that names it.
TEST(BpeFiles, DamagedFilesAreReadOrRefusedByName) {
  std::mt19937 random(3);
  const std::vector<std::string> good = {kMerges, tokenizer_json()};
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    const bool is_json = round % 2 == 1;
    std::string text = good[is_json ? 1 : 0];
    for (auto edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const std::size_t i = random() % text.size();
      switch (random() % 4) {
        case 0: text[i] = static_cast<char>(random() % 256); break;
        case 1: text.erase(i, 1 + random() % 20); break;
        case 2: text.insert(i, text.substr(i, random() % 20)); break;
        default: text.resize(i); break;
      }
    }
    try {
      const auto tokenizer =
          is_json ? BpeTokenizer::from_tokenizer_json(text, "damaged") : BpeTokenizer::from_merges(text, "damaged");
      EXPECT_EQ(tokenizer.decode(tokenizer.encode("then the")), "then the");
    } catch (const InternalError& error) {
      FAIL() << error.what();
    } catch (const Error& error) {
      ++refused;
      const std::string_view what = error.what();
      EXPECT_TRUE(what.starts_with("damaged:") || what.starts_with("token ")) << what;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tessera::data
