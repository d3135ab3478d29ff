// SPDX-License-Identifier: Apache-2.0
// --mesh with other axis names for the devices of a text's shardings.
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

class OtherMesh : public TesseraCommand {
 protected:
  void SetUp() override {
    TesseraCommand::SetUp();
    (void)file("m.hlo", R"(HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2, "model"=3]>}}
ENTRY e {
  x = f32[12,18] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"data\"}, {}]>"}
  w = f32[18,9] parameter(1), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\"model\"}]>"}
  ROOT y = f32[12,9] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)");
  }
};

TEST_F(OtherMesh, GivesTheSameTilesWithOtherAxisNames) {
  const auto stats = [&](const std::string& mesh) {
    EXPECT_EQ(run("partition " + path("m.hlo") + mesh + " -o " + path("parts")).error, "") << mesh;
    return run("stats " + path("parts")).out;
  };
  const std::string as_written = stats("");
  EXPECT_NE(as_written.find("total_collective_bytes  0"), std::string::npos) << as_written;
  for (const std::string mesh : {" --mesh dp=2,tp=3", " --mesh a=2,b=3", " --mesh all=6"})
    EXPECT_EQ(stats(mesh), as_written) << mesh;
}

TEST_F(OtherMesh, NotesShardingsThatItCannotExpress) {
  const auto outcome = run("partition " + path("m.hlo") + " --mesh a=3,b=2 -o " + path("parts"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.error.find(
                "note: the text shards %x over mesh<data=2, model=3>, which mesh<a=3, b=2> of --mesh cannot express"),
            std::string::npos)
      << outcome.error;
}

}  // namespace
}  // namespace tessera::command_tests
