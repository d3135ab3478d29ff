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
