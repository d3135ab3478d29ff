// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/files.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/temporary_folder.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

TEST(Files, WritingReplacesTheFileAndLeavesNoTemporaryFile) {
  const TemporaryFolder folder;
  write_file(folder.file("a"), "first, and longer");
  write_file(folder.file("a"), "second");
  EXPECT_EQ(read_file(folder.file("a")), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.file("")), {}), 1);
}

TEST(Files, AppendingAddsToTheEnd) {
  const TemporaryFolder folder;
  append_file(folder.file("a"), "one\n");
  append_file(folder.file("a"), "two\n");
  EXPECT_EQ(read_file(folder.file("a")), "one\ntwo\n");
  EXPECT_EQ(error_of([&] { append_file(folder.file("no/a"), "x"); }),
            "cannot write " + folder.file("no/a") + ": No such file or directory");
}

// As with -o /dev/null: a path that is not a regular file must not be replaced.
TEST(Files, APipeIsWrittenAndNotReplaced) {
  const TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file(path, "through");
  char content[16] = {};
  EXPECT_EQ(::read(reader, content, sizeof content), 7);
  EXPECT_STREQ(content, "through");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

}  // namespace
}  // namespace tessera
