// SPDX-License-Identifier: Apache-2.0
// The verb `visualize`.
#include "command_fixture.h"

namespace tessera::command_tests {
namespace {

TEST_F(TesseraCommand, VisualizeDrawsAShardingOfAShape) {
  const auto drawn = run("visualize 5,6 data,model --mesh data=2,model=3");
  EXPECT_EQ(drawn.code, 0) << drawn.error;
  EXPECT_TRUE(drawn.out.starts_with("f32[5,6] {data,model}\n┌────────────┬")) << drawn.out;
  EXPECT_NE(drawn.out.find("│     0      │     1      │     2      │"), std::string::npos) << drawn.out;
  EXPECT_EQ(drawn.out.find('\x1b'), std::string::npos) << "a file gets no colours";
  const auto colored = run("visualize f64[4] '{devices=[2]1,0}' --color always");
  EXPECT_NE(colored.out.find("\x1b[42m"), std::string::npos) << colored.out;
}

TEST_F(TesseraCommand, VisualizeWritesWellFormedSvg) {
  const std::string parses =
      "python3 -c 'import sys, xml.etree.ElementTree as tree; root = tree.parse(sys.argv[1]).getroot(); "
      "print(sum(1 for e in root.iter() if e.tag.endswith(\"rect\")))' ";
  const auto rectangles = [&](const std::string& arguments) {
    const auto drawn = run("visualize " + arguments + " --svg " + path("x.svg"));
    EXPECT_EQ(drawn.code, 0) << drawn.error;
    return run("2>/dev/null >/dev/null; " + parses + path("x.svg")).out;
  };
  EXPECT_EQ(rectangles("7,5 'data,model' --mesh data=2,model=3"), "6\n");
  EXPECT_EQ(rectangles("2 model --mesh 'data=2,model=3'"), "3\n");
  EXPECT_EQ(rectangles("4,3,2,9 'a<b,c,-,a>' --mesh 'a<b=2,c=3,a>=2'"), "12\n");
  EXPECT_EQ(rectangles("'s8[]' '{replicated}'"), "1\n");
}

TEST_F(TesseraCommand, VisualizeReportsWhatIsWrong) {
  const auto expect = [&](const std::string& arguments, int code, const std::string& part) {
    const auto outcome = run("visualize " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    EXPECT_NE(outcome.error.find(part), std::string::npos) << outcome.error;
  };
  expect("8,16", 2, "a shape and a sharding are expected, got 1 words");
  expect("8,16 data,-", 2, "the spec data,- needs a mesh, such as data=2,model=4");
  expect("8,16 data,modle --mesh data=2,model=4", 2, "did you mean \"model\"?");
  expect("8,16 data --mesh data=2", 2, "has 1 entry, the tensor has 2 dims");
  expect("eight data --mesh data=2", 2, "shape \"eight\": expected f32[8,16] or 8,16");
  expect("8 '{manual}'", 2, "only tilings can be drawn, got {manual}");
  expect("8 data --mesh data=2 --color sometimes", 2, "--color takes one of auto, always, never");
}

}  // namespace
}  // namespace tessera::command_tests
