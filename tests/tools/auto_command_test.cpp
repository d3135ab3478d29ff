// SPDX-License-Identifier: Apache-2.0
// tessera partition --auto, and tessera plan of a program.
#include "command_fixture.h"
#include "tessera/base/json_object.h"

namespace tessera::command_tests {
namespace {

using AutoCommand = TesseraCommand;

TEST_F(AutoCommand, ChoosesShardings) {
  const std::string how = "mlp.hlo --mesh x=2,y=3 --machine cpu-node";
  const auto fixed = run("partition " + how + " --json " + path("fixed.json"));
  const auto chosen = run("partition " + how + " --auto --json " + path("auto.json"));
  EXPECT_EQ(chosen.code, 0) << chosen.error;
  EXPECT_EQ(chosen.error, "");
  const auto flops = [&](const char* file) {
    double out = 0;
    JsonObject::from_file(path(file)).read("flops_per_device", out);
    return out;
  };
  EXPECT_EQ(fixed.code, 0);
  EXPECT_EQ(flops("auto.json"), flops("fixed.json") / 6);
  EXPECT_EQ(run("check " + how + " --auto").code, 0);
}

TEST_F(AutoCommand, PlansAProgramOnEachMesh) {
  const auto plan = run("plan mlp.hlo --devices 12 --axes 3 --machine cpu-node --json " + path("plan.json"));
  EXPECT_EQ(plan.code, 0) << plan.error;
  EXPECT_EQ(plan.out.find("4 of 4 meshes of 12 devices, machine cpu-node\n"), 0U) << plan.out;
  std::vector<JsonObject> meshes;
  JsonObject::from_file(path("plan.json")).read("meshes", meshes);
  ASSERT_EQ(meshes.size(), 4U);
  double before = 0;
  for (const JsonObject& mesh : meshes) {
    double seconds = 0;
    mesh.read("seconds", seconds);
    EXPECT_GE(seconds, before);
    before = seconds;
  }
  // The command that it prints gives the program of the first row.
  const auto start = plan.out.find("tessera partition ") + std::string("tessera ").size();
  const std::string command = plan.out.substr(start, plan.out.find('\n', start) - start);
  EXPECT_EQ(run(command + " --json " + path("best.json")).code, 0) << command;
  double best = 0;
  double first = 0;
  JsonObject::from_file(path("best.json")).read("modelled_step_milliseconds", best);
  meshes.front().read("seconds", first);
  EXPECT_NEAR(best, 1e3 * first, 1e-9 * best);
}

TEST_F(AutoCommand, PlansForASliceOfTpus) {
  const auto plan = run("plan mlp.hlo --devices v4-8 --machine tpu-v4");
  EXPECT_EQ(plan.code, 0) << plan.error;
  EXPECT_NE(plan.out.find(" meshes of 4 devices (v4-8: 8 cores, 4 chips, 1 host), machine tpu-v4\n"), std::string::npos)
      << plan.out;
}

TEST_F(AutoCommand, Errors) {
  const auto expect = [&](const std::string& words, int code, const std::string& text) {
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, code) << words;
    EXPECT_NE(outcome.error.find(text), std::string::npos) << words << "\n" << outcome.error;
  };
  expect("partition mlp.hlo --memory 1GB", 2, "--memory needs --auto");
  expect("partition mlp.hlo --mesh x=2 --auto --memory 1x", 2, "--memory");
  expect(
      "partition mlp.hlo --mesh x=2 --auto --memory 100B", 1,
      "mlp: no shardings over mesh<x=2> were found with which a device needs at most 100.00B; the least memory found");
  expect("plan mlp.hlo --devices 6 --memory 10B", 3, "the least memory found is");
  expect("plan " + file("gpt2.json", R"({"model_type": "gpt2"})") + " --axes 3", 2, "--axes is for a program");
  expect("plan mlp.hlo --devices 6 --rows 3", 2, "--rows is for the configuration of a model");
  expect("plan marked.hlo --devices 6", 1,
         "has shardings for 2 devices, --devices is 6: give the program without shardings, or --devices 2");
  expect("plan mlp.partitioned.hlo --devices 6", 1, "belong to per-device programs");
  expect("plan --table1 --config-overrides n_layer=2", 2, "leave out --config-overrides");
  expect("plan mlp.hlo", 2, "--devices must be at least 2 for a program");
  expect("plan mlp.hlo --devices v4-12", 2, "--devices: v4-12: a slice of v4 has a multiple of 8 cores");
  expect("plan mlp.hlo --devices v4", 2, "--devices v4: no such slice of TPUs; their names are v2-N, v3-N");
}

}  // namespace
}  // namespace tessera::command_tests
