// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/tsv.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;

TEST(Tsv, RowsHaveTheFieldsOfTheHeader) {
  const TsvTable table = parse_tsv("index\tsentence\tlabel\r\n0\tA \"quoted\" text\t1\n\n1\t\t0", "t.tsv");
  EXPECT_EQ(table.columns, (std::vector<std::string>{"index", "sentence", "label"}));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0][1], "A \"quoted\" text");
  EXPECT_EQ(table.rows[1][1], "");
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{2, 4}));  // line 3 is blank
  EXPECT_EQ(table.find("label"), 2);
  EXPECT_EQ(table.find("labels"), -1);
}

TEST(Tsv, FilesMayLackAHeaderOrFields) {
  const TsvTable table = parse_tsv(
      "\xef\xbb\xbf"
      "1\t2\n3\n4\t5\t6\n",
      "t.tsv", {.columns = {"a", "b"}, .skips_short_rows = true});
  EXPECT_EQ(table.columns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(table.rows, (std::vector<std::vector<std::string>>{{"1", "2"}, {"4", "5"}}));
  EXPECT_EQ(table.skipped, 1);
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{1, 3}));
}

TEST(Tsv, ATableMayBeCsv) {
  const ::tessera::testing::TemporaryFolder folder;
  const TsvTable table = read_table(folder.write("t.csv", "sentence,label\n\"a, b\tc\",1\n\nd,0\n"));
  EXPECT_EQ(table.columns, (std::vector<std::string>{"sentence", "label"}));
  EXPECT_EQ(table.rows, (std::vector<std::vector<std::string>>{{"a, b\tc", "1"}, {"d", "0"}}));
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(read_table(folder.write("t.tsv", "a,b\tlabel\n1,2\t0\n")).columns,
            (std::vector<std::string>{"a,b", "label"}));
  const std::string lines = folder.write("t.json", "{\"sentence\": \"a\", \"label\": 1}\n");
  EXPECT_EQ(
      error_of([&] { (void)read_table(lines); }),
      lines + ": JSON Lines are not read as a table; write it with tabs between the columns (.tsv), or as CSV (.csv)");
  const std::string empty = folder.write("e.csv", "\n");
  EXPECT_EQ(error_of([&] { (void)read_table(empty); }), empty + ": has no header");
}

TEST(Tsv, ErrorsNameTheLine) {
  EXPECT_NE(
      error_of([] { parse_tsv("a\tb\n1\t2\n3\n", "t.tsv"); }).find("t.tsv, line 3: has 1 fields, but the header has 2"),
      std::string::npos);
  EXPECT_NE(error_of([] { parse_tsv("a\ta\n", "t.tsv"); }).find("t.tsv, line 1: a column occurs twice"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_tsv("\n", "t.tsv"); }).find("t.tsv: has no header"), std::string::npos);
}

}  // namespace
}  // namespace tessera::data
