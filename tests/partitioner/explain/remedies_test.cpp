// SPDX-License-Identifier: Apache-2.0
// Compares the estimated effect of remedies with the real one: applies each to the program, as `--annotate` would. Uses
// the modules of tests/data and tests/tools/data/odd.
#include <gtest/gtest.h>

#include <fmt/format.h>

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

struct Counts {
  int works = 0;        // remedies that should work
  int collectives = 0;  // of these: the collective disappears
  int fewer_bytes = 0;  // of these: a device receives fewer bytes
  int estimates = 0;    // all estimated effects
  int exact = 0;        // of these: the bytes are exact
  int right_signs = 0;  // of these: the bytes fall or do not fall as estimated
};

void count_remedies(const std::string& path, Counts& counts) {
  const Program program = read(path);
  if (program.partitioned || program.meshes.empty()) return;
  const auto before = notes_of(program, true);
  std::map<std::pair<std::string, std::string>, std::vector<CollectiveNote>> with;
  for (const CollectiveNote& note : before) {
    const Remedy& remedy = note.remedy;
    const auto spec = remedy.annotation();
    if (!spec || remedy.trial < Remedy::Trial::kWorks) continue;
    const auto [known, is_new] = with.try_emplace({remedy.value, *spec});
    if (is_new)
      known->second = notes_of(
          annotate(without_annotation(program, remedy.value), program.meshes.front(), remedy.value, *spec), false);
    const std::int64_t saved = bytes_of(before) - bytes_of(known->second);
    ++counts.estimates;
    counts.exact += saved == remedy.bytes_saved ? 1 : 0;
    counts.right_signs += (saved > 0) == (remedy.bytes_saved > 0) ? 1 : 0;
    const bool is_gone = count_alike(known->second, note) == 0;
    const bool works = remedy.trial == Remedy::Trial::kWorks;
    counts.works += works ? 1 : 0;
    counts.collectives += works && is_gone ? 1 : 0;
    counts.fewer_bytes += works && saved > 0 ? 1 : 0;
    if (saved != remedy.bytes_saved || (works && !is_gone))
      fmt::print("{}: {} {}: {}; {} bytes fewer estimated, {} received\n", path, note.opcode, shown_collective(note),
                 remedy.text(), remedy.bytes_saved, saved);
  }
}

// The estimate does not compare orders of propagation and omits later passes, so a few remedies have another effect.
TEST(Remedies, HaveTheEstimatedEffect) {
  Counts counts;
  for (const std::string& path : modules()) count_remedies(path, counts);
  fmt::print("{} remedies, {} with exact bytes; {} work, {} without the collective, {} with fewer bytes\n",
             counts.estimates, counts.exact, counts.works, counts.collectives, counts.fewer_bytes);
  EXPECT_GT(counts.works, 20);
  constexpr double kMost = 0.9;
  EXPECT_GE(counts.right_signs, kMost * counts.estimates);
  EXPECT_GE(counts.collectives, kMost * counts.works);
  EXPECT_GE(counts.fewer_bytes, kMost * counts.works);
}

// Another annotation of %g would contradict the sizes in the manual region that ends there.
TEST(Remedies, AValueThatAManualRegionDividesHasNone) {
  const Program program = read((std::filesystem::path(TESSERA_TESTS) / "tools/data/odd/manual.hlo").string());
  bool is_named = false;
  for (const CollectiveNote& note : notes_of(program, true)) {
    is_named = is_named || note.remedy.value == "g";
    if (note.remedy.value == "g") {
      EXPECT_EQ(note.remedy.trial, Remedy::Trial::kImpossible) << note.remedy.text();
    }
  }
  EXPECT_TRUE(is_named);
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
  EXPECT_EQ(
      remedy.text(),
      "change the annotation of %inner/t@p1 to {-,a+b}: about -24 bytes fewer, with other collectives (each device "
      "then computes 1.2 times as much)");
}

}  // namespace
}  // namespace tessera
