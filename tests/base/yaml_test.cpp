// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/yaml.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace tessera {
namespace {

using testing::error_of;

TEST(Yaml, ScalarsListsAndMappingsBecomeJson) {
  const JsonObject json = parse_yaml(
      "# a comment\nname: 'NO'\nword: no\nyes: true\nnothing:\ncount: 0x\nsteps: -12\nrate: 5e-5\nlist: [a, 2]\n"
      "inner:\n  - key: \"3\"\n    other: .5\n",
      "f.yaml");
  EXPECT_EQ(json.text("name"), "NO");
  EXPECT_EQ(json.text("word"), "no");
  EXPECT_TRUE(json.is_bool("yes"));
  EXPECT_TRUE(json.is_null("nothing"));
  EXPECT_EQ(json.text("count"), "0x");
  EXPECT_EQ(json.text("steps"), "-12");
  double rate = 0;
  EXPECT_TRUE(json.read("rate", rate));
  EXPECT_EQ(rate, 5e-5);
  EXPECT_EQ(json.text("list"), R"(["a",2])");
  std::vector<JsonObject> inner;
  EXPECT_TRUE(json.read("inner", inner));
  EXPECT_EQ(inner.at(0).text("key"), "3");
}

TEST(Yaml, ErrorsNameThePlace) {
  EXPECT_NE(error_of([] { parse_yaml("a: [1, 2\nb: 3\n", "f.yaml"); }).find("f.yaml:2:"), std::string::npos);
  EXPECT_EQ(error_of([] { parse_yaml("- 1\n", "f.yaml"); }), "f.yaml: must be a mapping: lines of the form key: value");
  EXPECT_EQ(error_of([] { parse_yaml("a: 1\na: 2\n", "f.yaml"); }), "f.yaml:2:1: the key a occurs twice");
  EXPECT_EQ(error_of([] { parse_yaml("a: &x [1]\nb: *x\n", "f.yaml"); }),
            "f.yaml:1:4: anchors are not supported; write the value again");
  EXPECT_EQ(error_of([] { parse_yaml("a: 1\n---\nb: 2\n", "f.yaml"); }),
            "f.yaml: must hold one document, but holds several");
}

}  // namespace
}  // namespace tessera
