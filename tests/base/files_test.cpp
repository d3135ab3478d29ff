// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

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

// A pipe without a writer would block here.
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
