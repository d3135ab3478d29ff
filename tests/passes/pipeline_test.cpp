// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/temporary_folder.h"
#include "tessera/base/options.h"
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

// Gives the root a type that differs from the inferred one.
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

TEST(Pipeline, SkipsTheListedPasses) {
  Pipeline pipeline("test", {.skip = {"break"}});
  pipeline.add("break", broken);
  EXPECT_EQ(error_of(pipeline), "no error");
}

TEST(Pipeline, RefusesToSkipAnUnknownPass) {
  Pipeline pipeline("test", {.skip = {"simplfy"}});
  pipeline.add("simplify", simplify);
  EXPECT_EQ(error_of(pipeline), "there is no pass \"simplfy\" to skip in 'test'; passes that can be skipped: simplify");
}

TEST(Pipeline, RefusesToSkipARequiredPass) {
  Pipeline pipeline("test", {.skip = {"simplify"}});
  pipeline.add_required("simplify", simplify);
  EXPECT_EQ(error_of(pipeline), "the pass \"simplify\" of 'test' cannot be skipped");
}

// Returns the files in a folder as relative paths.
std::vector<std::string> files_below(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder).string());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Pipeline, WritesNumberedDumpsOnlyIfAPassChangedTheProgram) {
  const testing::TemporaryFolder folder;
  Pipeline pipeline("test", {.dump_directory = folder.file("dump")});
  pipeline.add("nothing", [](const Program& p) { return p; }).add("simplify", simplify);
  pipeline.run(program());
  const std::string of_program = fmt::format("m.{:08x}/test/", program().hash() & 0xFFFFFFFFU);
  EXPECT_EQ(files_below(folder.file("dump")),
            (std::vector<std::string>{of_program + "00-input.hlo", of_program + "02-simplify.hlo"}));
}

TEST(Pipeline, DumpsOfProgramsWithEqualNamesDoNotOverwriteEachOther) {
  const testing::TemporaryFolder folder;
  options().set("TESSERA_DUMP_DIR", folder.file("dump"));
  Pipeline pipeline("test");
  options().set("TESSERA_DUMP_DIR", "");
  pipeline.add("dead", remove_dead_code);
  const Program first = program();
  const Program second = remove_dead_code(first);
  pipeline.run(first);
  pipeline.run(second);
  pipeline.run(first);
  const auto files = files_below(folder.file("dump"));
  ASSERT_EQ(files.size(), 3U);  // the second program has no dead code
  for (const Program& one : {first, second}) {
    const std::string path = fmt::format("dump/m.{:08x}/test/00-input.hlo", one.hash() & 0xFFFFFFFFU);
    EXPECT_EQ(read_file(folder.file(path)), print_program(one));
  }
}

TEST(Pipeline, DerivedProgramsShareTheFolderAndTrialsWriteNoDumps) {
  const testing::TemporaryFolder folder;
  options().set("TESSERA_DUMP_DIR", folder.file("dump"));
  const Program first = program();
  const std::string its = dump_folder(first);
  const Program made = Pipeline("test").add("dead", remove_dead_code).run(first);
  const std::string of_made = dump_folder(made);
  Pipeline("attempt", {.writes_dumps = false}).add("dead", remove_dead_code).run(first);
  options().set("TESSERA_DUMP_DIR", "");
  ASSERT_NE(first.hash(), made.hash());
  EXPECT_EQ(its, folder.file(fmt::format("dump/m.{:08x}", first.hash() & 0xFFFFFFFFU)));
  EXPECT_EQ(of_made, its);
  EXPECT_EQ(dump_folder(made), "");
  EXPECT_EQ(files_below(folder.file("dump")).size(), 2U);  // those of "test" only
}

TEST(Pipeline, AFolderHasANameEvenIfTheProgramHasNone) {
  const testing::TemporaryFolder folder;
  Program odd = program();
  odd.name = "../a/b c";
  Pipeline("test", {.dump_directory = folder.file("dump")}).run(odd);
  EXPECT_EQ(files_below(folder.file("dump")),
            std::vector<std::string>{fmt::format("___a_b_c.{:08x}/test/00-input.hlo", odd.hash() & 0xFFFFFFFFU)});
}

}  // namespace
}  // namespace tessera
