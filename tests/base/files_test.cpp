// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "support/system_limits.h"
#include "support/temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/random_access.h"

namespace tessera {
namespace {

// An opened pipe would block here, or take its content from the reader that follows.
TEST(CheckReadable, DoesNotOpenPipes) {
  const testing::TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  check_readable(pipe);
  EXPECT_EQ(why_unreadable(pipe), "");
}

TEST(CheckReadable, NamesTheReason) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(why_unreadable(folder.file("text")), "cannot read " + folder.file("text") + ": No such file or directory");
  EXPECT_EQ(why_unreadable(folder.file(".")), "cannot read " + folder.file(".") + ": Is a directory");
  EXPECT_THROW(check_readable(folder.file("text")), Error);
}

TEST(CheckReadable, NamesALinkToNothing) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_symlink("gone/text", folder.file("link"));
  std::filesystem::create_symlink("link", folder.file("second"));
  std::filesystem::create_symlink("/no/such/model", folder.file("model"));
  const auto expected = [&](const std::string& path, const std::string& link, const std::string& target) {
    return "cannot read " + folder.file(path) + ": " + folder.file(link) + " is a symbolic link to " + target +
           ", which does not exist";
  };
  EXPECT_EQ(why_unreadable(folder.file("link")), expected("link", "link", folder.file("gone/text")));
  EXPECT_EQ(why_unreadable(folder.file("second")), expected("second", "second", folder.file("gone/text")));
  const std::string config = expected("model/config.json", "model", "/no/such/model");
  EXPECT_EQ(why_unreadable(folder.file("model/config.json")), config);
  EXPECT_EQ(testing::error_of([&] { (void)read_file(folder.file("model/config.json")); }), config);
  EXPECT_EQ(testing::error_of([&] { (void)InputFile(folder.file("model/config.json")); }), config);
  EXPECT_TRUE(is_there(folder.file("link")) && is_there(folder.path()));
  EXPECT_FALSE(is_there(folder.file("other")) || is_there(folder.file("model/config.json")) || is_there(""));
  EXPECT_EQ(dangling_link_text(folder.file("other")) + dangling_link_text(folder.path()) + dangling_link_text(""), "");
}

TEST(InputFiles, SamplesDifferIfOneOfTheirBlocksDoes) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("data");
  std::string content(10'007, 'a');
  const auto hash = [&](std::uint64_t begin, std::uint64_t size, SampleBlocks blocks) {
    write_file(path, content);
    return hash_of_samples(InputFile(path), begin, size, blocks);
  };
  constexpr SampleBlocks kFour{.count = 4, .bytes = 100};
  const auto before = hash(7, 10'000, kFour);
  EXPECT_NE(before, hash(7, 9'999, kFour));
  for (const std::size_t place : {7U, 3'307U + 99U, 6'607U, 10'006U}) {  // in the blocks at 0, 3300, 6600 and 9900
    content[place] = 'b';
    EXPECT_NE(hash(7, 10'000, kFour), before) << place;
    content[place] = 'a';
  }
  for (const std::size_t place : {6U, 200U, 9'000U}) {
    content[place] = 'b';
    EXPECT_EQ(hash(7, 10'000, kFour), before) << place;
    content[place] = 'a';
  }
  // A source of at most four blocks is read completely.
  for (const std::uint64_t size : {0U, 1U, 99U, 100U, 101U, 399U, 400U}) {
    const auto same = hash(0, size, kFour);
    for (std::uint64_t place = 0; place < size; ++place) {
      content[place] = 'b';
      ASSERT_NE(hash(0, size, kFour), same) << size << " " << place;
      content[place] = 'a';
    }
  }
}

TEST(CommitRename, ReplacesAFolderButNotOneThatContainsTheNewOne) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"new", "old", "old/.partial"}) make_folder(folder.file(name));
  write_file(folder.file("new/a"), "new");
  write_file(folder.file("old/a"), "old");
  EXPECT_THROW(commit_rename(folder.file("old/.partial"), folder.file("old/")), Error);
  EXPECT_EQ(read_file(folder.file("old/a")), "old");
  commit_rename(folder.file("new"), folder.file("old"));
  EXPECT_EQ(read_file(folder.file("old/a")), "new");
  EXPECT_NE(why_unreadable(folder.file("new/a")), "");
}

TEST(OutputFiles, ANewFileReplacesNothingAndOtherErrorsAreNamed) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("new");
  EXPECT_TRUE(create_new_file(path));
  EXPECT_EQ(read_file(path), "");
  write_file(path, "mine");
  EXPECT_FALSE(create_new_file(path));
  EXPECT_FALSE(create_new_file(folder.path()));
  EXPECT_EQ(read_file(path), "mine");
  EXPECT_EQ(testing::error_of([&] { (void)create_new_file(path + "/in_a_file"); }),
            "cannot write " + path + "/in_a_file: Not a directory");
}

// A pipe without a writer would block here.
TEST(OutputFiles, SymbolicLinksStayAndTheirTargetsAreReplaced) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("real"));
  std::filesystem::create_symlink("real/target", folder.file("link"));
  std::filesystem::create_symlink(folder.file("link"), folder.file("link to a link"));
  check_writable(folder.file("link"));
  for (const char* content : {"new", "newer"}) {
    write_file(folder.file("link to a link"), content);
    EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
    EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link to a link")));
    EXPECT_FALSE(std::filesystem::is_symlink(folder.file("real/target")));
    EXPECT_EQ(read_file(folder.file("real/target")), content);
  }
  EXPECT_EQ(target_of_links(folder.file("none")), folder.file("none"));
  EXPECT_TRUE(is_stream("/dev/stdout"));
}

TEST(InputFiles, APipeIsNotARegularFile) {
  const testing::TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(testing::error_of([&] { InputFile(std::string(pipe)); }),
            "cannot read " + pipe + ": it is not a regular file");
}

TEST(InputFiles, MoreFilesThanTheSoftLimitCanBeOpen) {
  const testing::TemporaryFolder folder;
  write_file(folder.file("x"), "x");
  constexpr int kFiles = 150;
  const testing::LoweredLimit limit(RLIMIT_NOFILE, 100);
  std::vector<std::unique_ptr<InputFile>> files;
  for (int i = 0; i < kFiles; ++i) files.push_back(std::make_unique<InputFile>(folder.file("x")));
  EXPECT_EQ(files.back()->size(), 1U);
}

}  // namespace
}  // namespace tessera
