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

constexpr const char* kNamedBy = "; --text_column_name (of tessera tokenize: --text-column) names that of the text";

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
  read_documents({folder.file("long.txt")}, "text", [&](std::string_view part, bool ends) {
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
  const TextInput bad{folder.file("bad.jsonl"), TextForm::kJsonLines};
  const auto ignore = [](std::string_view, bool) {};
  EXPECT_EQ(error_of([&] { read_documents(bad, "text", ignore); }),
            bad.path + ", line 2: has no column \"text\"; the columns are txt" + kNamedBy);
  EXPECT_NE(error_of([&] { find_texts({folder.file("nothing")}); }).find("No such file"), std::string::npos);
  std::filesystem::create_directory(folder.file("empty"));
  EXPECT_EQ(error_of([&] { find_texts({folder.file("empty")}); }),
            "the folder " + folder.file("empty") + " has no file *.txt or *.jsonl");
}

TEST(TextFiles, FilesOfAFolderThatAreNotReadAreCountedBySuffix) {
  const TemporaryFolder folder;
  (void)folder.write("in/a.txt", "one");
  for (const char* name : {"in/.hidden", "in/.git/config"}) (void)folder.write(name, "no");
  const std::string in = folder.file("in");
  EXPECT_EQ(skipped_files_text(in), "");
  EXPECT_EQ(skipped_files_text(folder.file("in/a.txt")), "") << "a file";
  EXPECT_EQ(skipped_files_text(""), "");
  (void)folder.write("in/readme.md", "no");
  const std::string what = "; a folder stands for its files *.txt and *.jsonl";
  EXPECT_EQ(skipped_files_text(in), "1 of the 2 files in the folder " + in + " is not read: 1 .md" + what);
  for (const char* name : {"in/b/more.MD", "in/b/c/table.csv", "in/LICENSE"}) (void)folder.write(name, "no");
  EXPECT_EQ(skipped_files_text(in),
            "4 of the 5 files in the folder " + in + " are not read: 1 without a suffix, 1 .csv, 2 .md" + what);
  EXPECT_EQ(find_texts({in}).size(), 1U);
  EXPECT_EQ(error_of([&] { (void)find_texts({folder.file("in/b")}); }),
            "the folder " + folder.file("in/b") + " has no file *.txt or *.jsonl; its files are: 1 .csv, 1 .md");
}

TEST(TextFiles, ALinkToNothingInAFolderIsNamed) {
  const TemporaryFolder folder;
  (void)folder.write("in/a.txt", "one");
  const std::string link = folder.file("in/b.txt");
  std::filesystem::create_symlink("/no/such/text", link);
  EXPECT_EQ(skipped_files_text(folder.file("in")), "");
  EXPECT_EQ(error_of([&] { (void)read_all_documents(find_texts({folder.file("in")}), "text"); }),
            "cannot read " + link + ": " + link + " is a symbolic link to /no/such/text, which does not exist");
}

TEST(TextFiles, OtherUnicodeEncodingsAreRefusedWithTheirName) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& content) {
    const std::string path = folder.write(name, content);
    const std::string error = error_of([&] { (void)read_text_file(path); });
    EXPECT_EQ(error_of([&] { (void)read_all_documents({{path}}, "text"); }), error);
    return error.starts_with(path) ? error.substr(path.size()) : error;
  };
  const auto wide = [](std::string_view text, std::size_t width, std::size_t place) {  // of ASCII
    std::string out;
    for (const char c : text) {
      std::string character(width, '\0');
      character[place] = c;
      out += character;
    }
    return out;
  };
  const auto expected = [](const std::string& encoding) {
    return ": is encoded in " + encoding + "; texts must be in UTF-8: `iconv -f " + encoding +
           " -t UTF-8 FILE > NEW` converts it";
  };
  EXPECT_EQ(refused("a.txt", "\xff\xfe" + wide("In the", 2, 0)), expected("UTF-16"));
  EXPECT_EQ(refused("b.txt", "\xfe\xff" + wide("In the", 2, 1)), expected("UTF-16"));
  EXPECT_EQ(refused("c.txt", wide("In the", 2, 0)), expected("UTF-16LE"));
  EXPECT_EQ(refused("d.txt", wide("In the", 2, 1)), expected("UTF-16BE"));
  EXPECT_EQ(refused("e.jsonl", "\xff\xfe" + wide("{}", 2, 0)), expected("UTF-16"));
  EXPECT_EQ(refused("f.txt", std::string("\xff\xfe\0\0", 4) + wide("In the", 4, 0)), expected("UTF-32"));
  const std::string table = folder.write("g.tsv", "\xff\xfe" + wide("text\n", 2, 0));
  EXPECT_EQ(error_of([&] { (void)read_tsv(table); }), table + expected("UTF-16"));
}

