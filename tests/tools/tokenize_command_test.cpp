// SPDX-License-Identifier: Apache-2.0
// tessera tokenize: text, JSON Lines and folders become a token file.
#include "tessera/base/json_object.h"
#include "tessera/data/token_file.h"
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

TEST_F(TesseraCommand, TokenizeWritesTheTokensOfAllInputs) {
  const std::string text = file("a.txt", "In the beginning");
  const std::string lines = file("b.jsonl", "{\"body\": \"ab\"}\n{\"body\": \"ab ab\"}\n");
  const auto outcome =
      run(fmt::format("tokenize {} {} --tokenizer bpe:258 --text-column body -o {}", text, lines, path("o.tokens")));
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(outcome.out.find(path("o.tokens") + ": 3 documents, "), 0U) << outcome.out;
  const auto read = data::TokenFile::open(path("o.tokens"));
  EXPECT_EQ(read.info().text_bytes, 16 + 2 + 5);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(read.info().tokens));
  read.read(0, ids);
  EXPECT_EQ(read.make_tokenizer()->decode(ids), "In the beginning<|endoftext|>ab<|endoftext|>ab ab<|endoftext|>");

  const auto json = run(fmt::format("tokenize {} --json -o {}", text, path("o.tokens")));
  const auto summary = JsonObject::parse(json.out);
  std::int64_t tokens = 0;
  std::string tokenizer;
  EXPECT_TRUE(summary.read("tokens", tokens) && summary.read("tokenizer", tokenizer));
  EXPECT_EQ(tokens, 16);
  EXPECT_EQ(tokenizer, "bytes");
}

TEST_F(TesseraCommand, TokenizeNamesWhatIsWrong) {
  const std::string lines = file("b.jsonl", "{\"text\": \"ab\"}\n{\"text\": 7}\n");
  const auto wrong = run(fmt::format("tokenize {} -o {}", lines, path("o.tokens")));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.error.find("b.jsonl, line 2: "), std::string::npos) << wrong.error;
  EXPECT_FALSE(fs::exists(path("o.tokens")));
  EXPECT_EQ(run("tokenize " + lines).error,
            "tessera tokenize: -o needs the file to write\ntry `tessera tokenize --help`\n");
  EXPECT_EQ(run("tokenize -o x").code, 2);
  const std::string kept = file("kept.txt", "a text");
  const auto over = run(fmt::format("tokenize {} -o {}", kept, kept));
  EXPECT_EQ(over.code, 2);
  EXPECT_NE(over.error.find(" is also an input, which would be lost; give another name"), std::string::npos)
      << over.error;
  EXPECT_EQ(content(kept), "a text");
  EXPECT_EQ(run("tokenize " + file("none.txt", "") + " -o " + path("none.tokens")).code, 1);
  EXPECT_FALSE(fs::exists(path("none.tokens")));
  EXPECT_NE(run("tokenize /dev/null -o " + path("o.tokens")).error.find("it is not a regular file"), std::string::npos);
  EXPECT_EQ(run("tokenize " + file("long.txt", std::string(9000, 'x')) + " -o " + path("l.tokens")).code, 0);
  EXPECT_NE(run("tokenize " + path("l.tokens") + " -o " + path("m.tokens")).error.find("is a token file already"),
            std::string::npos);
}

TEST_F(TesseraCommand, TokenizeReadsHalvesOfSurrogatePairsAndNamesTheFirstLine) {
  const std::string lines = file("b.jsonl", "{\"text\": \"a\"}\n{\"text\": \"ab\\ud800\"}\n{\"text\": \"\\udc00\"}\n");
  const auto outcome = run(fmt::format("tokenize {} -o {}", lines, path("o.tokens")));
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(outcome.out.find(path("o.tokens") + ": 3 documents, 9 tokens (u16)"), 0U)
      << outcome.out;  // U+FFFD: 3 bytes
  EXPECT_EQ(outcome.error, "warning: " + lines +
                               ", line 2: has half of a surrogate pair, such as \\ud800, which is no character; it is "
                               "read as U+FFFD, here and in other lines\n");
  const std::string wrong = file("c.jsonl", "{\"text\": \"ab\\ud80\"}\n");
  EXPECT_NE(run(fmt::format("tokenize {} -o {}", wrong, path("c.tokens"))).error.find("line 1: not JSON at column"),
            std::string::npos);
}

