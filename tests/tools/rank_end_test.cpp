// SPDX-License-Identifier: Apache-2.0
// The reports of ranks in a stream of text.
#include "launch/rank_end.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tessera::command {
namespace {

RankEnd example() {
  return {3, "node7", 1234, {0, SIGKILL}, false, 1'700'000'000'000'000'123, {"step 5  loss 2.5", "out of \"paper\""}};
}

std::string text_of(const RankEnd& end) {
  std::string out;
  for (const std::string& line : report_lines(end)) out += line;
  return out;
}

TEST(RankReports, AreTakenOutOfTextInPartsOfAnySize) {
  const std::string text = "before\nopen " + text_of(example()) + "after\r50%";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    ReportReader reader;
    std::string rest;
    for (std::size_t i = 0; i < text.size(); i += size) rest += reader.take(std::string_view(text).substr(i, size));
    EXPECT_EQ(rest, "before\nopen after\r50%") << size;
    ASSERT_EQ(reader.ends().size(), 1U) << size;
    const RankEnd& found = reader.ends().at(3);
    EXPECT_EQ(found.host, "node7");
    EXPECT_EQ(found.process, 1234);
    EXPECT_EQ(found.time, example().time);
    EXPECT_EQ(found.str(), "was killed by SIGKILL");
    EXPECT_EQ(found.last_words, example().last_words);
    EXPECT_TRUE(reader.has_started());
  }
}

TEST(RankReports, ARankThatStartedIsKnownWithoutItsEnd) {
  ReportReader reader;
  EXPECT_EQ(reader.take("[warn] no such host\n"), "[warn] no such host\n");
  EXPECT_FALSE(reader.has_started());
  EXPECT_EQ(reader.take("open " + start_report(3) + "after\n"), "open after\n");
  EXPECT_TRUE(reader.has_started());
  EXPECT_TRUE(reader.ends().empty());
}

TEST(RankReports, TextIsPassedOnWithoutWaitingForItsLine) {
  ReportReader reader;
  EXPECT_EQ(reader.take("50%"), "50%");
  EXPECT_EQ(reader.take("\x1e"), "");
  EXPECT_EQ(reader.take("tessera-rank-word 0 a\nb"), "b");
}

TEST(RankReports, DamagedReportsAreIgnored) {
  ReportReader reader;
  for (const char* line : {"\x1e\n", "\x1etessera-rank-end\n", "\x1etessera-rank-end 1 host x 0 9 0 5\n",
                           "\x1etessera-rank-end 99999999999999999999 host 1 0 9 0 5\n", "\x1etessera-rank-word x y\n"})
    EXPECT_EQ(reader.take(line), "");
  EXPECT_EQ(reader.take("\x1e" + std::string(100'000, 'x')), "");
  EXPECT_EQ(reader.take("\nnext"), "\nnext");
  EXPECT_TRUE(reader.ends().empty());
}

TEST(RankReports, LastLinesAreThoseThatATerminalShows) {
  LastLines last;
  for (int i = 0; i < 100; ++i) last.add("line " + std::to_string(i) + "\n\n");
  last.add("10%\r20%\r\x1b[1mdone\nopen");
  const auto lines = last.lines();
  EXPECT_EQ(lines.front(), "line 89");
  EXPECT_EQ(lines[lines.size() - 2], "[1mdone");
  EXPECT_EQ(lines.back(), "open");
  last.add(std::string(1'000'000, 'x') + "\n");
  EXPECT_LT(last.lines().back().size(), 1000U);
}

}  // namespace
}  // namespace tessera::command
