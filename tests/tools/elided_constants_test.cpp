// SPDX-License-Identifier: Apache-2.0
// What each verb does for a dump with elided constants, `{...}`.
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

constexpr const char* kDump = R"(HloModule step, num_partitions=2
%fused (x: f32[12]) -> f32[12] {
  %x = f32[12] parameter(0)
  %scale = f32[12] constant({...})
  ROOT %y = f32[12] multiply(%x, %scale)
}
ENTRY %main (x: f32[12]) -> f32[12] {
  %x = f32[12] parameter(0), sharding={devices=[2]<=[2]}
  %table = f32[12] constant({...})
  %s = f32[12] add(%x, %table)
  ROOT %y = f32[12] fusion(%s), kind=kLoop, calls=%fused
})";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(TesseraCommand, RunRefusesElidedConstants) {
  const auto dump = file("dump.hlo", kDump);
  for (const std::string how : {" --virtual-ranks 2", " --engine reference"}) {
    const auto out = run("run " + dump + how);
    EXPECT_EQ(out.code, 1) << out.out;
    EXPECT_TRUE(has(out.error,
                    "step cannot run: its text leaves out the elements of constants, {...}: %scale of "
                    "%fused, %table of %main."))
        << out.error;
    EXPECT_TRUE(has(out.error, "as_hlo_text(print_large_constants=True)")) << out.error;
    EXPECT_TRUE(has(out.error, "--xla_dump_large_constants=true")) << out.error;
  }
}

TEST_F(TesseraCommand, PartitionAndStatsKeepElidedConstantsAndWarnOnce) {
  const auto dump = file("dump.hlo", kDump);
  const auto warnings = [](const std::string& text) {
    int count = 0;
    for (auto at = text.find("warning:"); at != std::string::npos; at = text.find("warning:", at + 1)) ++count;
    return count;
  };
  const auto local = run("partition " + dump + " -o " + path("local.hlo"));
  EXPECT_EQ(local.code, 0) << local.error;
  EXPECT_EQ(warnings(local.error), 1) << local.error;
  EXPECT_TRUE(has(local.error, "%scale of %fused, %table of %main")) << local.error;
  const std::string text = content(path("local.hlo"));
  EXPECT_TRUE(has(text, "f32[12]{0} constant({...})")) << text;
  EXPECT_TRUE(has(text, "tessera.elided=\"fused/scale\"")) << text;
  EXPECT_FALSE(has(text, "0,0")) << text;
  for (const std::string verb : {"stats ", "optimize "}) {
    const auto out = run(verb + path("local.hlo"));
    EXPECT_EQ(out.code, 0) << out.error;
    EXPECT_EQ(warnings(out.error), 1) << out.error;
  }
  const auto again = run("run " + path("local.hlo") + " --virtual-ranks 2");
  EXPECT_EQ(again.code, 1);
  EXPECT_TRUE(has(again.error, "leaves out the elements of constants")) << again.error;
  EXPECT_EQ(run("stats mlp.hlo").error.find("warning"), std::string::npos);
}

TEST_F(TesseraCommand, CheckDrawsElidedConstantsWithANote) {
  const auto dump = file("dump.hlo", kDump);
  for (const std::string engine : {"reference", "runtime"}) {
    const auto out = run("check " + dump + " --engine " + engine + " --json " + path("c.json"));
    EXPECT_EQ(out.code, 0) << out.out << out.error;
    EXPECT_TRUE(has(out.out,
                    "values were drawn for constants whose elements the text leaves out, {...}: %scale of "
                    "%fused, %table of %main\n"))
        << out.out;
    EXPECT_TRUE(has(content(path("c.json")), "\"drawn_constants\"")) << content(path("c.json"));
  }
  EXPECT_FALSE(has(run("check mlp.hlo").out, "drawn for constants"));
}

}  // namespace
}  // namespace tessera::command_tests
