// SPDX-License-Identifier: Apache-2.0
// Annotations and limits on the command line: messages and exit codes.
#include <algorithm>

#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

TEST_F(TesseraCommand, StrictModeAndABudgetRefuseCollectivesAndProposeRemedies) {
  const auto strict = run(std::string("partition ") + kMegatron + "-o " + path("p.hlo") + " --strict");
  EXPECT_EQ(strict.code, 1);
  EXPECT_NE(strict.error.find("strict mode: no annotation requires 2 of 2 collectives"), std::string::npos)
      << strict.error;
  EXPECT_NE(strict.error.find("annotate the result %y with {data,-}"), std::string::npos) << strict.error;
  const auto budget = run(std::string("partition ") + kMegatron + "-o " + path("p.hlo") + " --max-bytes 100");
  EXPECT_EQ(budget.code, 1);
  EXPECT_NE(budget.error.find("12 more than the 100 allowed; the largest:\n  all-reduce"), std::string::npos)
      << budget.error;
  EXPECT_EQ(run(std::string("partition ") + kMegatron + "-o " + path("p.hlo") + " --max-bytes 112 --explain-json " +
                path("e.json"))
                .code,
            0);
  EXPECT_NE(content(path("e.json")).find("\"remedy\": "), std::string::npos);
  EXPECT_NE(content(path("e.json")).find("\"kind\": "), std::string::npos);
  // The same module with annotations for both results of its collectives: all collectives are requested.
  const auto asked =
      run(std::string("partition ") + kMegatron + "--annotate y=data,- -o " + path("p.hlo") + " --strict");
  EXPECT_EQ(asked.code, 0) << asked.error;
}

TEST_F(TesseraCommand, AnnotationsThatContradictEachOtherAreAnErrorThatNamesBoth) {
  const std::string mlp = "partition mlp.hlo --mesh data=2 -o " + path("p.hlo") + " ";
  const auto twice = run(mlp + "--annotate x=data,- --annotate x=-,data");
  EXPECT_EQ(twice.code, 1);
  EXPECT_NE(twice.error.find("%x is annotated twice, with {data,-} and {-,data}"), std::string::npos) << twice.error;
  EXPECT_EQ(run(mlp + "--annotate x=data,- --annotate %x=data,-").code, 0);
  EXPECT_EQ(run(mlp + "--annotate x=?,? --annotate x=-,data").code, 0);  // had no annotation before
  const auto meshes = run(mlp + "--mesh data=4");
  EXPECT_EQ(meshes.code, 2);
  EXPECT_NE(meshes.error.find("--mesh is given twice, with data=2 and data=4; give it once"), std::string::npos)
      << meshes.error;
  const auto text = [&](const std::string& tiles) {
    return run(
        "print " +
        file(
            "both.hlo",
            R"(HloModule m, num_partitions=6, frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\"x\"=3, \"y\"=2]>}"}
ENTRY e { ROOT a = f32[5,7] parameter(0), sharding={devices=)" +
                tiles + R"(}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>"} })"));
  };
  EXPECT_EQ(text("[3,2]<=[6]").code, 0) << text("[3,2]<=[6]").error;
  const auto wrong = text("[2,3]<=[6]");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.error.find("contradicts the axes given with it, {x,y}"), std::string::npos) << wrong.error;
}

TEST_F(TesseraCommand, AnAnnotationOverridesTheTextWithANote) {
  const auto module = file("said.hlo", R"(HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
  y = f32[8,6] tanh(x), sharding={devices=[4,1]<=[4]}
  ROOT z = f32[8,6] negate(y)
})");
  const std::string partition = "partition " + module + " --mesh a=2,b=2 -o " + path("p.hlo") + " --annotate ";
  const auto one = run(partition + "x=a,-");
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(one.error, "note: --annotate replaces the sharding of the text: %x has {a,-} instead of {a+b,-}\n");
  EXPECT_NE(content(path("p.hlo")).find("x: f32[4,6]"), std::string::npos) << content(path("p.hlo"));
  EXPECT_EQ(run(partition + "x=a+b,-").error, "");  // the same as in the text
  EXPECT_EQ(run(partition + "x=a,- --annotate x=b,-").code, 1);
  EXPECT_EQ(run("print " + module + " --annotate y=-,_0 --sharding y").error,
            "note: --annotate replaces the sharding of the text: %y has {-,_0} instead of {_0,-}\n");
  const auto checked = run("check " + module + " --mesh a=2,b=2 --annotate y=-,b");
  EXPECT_EQ(checked.code, 0) << checked.out;
  EXPECT_EQ(checked.error, "note: --annotate replaces the sharding of the text: %y has {-,b} instead of {a+b,-}\n");
}

TEST_F(TesseraCommand, ExplainShowsHowAValueWasComputedAndWhichAnnotationToChange) {
  const std::string mlp = "partition mlp.hlo --mesh d=2 --explain -o " + path("p.hlo") + " --annotate ";
  const auto one = run(mlp + "h=d,- --annotate y=-,d");
  ASSERT_EQ(one.code, 0) << one.error;
  EXPECT_NE(one.out.find("  from    %y {d,-} (as computed from %a {d,-}, "), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("  remedy  change the annotation of %y to {d,-}\n"), std::string::npos) << one.out;
  EXPECT_TRUE(run(mlp + "h=d,- --annotate y=d,-").out.starts_with("0 collectives"));
  const auto two = run(mlp + "a=d,- --annotate y=-,d");
  EXPECT_NE(two.out.find("  remedy  both sides are annotated: change %a {d,-} or %y {-,d}\n"), std::string::npos)
      << two.out;
}

}  // namespace
}  // namespace tessera::command_tests