TEST_F(TesseraCommand, TokenizeReadsATextOnStandardInput) {
  const std::string text = file("a.txt", "In the beginning");
  const auto outcome = run(fmt::format("tokenize - -o {} < {}", path("o.tokens"), text));
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(outcome.out.find(path("o.tokens") + ": 1 document, 16 tokens (u16) of bytes, vocabulary 256\n"), 0U)
      << outcome.out;
  const auto read = data::TokenFile::open(path("o.tokens"));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(read.info().tokens));
  read.read(0, ids);
  EXPECT_EQ(read.make_tokenizer()->decode(ids), "In the beginning");
  const std::string into = " -o " + path("p.tokens") + " < " + text;
  EXPECT_EQ(run("tokenize - --tokenizer bpe:260" + into).error,
            "tessera tokenize: --tokenizer bpe:260 reads the text twice, and standard input (-) can be read only once; "
            "give a file, or the file of a vocabulary\ntry `tessera tokenize --help`\n");
  EXPECT_EQ(run("tokenize - -" + into).code, 2);
  EXPECT_FALSE(fs::exists(path("p.tokens")));
}

TEST_F(TesseraCommand, TokenizeRefusesWhatIsNoText) {
  const auto error = [&](const std::string& input) {
    const auto outcome = run("tokenize " + input + " -o " + path("o.tokens"));
    EXPECT_EQ(outcome.code, 1);
    EXPECT_FALSE(fs::exists(path("o.tokens")));
    return outcome.error;
  };
  const std::string compressed = file("t.txt.gz", "\x1f\x8b\x08 and so on");
  EXPECT_EQ(error(compressed), "tessera tokenize: " + compressed +
                                   ": is compressed by gzip, not a text; `gunzip FILE` makes a text of it\n");
  EXPECT_NE(error("- < " + compressed).find("tokenize: standard input: is compressed by gzip"), std::string::npos);
  EXPECT_NE(error(file("t.tsv", "text\na\n")).find("t.tsv: a table, not a text; "), std::string::npos);
  const std::string bad = file("bad.jsonl", "{\"text\": \"a\"}\n{\"text\" 7}\n");
  EXPECT_EQ(error(bad).find("tessera tokenize: " + bad + ", line 2: not JSON at column 9: "), 0U) << error(bad);
}

TEST_F(TesseraCommand, TokenizeNamesTheFilesOfAFolderThatItDoesNotRead) {
  fs::create_directory(path("in"));
  (void)file("in/a.txt", "a text");
  (void)file("in/b.csv", "text\na\n");
  const auto outcome = run(fmt::format("tokenize {} -o {}", path("in"), path("o.tokens")));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.error, "warning: 1 of the 2 files in the folder " + path("in") +
                               " is not read: 1 .csv; a folder stands for its files *.txt and *.jsonl\n");
}

TEST_F(TesseraCommand, ALimitOfTheSizeOfFilesIsAnError) {
  const std::string text = file("long.txt", std::string(900000, 'x'));
  const auto limited =
      run(fmt::format("tokenize {} -o {}", text, path("o.tokens")), "ulimit -f 100; exec env --default-signal=XFSZ");
  EXPECT_EQ(limited.code, 1);
  EXPECT_NE(limited.error.find("File too large"), std::string::npos) << limited.error;
  for (const auto& entry : fs::directory_iterator(path("")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("o.tokens")) << entry.path();
}

}  // namespace
}  // namespace tessera::command_tests
