// SPDX-License-Identifier: Apache-2.0
// Checks the remedies that `--explain` proposes: applies each to the program, as `--annotate` would, and compares the
// result with the prediction. Uses the modules of tests/data and tests/tools/data/odd.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "support/long_tests.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

std::vector<std::string> modules() {
  const std::filesystem::path tests(TESSERA_TESTS);
  std::vector<std::string> paths;
  for (const auto& folder : {tests / "data/jax", tests / "data/random", tests / "tools/data/odd"})
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".hlo" && !entry.path().stem().string().ends_with(".shardy"))  // each has a twin
        paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  if (testing::long_tests()) return paths;
  std::vector<std::string> sample;
  for (std::size_t i = 0; i < paths.size(); i += 4) sample.push_back(paths[i]);
  return sample;
}

std::string name_of(const std::string& path) {
  const std::filesystem::path file(path);
  std::string name = file.parent_path().filename().string() + "_" + file.stem().string();
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// The modules that JAX lowered for 2x2 devices do not contain the number of devices.
Program read(const std::string& path) {
  const bool is_of_jax = path.find("/jax/") != std::string::npos;
  return parse_program(read_file(path), op_table(), {.num_partitions = is_of_jax ? 4 : 0});
}

// Partitions with the options of `tessera partition`.
std::vector<CollectiveNote> notes_of(const Program& program, bool try_remedies) {
  return partition(program, {.try_remedies = try_remedies, .collectives = {.save_memory = true}}).notes;
}

std::int64_t bytes_of(const std::vector<CollectiveNote>& notes) {
  std::int64_t sum = 0;
  for (const CollectiveNote& note : notes) sum += note.bytes;
  return sum;
}

// Returns the purpose of a collective without the sharding, such as `operand 0 of dot %h`.
std::string purpose_of(const CollectiveNote& note) { return note.reason.substr(0, note.reason.find(" must be ")); }

std::int64_t count_alike(const std::vector<CollectiveNote>& notes, const CollectiveNote& like) {
  return std::count_if(notes.begin(), notes.end(), [&](const CollectiveNote& note) {
    return note.opcode == like.opcode && purpose_of(note) == purpose_of(like);
  });
}

class Remedies : public ::testing::TestWithParam<std::string> {};

TEST_P(Remedies, HaveThePredictedEffect) {
  const Program program = read(GetParam());
  if (program.partitioned || program.meshes.empty()) return;
  const auto before = notes_of(program, true);
  std::map<std::pair<std::string, std::string>, std::vector<CollectiveNote>> with;
  for (const CollectiveNote& note : before) {
    const Remedy& remedy = note.remedy;
    const auto spec = remedy.annotation();
    if (!spec || remedy.trial < Remedy::Trial::kWorks) continue;
    SCOPED_TRACE(note.opcode + " " + shown_collective(note) + ": " + remedy.text());
    const auto [known, is_new] = with.try_emplace({remedy.value, *spec});
    if (is_new)
      known->second = notes_of(
          annotate(without_annotation(program, remedy.value), program.meshes.front(), remedy.value, *spec), false);
    const auto& after = known->second;
    EXPECT_EQ(bytes_of(after), bytes_of(before) - remedy.bytes_saved);
    EXPECT_EQ(count_alike(after, note) == 0, remedy.removes_collective);
    EXPECT_EQ(remedy.bytes_saved > 0, remedy.trial != Remedy::Trial::kFails);
    if (remedy.trial == Remedy::Trial::kWorks) {
      EXPECT_LT(after.size(), before.size());
    }
  }
}

TEST(Remedy, ReadsBackEqualFromItsAttribute) {
  const Remedy remedy{.kind = Remedy::Kind::kChange,
                      .value = "inner/t@p1",
                      .spec = "{-,a+b}",
                      .mesh = "mesh<a=2, b=3>",
                      .detail = "100% of %x | %y",
                      .trial = Remedy::Trial::kHelps,
                      .removes_collective = true,
                      .bytes_saved = -24,
                      .work = 1.25};
  EXPECT_EQ(Remedy::from_attribute(remedy.attribute()), remedy);
  EXPECT_EQ(Remedy::from_attribute(Remedy().attribute()), Remedy());
  EXPECT_EQ(remedy.annotation(), "-,a+b");
  EXPECT_EQ(remedy.text(),
            "change the annotation of %inner/t@p1 to {-,a+b}: -24 bytes fewer, with other collectives (each device "
            "then computes 1.2 times as much)");
}

INSTANTIATE_TEST_SUITE_P(Of, Remedies, ::testing::ValuesIn(modules()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace tessera
