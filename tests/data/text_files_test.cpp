// SPDX-License-Identifier: Apache-2.0
// Texts, JSON Lines and folders, what is refused in their place, and the tokens of their documents.
#include "tessera/data/text_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/document_tokens.h"
#include "tessera/data/text_dataset.h"
#include "tessera/data/token_file.h"
#include "tessera/data/tsv.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

TEST(TextFiles, PartsOfALongTextGiveTheTokensOfTheText) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < (std::size_t{9} << 20); ++i)
    text += i % 7 == 0   ? "  it's \n\n 12 caf\xc3\xa9.\xe3\x80\x82\n"
            : i % 5 == 0 ? "\xe2\x80\x83 \xff\xfe x\t\n"
                         : "don't stop ";
  write_file(folder.file("long.txt"), text);
  const auto tokenizer = BpeTokenizer::train(text.substr(0, 4000), 300);
  Ids tokens;
  int parts = 0;
  read_documents({folder.file("long.txt"), false}, "text", [&](std::string_view part, bool ends) {
    const Ids more = tokenizer.encode(part);
    tokens.insert(tokens.end(), more.begin(), more.end());
    ++parts;
    EXPECT_EQ(ends, parts == 4);
  });
  EXPECT_EQ(parts, 4);
  EXPECT_EQ(tokens, tokenizer.encode(text));
}

TEST(TextFiles, FoldersAndLines) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("b"));
  write_file(folder.file("b/z.txt"), "last");
  write_file(folder.file("a.jsonl"), "{\"text\": \"one\"}\n\n{\"text\": \"two\\n\"}");
  write_file(folder.file("readme.md"), "no");
  std::vector<std::string> documents(1);
  for (const auto& input : find_texts({folder.file("")}))
    read_documents(input, "text", [&](std::string_view part, bool ends) {
      documents.back() += part;
      if (ends) documents.emplace_back();
    });
  EXPECT_EQ(documents, (std::vector<std::string>{"one", "two\n", "last", ""}));
  write_file(folder.file("bad.jsonl"), "{\"text\": \"one\"}\n{\"txt\": 1}\n");
  const TextInput bad{folder.file("bad.jsonl"), true};
  const auto ignore = [](std::string_view, bool) {};
  EXPECT_EQ(error_of([&] { read_documents(bad, "text", ignore); }),
            bad.path + ", line 2: has no key \"text\"; did you mean \"txt\"?");
  EXPECT_NE(error_of([&] { find_texts({folder.file("nothing")}); }).find("No such file"), std::string::npos);
  std::filesystem::create_directory(folder.file("empty"));
  EXPECT_EQ(error_of([&] { find_texts({folder.file("empty")}); }),
            "the folder " + folder.file("empty") + " has no file *.txt or *.jsonl");
}

TEST(TextFiles, JsonLinesMayHaveEitherSuffix) {
  const TemporaryFolder folder;
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"\"}\n{\"text\": \"two\"}\n";
  const std::vector<std::string> expected = {"one", "two"};
  for (const char* name : {"a.jsonl", "a.json"})
    EXPECT_EQ(read_all_documents(find_texts({folder.write(name, lines)}), "text"), expected) << name;
  EXPECT_EQ(read_all_documents(find_texts({folder.write("a.txt", lines)}), "text"), std::vector<std::string>{lines});
  const std::string list = folder.write("list.json", "[\n{\"text\": \"one\"}]\n");
  const std::string error = error_of([&] { (void)read_all_documents(find_texts({list}), "text"); });
  EXPECT_TRUE(error.starts_with(list + ", line 1: not JSON at column 2: ")) << error;
  EXPECT_TRUE(error.ends_with("\n  a .json file must have one object on each line, as a .jsonl file")) << error;
}

