// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/json_object.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/temporary_folder.h"
#include "tessera/base/rank_context.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

TEST(JsonObject, ReadsTypedValuesAndLeavesAbsentOnesAlone) {
  const auto json =
      JsonObject::parse(R"({"a": 3, "b": 2.5, "c": "x", "d": true, "e": null, "f": ["p", "q"], "g": {"h": 1}})");
  std::int64_t a = 0;
  double b = 0;
  double a_as_double = 0;
  std::string c;
  bool d = false;
  std::optional<double> e = 1;
  std::vector<std::string> f;
  std::vector<std::string> single;
  JsonObject g;
  int absent = 17;
  EXPECT_TRUE(json.read("a", a) && json.read("b", b) && json.read("a", a_as_double) && json.read("c", c));
  EXPECT_TRUE(json.read("d", d) && json.read("e", e) && json.read("f", f) && json.read("c", single) &&
              json.read("g", g));
  EXPECT_FALSE(json.read("z", absent));
  EXPECT_EQ(a, 3);
  EXPECT_EQ(b, 2.5);
  EXPECT_EQ(a_as_double, 3.0);
  EXPECT_EQ(c, "x");
  EXPECT_TRUE(d);
  EXPECT_FALSE(e.has_value());
  EXPECT_EQ(f, (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(single, (std::vector<std::string>{"x"}));
  EXPECT_TRUE(g.has("h"));
  EXPECT_EQ(absent, 17);
}

TEST(JsonObject, ReadsListsOfLists) {
  const auto json = JsonObject::parse(R"({"groups": [[0, 1], []], "flat": [0], "texts": [["a"]]})", "f.json");
  std::vector<std::vector<std::int64_t>> groups;
  EXPECT_TRUE(json.read("groups", groups));
  EXPECT_EQ(groups, (std::vector<std::vector<std::int64_t>>{{0, 1}, {}}));
  EXPECT_FALSE(json.read("absent", groups));
  EXPECT_EQ(error_of([&] { json.read("flat", groups); }), "f.json: flat must be a list of lists of integers, got [0]");
  EXPECT_EQ(error_of([&] { json.read("texts", groups); }),
            "f.json: texts must be a list of lists of integers, got [[\"a\"]]");
}

TEST(JsonObject, ErrorsNameFileKeyAndTheCorrectForm) {
  const auto json =
      JsonObject::parse(R"({"n_layer": "two", "big": 5000000000, "half": 0.5, "list": [1]})", "gpt2.json");
  int n = 0;
  std::string text;
  std::vector<std::string> list;
  JsonObject object;
  EXPECT_EQ(error_of([&] { json.read("n_layer", n); }), "gpt2.json: n_layer must be an integer, got \"two\"");
  EXPECT_EQ(error_of([&] { json.read("half", n); }), "gpt2.json: half must be an integer, got 0.5");
  EXPECT_EQ(error_of([&] { json.read("big", n); }), "gpt2.json: big must fit 32 bits, got 5000000000");
  EXPECT_EQ(error_of([&] { json.read("half", text); }), "gpt2.json: half must be a string, got 0.5");
  EXPECT_EQ(error_of([&] { json.read("list", list); }), "gpt2.json: list must be a list of strings, got [1]");
  EXPECT_EQ(error_of([&] { json.read("list", object); }), "gpt2.json: list must be an object, got [1]");
  EXPECT_EQ(error_of([&] {
              json.require_known({"n_layers", "big", "half", "list"});
            }),
            "gpt2.json: unknown key \"n_layer\"; did you mean \"n_layers\"?");
}

TEST(JsonObject, ErrorsOfMalformedTextHaveLineAndColumn) {
  const std::string text = error_of([] { JsonObject::parse("{\n  \"a\": 1,\n  b\n}", "x.json"); });
  EXPECT_TRUE(text.starts_with("x.json: not JSON at line 3, column 3: ")) << text;
  EXPECT_EQ(error_of([] { JsonObject::parse("[1]", "x.json"); }), "x.json: must hold a JSON object, got [1]");
  EXPECT_TRUE(error_of([] { JsonObject::parse("", "x.json"); }).starts_with("x.json: not JSON at line 1, column 1: "));
}

TEST(JsonObject, AByteOrderMarkIsSkippedAndOtherEncodingsAreNamed) {
  EXPECT_EQ(JsonObject::parse("\xef\xbb\xbf{\"a\": 1}", "x.json").text("a"), "1");
  EXPECT_EQ(JsonObject::parse_line("\xef\xbb\xbf{\"a\": 2}", "").text("a"), "2");
  EXPECT_TRUE(error_of([] {
                JsonObject::parse("\xef\xbb\xbf{\"a\" 1}", "x.json");
              }).starts_with("x.json: not JSON at line 1, column 6: "));
  EXPECT_EQ(error_of([] { JsonObject::parse("{\"a\": \"caf\xe9\"}", "x.json"); }),
            "x.json: not JSON at line 1, column 11: the text is not UTF-8");
}

TEST(JsonObject, ErrorsOfALineHaveTheColumnAfterThePlace) {
  const auto error = [](const char* line) {
    return error_of([&] { JsonObject::parse_line(line, "x.jsonl, line 7"); });
  };
  EXPECT_TRUE(error("{\"a\" 1}").starts_with("x.jsonl, line 7: not JSON at column 6: ")) << error("{\"a\" 1}");
  EXPECT_EQ(error("[1]"), "x.jsonl, line 7: must hold a JSON object, got [1]");
  EXPECT_EQ(JsonObject::parse_line("{\"a\": 1}", "").text("a"), "1");
}

TEST(JsonObject, KeepsUnreadKeysAndOrderWhenSaved) {
  const TemporaryFolder folder;
  auto json =
      JsonObject::parse(R"({"z": 1, "task_specific_params": {"text-generation": {"max_length": 50}}, "a": [1, 2]})");
  json.set("a", 5);
  json.set("new", 0.1);
  json.save(folder.file("out.json"));
  const auto again = JsonObject::from_file(folder.file("out.json"));
  EXPECT_EQ(again.keys(), (std::vector<std::string>{"z", "task_specific_params", "a", "new"}));
  EXPECT_EQ(again.str(), json.str());
  EXPECT_EQ(json.str(),
            "{\n  \"z\": 1,\n  \"task_specific_params\": {\n    \"text-generation\": {\n      \"max_length\": 50\n    "
            "}\n  },\n"
            "  \"a\": 5,\n  \"new\": 0.1\n}\n");
}

TEST(JsonObject, WritesDoublesThatReadBackUnchanged) {
  JsonObject json;
  const std::vector<double> values = {0.1, 1.0 / 3, 2.0801234567890123, 5e-324, 1e300, -0.0, 123456789.0};
  for (std::size_t i = 0; i < values.size(); ++i) json.set("v" + std::to_string(i), values[i]);
  const auto again = JsonObject::parse(json.str());
  for (std::size_t i = 0; i < values.size(); ++i) {
    double value = 7;
    again.read("v" + std::to_string(i), value);
    EXPECT_EQ(value, values[i]);
  }
  JsonObject odd;
  odd.set("nan", std::nan(""));
  odd.set("inf", -std::numeric_limits<double>::infinity());
  EXPECT_EQ(odd.str(), "{\n  \"nan\": NaN,\n  \"inf\": -Infinity\n}\n");
  const JsonObject words = JsonObject::parse(
      R"({"nan": NaN, "list": [Infinity, 0.5, -Infinity], "NaN": "NaN \" Infinity", "zero": -0.0, "inf": -Infinity})");
  double value = 0;
  EXPECT_TRUE(words.read("nan", value));
  EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(words.read("inf", value));
  EXPECT_EQ(value, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(words.read("zero", value));
  EXPECT_EQ(value, 0);
  EXPECT_EQ(words.text("NaN"), "NaN \" Infinity");
  EXPECT_EQ(JsonObject::parse(words.str()).str(), words.str());
  for (const char* text : {R"({"a": NaNs})", R"({"a": -NaN})", R"({"a": Infinity5})", R"({"a": +Infinity})",
                           R"({"a": 5NaN})", R"({"a": 0.NaN})", R"({NaN: 1})"})
    EXPECT_THROW((void)JsonObject::parse(text), Error) << text;
}

// Python's json.dumps writes them, and its json.loads reads them.
TEST(JsonObject, HalvesOfSurrogatePairsAreReplacedInLines) {
  RankContext context(0, 1);
  const RankScope scope(context);
  const auto read = [](const std::string& text) {
    return JsonObject::parse_line("{\"t\": \"" + text + "\"}", "x.jsonl, line 3").text("t");
  };
  const std::string unknown = "\xef\xbf\xbd";    // U+FFFD
  const std::string smile = "\xf0\x9f\x98\x80";  // U+1F600
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read(R"(\ud83d\ude00 \uD83D\uDE00)"), smile + " " + smile);
  EXPECT_EQ(read(R"(a\\ud800 \\\\udc00 \u00e9)"), "a\\ud800 \\\\udc00 \xc3\xa9") << "a backslash before them";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read(R"(ab\ud800)"), "ab" + unknown);
  EXPECT_EQ(read(R"(\udfffb)"), unknown + "b");
  EXPECT_EQ(read(R"(\\\ud800\\)"), "\\" + unknown + "\\");
  EXPECT_EQ(read(R"(\ud800\ud83d\ude00)"), unknown + smile) << "two high ones and a low one";
  EXPECT_EQ(read(R"(\ud83d\ude00\ude00)"), smile + unknown);
  EXPECT_EQ(read(R"(\ud800\n\uDBFFx\ud800\u0041)"), unknown + "\n" + unknown + "x" + unknown + "A");
  EXPECT_EQ(
      ::testing::internal::GetCapturedStderr(),
      "warning: x.jsonl, line 3: has half of a surrogate pair, such as \\ud800, which is no character; it is read "
      "as U+FFFD, here and in other lines\n");
  for (const char* wrong : {R"(\ud80)", R"(\ud800\u12)", R"(\ud800\x)", R"(\ud800\)"})
    EXPECT_NE(error_of([&] { (void)read(wrong); }).find("x.jsonl, line 3: not JSON at column "), std::string::npos)
        << wrong;
}

}  // namespace
}  // namespace tessera
