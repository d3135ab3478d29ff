// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/pipeline.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/passes/passes.h"

namespace tessera {
namespace {

Program program() {
  return parse_program(R"(
HloModule m
ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3] parameter(0)
  %a = f32[3] copy(%x)
  %dead = f32[3] sine(%x)
  ROOT %r = f32[3] negate(%a)
})",
                       op_table());
}

// Gives the root another type than its op infers.
Program broken(const Program& from) {
  Program out = from;
  auto main = std::make_shared<Computation>(from.entry_computation());
  main->instructions.back().type = Type::array(DType::kF32, {4});
  out.computations.back() = main;
  return out;
}

std::string error_of(Pipeline& pipeline) {
  try {
    pipeline.run(program());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pipeline, RunsItsPassesInOrderAndTimesThem) {
  Pipeline pipeline("test");
  std::vector<std::string> seen;
  pipeline.add("simplify", simplify).add("dead", [&](const Program& p) {
    seen.emplace_back("dead");
    return remove_dead_code(p);
  });
  EXPECT_EQ(pipeline.run(program()).instruction_count(), 2U);
  ASSERT_EQ(pipeline.seconds().size(), 2U);
  EXPECT_EQ(pipeline.seconds()[0].first, "simplify");
  EXPECT_EQ(seen.size(), 1U);
}

TEST(Pipeline, NamesThePassThatBreaksTheProgram) {
  Pipeline pipeline("test");
  pipeline.add("simplify", simplify).add("break", broken);
  const std::string error = error_of(pipeline);
  EXPECT_EQ(error.find("invalid program after pass 'break': "), 0U) << error;
}

TEST(Pipeline, LeavesOutWhatItIsToldToSkip) {
  Pipeline pipeline("test", {.skip = {"break"}});
  pipeline.add("break", broken);
  EXPECT_EQ(error_of(pipeline), "no error");
}

TEST(Pipeline, WritesNumberedDumpsOnlyWhereAPassChangedSomething) {
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("tessera_passes_{}", static_cast<int>(::getpid()));
  Pipeline pipeline("test", {.dump_directory = directory.string()});
  pipeline.add("nothing", [](const Program& p) { return p; }).add("simplify", simplify);
  pipeline.run(program());
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(directory / "test"))
    files.push_back(file.path().filename().string());
  std::sort(files.begin(), files.end());
  EXPECT_EQ(files, (std::vector<std::string>{"00-input.hlo", "02-simplify.hlo"}));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tessera