TEST(TextFiles, WhatIsNoTextIsRefusedWithAdvice) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, std::string_view content) {
    const std::string path = folder.write(name, content);
    const std::string error = error_of([&] { (void)read_text_file(path); });
    EXPECT_EQ(error_of([&] { (void)read_all_documents({{path, false}}, "text"); }), error);
    EXPECT_TRUE(error.starts_with(path + ": is ")) << error;
    return error.substr(std::min(error.size(), path.size() + 2));
  };
  EXPECT_EQ(refused("t.txt.gz", "\x1f\x8b\x08 and so on"),
            "is compressed by gzip, not a text; `gunzip FILE` makes a text of it");
  EXPECT_EQ(refused("t.zip", "PK\x03\x04 and so on"), "is a zip archive, not a text; `unzip FILE` extracts its texts");
  EXPECT_EQ(refused("t.zst", "\x28\xb5\x2f\xfd and so on"),
            "is compressed by zstd, not a text; `zstd -d FILE` makes a text of it");
  EXPECT_EQ(refused("t.xz",
                    "\xfd"
                    "7zXZ and so on"),
            "is compressed by xz, not a text; `xz -d FILE` makes a text of it");
  EXPECT_EQ(refused("t.txt", "PAR1 and so on"),
            "is a Parquet file, not a text; write its texts as JSON Lines (.jsonl), each as {\"text\": \"…\"}");
  EXPECT_EQ(refused("t.tokens", "tsrtoken and so on"),
            "is a token file, not a text; give the text from which it was made; only run_clm reads token files");
  EXPECT_EQ(read_text_file(folder.write("good.txt", "PK, PAR and tsr are letters")), "PK, PAR and tsr are letters");
}

TEST(TextFiles, TablesAreRefusedByTheirSuffix) {
  const TemporaryFolder folder;
  for (const char* name : {"a.csv", "a.TSV"}) {
    const std::string path = folder.write(name, "text\none\n");
    const std::string expected = path +
                                 ": a table, not a text; write its texts as JSON Lines (.jsonl), each as {\"text\": "
                                 "\"…\"}; to read the table as one text, give it the suffix .txt";
    EXPECT_EQ(error_of([&] { (void)find_texts({path}); }), expected);
    EXPECT_EQ(error_of([&] { (void)read_text_file(path); }), expected);
  }
}

// Not only --train_file is a place where a text is read.
TEST(TextFiles, TokenFilesAreRefusedInThePlaceOfOtherTexts) {
  const TemporaryFolder folder;
  const std::string why = ": is a token file, not a text; ";
  const std::string table = folder.write("t.tsv", "tsrtoken");
  EXPECT_NE(error_of([&] { (void)read_tsv(table); }).find(table + why), std::string::npos);
  const std::string raw = folder.write("wiki.train.raw", "tsrtoken");
  EXPECT_NE(error_of([&] { (void)read_wikitext(folder.path()); }).find(raw + why), std::string::npos);
}

TEST(DocumentTokens, AreThoseOfATokenFile) {
  const TemporaryFolder folder;
  (void)folder.write("in/a.jsonl", "{\"text\": \"the cat sat\"}\n{\"text\": \"\"}\n{\"text\": \"on the mat\"}\n");
  (void)folder.write("in/b.txt", "the end of the cat");
  const auto inputs = find_texts({folder.file("in")});
  EXPECT_EQ(beginning_of_documents(inputs, "text"), "the cat saton the matthe end of the cat");
  const auto tokenizer = BpeTokenizer::train(beginning_of_documents(inputs, "text"), 265);
  const std::string path = folder.file("a.tokens");
  TokenFileWriter writer(path, tokenizer);
  tokenize_documents(inputs, "text", tokenizer,
                     {.tokens = [&](std::span<const std::int32_t> ids) { writer.append(ids); },
                      .end = [&](std::int64_t text_bytes) { writer.end_document(text_bytes); }});
  writer.finish();
  const TokenFile file = TokenFile::open(path);
  EXPECT_EQ(file.info().documents, 4);
  EXPECT_EQ(file.info().text_bytes, 11 + 10 + 18);
  Ids written(static_cast<std::size_t>(file.info().tokens));
  file.read(0, written);
  EXPECT_EQ(tokens_of_documents(inputs, "text", tokenizer), written);
  EXPECT_EQ(tokenizer.decode(written),
            "the cat sat<|endoftext|><|endoftext|>on the mat<|endoftext|>the end of the cat<|endoftext|>");
}

}  // namespace
}  // namespace tessera::data
