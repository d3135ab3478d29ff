// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temporary_folder.h"
#include "tessera/base/error.h"

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

}  // namespace
}  // namespace tessera
