// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/ops/collectives.h"

namespace tessera {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

ReplicaGroups parsed(std::string_view text) {
  ReplicaGroups out;
  parse_field(text, out);
  return out;
}

TEST(ReplicaGroups, ReadListsAndIotas) {
  EXPECT_EQ(parsed("{}").groups, Groups{});
  EXPECT_EQ(parsed("{{0, 2},{3,1}}").groups, (Groups{{0, 2}, {3, 1}}));
  EXPECT_EQ(parsed("[2,3]<=[6]").groups, (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(parsed("[3,2]<=[2,3]T(1,0)").groups, (Groups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(parsed("[2,4]<=[2,2,2]T(1,0,2)").groups, (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(ReplicaGroups, PrintTheShortestIotaIfThereIsOne) {
  const auto text = [](Groups groups) { return field_text(ReplicaGroups{std::move(groups)}); };
  EXPECT_EQ(text({}), "{}");
  EXPECT_EQ(text({{0}}), "[1,1]<=[1]");
  EXPECT_EQ(text({{0, 1, 2}, {3, 4, 5}}), "[2,3]<=[6]");
  EXPECT_EQ(text({{0, 3}, {1, 4}, {2, 5}}), "[3,2]<=[2,3]T(1,0)");
  EXPECT_EQ(text({{0, 1, 4, 5}, {2, 3, 6, 7}}), "[2,4]<=[2,2,2]T(1,0,2)");
  EXPECT_EQ(text({{0, 2}, {3, 1}}), "{{0,2},{3,1}}");
  EXPECT_EQ(text({{1, 0}, {2, 3}}), "{{1,0},{2,3}}");
  EXPECT_EQ(text({{0, 1}, {2}}), "{{0,1},{2}}");
  EXPECT_EQ(text({{2, 3}}), "{{2,3}}");
}

TEST(ReplicaGroups, EveryTransposedIotaReadsBackEqualAndStable) {
  const std::vector<Dims> shapes = {{6}, {2, 3}, {3, 2}, {2, 2, 2}, {2, 3, 5}, {4, 2, 3}};
  for (const Dims& shape : shapes) {
    Dims permutation;
    for (std::int64_t d = 0; d < isize(shape); ++d) permutation.push_back(d);
    do {
      for (const std::int64_t groups : {1, 2, 3, 6}) {
        if (product(shape) % groups != 0) continue;
        const auto first = parsed(fmt::format("[{},{}]<=[{}]T({})", groups, product(shape) / groups,
                                              fmt::join(shape, ","), fmt::join(permutation, ",")));
        const std::string text = field_text(first);
        EXPECT_EQ(text[0], '[') << text;
        EXPECT_EQ(parsed(text), first) << text;
        EXPECT_EQ(field_text(parsed(text)), text);
      }
    } while (std::next_permutation(permutation.begin(), permutation.end()));
  }
}

std::string parse_error(std::string_view text) {
  try {
    parsed(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReplicaGroups, ErrorsNameTheFault) {
  EXPECT_EQ(parse_error("{{0,1},{1,2}}"), "device 1 is in two groups");
  EXPECT_EQ(parse_error("[2,4]<=[6]"), "groups [2,4] do not contain exactly the 6 devices of [6]");
  EXPECT_EQ(parse_error("[2,3]<=[2,3]T(0,0)"), "the permutation names dim 0 twice: {0,0}");
  EXPECT_EQ(parse_error("0,1"), "expected lists in braces, got 0,1");
}

TEST(SourceTargetPairs, ReadAndPrint) {
  SourceTargetPairs pairs;
  parse_field("{{0,1},{1, 0}}", pairs);
  EXPECT_EQ(field_text(pairs), "{{0,1},{1,0}}");
  EXPECT_THROW(parse_field("{{0,1},{2,1}}", pairs), Error);
  EXPECT_THROW(parse_field("{{0,1,2}}", pairs), Error);
  EXPECT_THROW(parse_field("{{-1,2}}", pairs), Error);
  EXPECT_THROW(parse_field("{{1,-2}}", pairs), Error);
}

}  // namespace
}  // namespace tessera