TEST(TextFiles, SuffixesInAFolderMayBeInUpperCase) {
  const TemporaryFolder folder;
  write_file(folder.file("A.TXT"), "one");
  write_file(folder.file("B.JsonL"), "\xef\xbb\xbf{\"text\": \"two\"}\r\n");
  EXPECT_EQ(read_all_documents(find_texts({folder.file("")}), "text"), (std::vector<std::string>{"one", "two"}));
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
    EXPECT_EQ(error_of([&] { (void)read_all_documents({{path}}, "text"); }), error);
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
  EXPECT_EQ(refused("t.arrow", "ARROW1 and so on"),
            "is an Arrow file, not a text; write its texts as JSON Lines (.jsonl), each as {\"text\": \"…\"}");
  const std::string binary("ab\0c", 4);
  EXPECT_EQ(
      refused("t.weights", binary),
      "is binary (byte 2 is 0), not a text; give a text in UTF-8, JSON Lines (.jsonl) or CSV (.csv); to read it as a "
      "text, give it the suffix .txt");
  EXPECT_EQ(read_text_file(folder.write("zero.txt", binary)), binary);
  EXPECT_EQ(read_text_file(folder.write("good.txt", "PK, PAR and tsr are letters")), "PK, PAR and tsr are letters");
}

TEST(TextFiles, TablesWithTabsAreRefusedByTheirSuffix) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.TSV", "text\none\n");
  const std::string expected = path +
                               ": a table, not a text; write it as CSV (.csv), or its texts as JSON Lines (.jsonl), "
                               "each as {\"text\": \"…\"}; to "
                               "read the table as one text, give it the suffix .txt";
  EXPECT_EQ(error_of([&] { (void)find_texts({path}); }), expected);
  EXPECT_EQ(error_of([&] { (void)read_text_file(path); }), expected);
}

TEST(TextFiles, RowsOfCsvAreDocuments) {
  const TemporaryFolder folder;
  const std::string table =
      "\xef\xbb\xbf"
      "\"id\",text,more\r\n"
      "1,one two,a\r\n"
      "\r\n"
      "2,\"three, \"\"four\"\"\r\nfive\",\r\n"
      "3,,c\n"
      "4,a \"plain\" one,\"\"";
  const auto inputs = find_texts({folder.write("a.CSV", table)});
  EXPECT_EQ(columns_of(inputs.front()), (std::vector<std::string>{"id", "text", "more"}));
  EXPECT_EQ(read_all_documents(inputs, "text"),
            (std::vector<std::string>{"one two", "three, \"four\"\r\nfive", "a \"plain\" one"}));
  EXPECT_EQ(read_all_documents(inputs, "id"), (std::vector<std::string>{"1", "2", "3", "4"}));
  EXPECT_EQ(read_all_documents(inputs, "more"), (std::vector<std::string>{"a", "c"}));
  const auto error = [&](const std::string& content, const std::string& column) {
    const std::string path = folder.write("bad.csv", content);
    const std::string text = error_of([&] { (void)read_all_documents(find_texts({path}), column); });
    EXPECT_TRUE(text.starts_with(path)) << text;
    return text.substr(std::min(text.size(), path.size()));
  };
  EXPECT_EQ(error("id,body\n1,a\n", "text"),
            std::string(": has no column \"text\"; the columns are id, body") + kNamedBy);
  EXPECT_EQ(error("id,id\n1,a\n", "id"), ": has two columns \"id\"");
  EXPECT_EQ(
      error("id,text\n1,\"a\nb\"\n2,c,d\n", "text"),
      ", line 4: has 3 fields, but the first row has 2; a field with commas or line breaks must be between quotation "
      "marks");
  EXPECT_EQ(error("text\n\"a\"b\n", "text"),
            ", line 2: text after the closing quotation mark of a field; a quotation mark in a field is doubled");
  EXPECT_EQ(error("text\na\n\"b\nc\n", "text"), ", line 3: a quotation mark is not closed");
}

// As in Hugging Face's run_clm.
TEST(TextFiles, TheColumnOfTheTextsIsCalledTextOrIsTheFirstOne) {
  const TemporaryFolder folder;
  const std::string with_text = folder.write("a.jsonl", "\n{\"id\": 1, \"text\": \"a\"}\n");
  const std::string without = folder.write("b.json", "{\"content\": \"a\", \"id\": 1}\n{\"text\": \"b\"}\n");
  const std::string csv = folder.write("c.csv", "body,id\na,1\n");
  const std::string text = folder.write("d.txt", "{\"content\": \"a\"}");
  const std::string empty = folder.write("e.jsonl", "\n \n");
  const auto column = [](const std::vector<std::string>& paths) { return default_text_column(find_texts(paths)); };
  EXPECT_EQ(column({with_text, without}), "text");
  EXPECT_EQ(column({without, with_text}), "content") << "the first file decides";
  EXPECT_EQ(column({text, empty, csv}), "body");
  EXPECT_EQ(column({text, empty}), "text");
  const std::string numbers = folder.write("numbers.jsonl", "{\"id\": 7, \"content\": \"a\"}\n");
  const std::string error = error_of([&] { (void)read_all_documents(find_texts({numbers}), column({numbers})); });
  EXPECT_TRUE(error.starts_with(numbers + ", line 1: id must be a string, got 7")) << error;
  EXPECT_TRUE(error.ends_with(std::string("\n  the columns are id, content") + kNamedBy)) << error;
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
