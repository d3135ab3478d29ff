// SPDX-License-Identifier: Apache-2.0
// Manifests that have the checksum of their content, but describe no checkpoint.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <ctime>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "checkpoint/training_run.h"
#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/checksum.h"
#include "tessera/base/files.h"
#include "tessera/checkpoint/checkpoint.h"

namespace tessera {
namespace {

// Gives a manifest the checksum of its content.
std::string manifest_with_checksum(const std::string& text) {
  boost::json::value all = boost::json::parse(text);
  all.get_object().erase("xxh3");
  const std::string content = boost::json::serialize(all);
  Checksum sum;
  sum.add(std::as_bytes(std::span(content)));
  all.get_object()["xxh3"] = sum.text();
  return boost::json::serialize(all) + "\n";
}

class CraftedManifest : public ::testing::Test {
 protected:
  CraftedManifest() {
    on_ranks(2, [&](int) {
      Training run({2, "fsdp=2", true, false}, 7);
      train_step(run.model, *run.optimizer, 0);
      save_checkpoint(folder_.file("checkpoint-1"), run.content());
    });
  }
  [[nodiscard]] std::string error() const {
    const FreshRank rank;
    return ::tessera::testing::error_of([&] { const Checkpoint read(folder_.file("checkpoint-1")); });
  }
  // Adds a tensor whose parts are all in the file of rank 0.
  void add_tensor(const std::string& name, const boost::json::array& shape, const boost::json::array& parts) const {
    boost::json::value all = boost::json::parse(read_file(path_));
    all.at("tensors").as_object()[name] = {{"dtype", "f32"}, {"shape", shape}, {"parts", parts}};
    write_file(path_, manifest_with_checksum(boost::json::serialize(all)));
  }
  const ::tessera::testing::TemporaryFolder folder_;
  const std::string path_ = folder_.file("checkpoint-1/manifest.json");
};

boost::json::object part_of(const boost::json::array& start, const boost::json::array& shape) {
  return {{"file", "state-00001-of-00002.safetensors"}, {"start", start}, {"shape", shape}};
}

// As many elements as in the tensor, but some twice and others not at all.
TEST_F(CraftedManifest, PartsThatOverlapAreRefused) {
  const std::string path = folder_.file("checkpoint-1/manifest.json");
  boost::json::value all = boost::json::parse(read_file(path));
  std::string changed;
  for (auto& tensor : all.at("tensors").as_object()) {
    boost::json::array& parts = tensor.value().at("parts").as_array();
    if (parts.size() != 2 || parts[0].at("shape") != parts[1].at("shape")) continue;
    parts[1] = parts[0];
    changed = tensor.key();
    break;
  }
  ASSERT_FALSE(changed.empty());
  write_file(path, manifest_with_checksum(boost::json::serialize(all)));
  const std::string file = "state-00001-of-00002.safetensors";
  EXPECT_EQ(error(),
            path + ": tensors: " + changed + ": two parts, in " + file + " and " + file + ", have the same elements");
}

// As if the ranks had saved other tensors than the manifest lists: all checksums are right.
TEST_F(CraftedManifest, VerificationComparesTheTensorsInTheFiles) {
  const std::string path = folder_.file("checkpoint-1/manifest.json");
  boost::json::value all = boost::json::parse(read_file(path));
  boost::json::object& tensors = all.at("tensors").as_object();
  const std::string name(tensors.begin()->key());
  const boost::json::value tensor = tensors.at(name);
  const std::string file(tensor.at("parts").at(0).at("file").as_string());
  tensors.erase(name);
  tensors[name + "_of_another"] = tensor;
  write_file(path, manifest_with_checksum(boost::json::serialize(all)));
  EXPECT_EQ(error(), "no error");
  const FreshRank rank;
  const std::string damage = damage_of(folder_.file("checkpoint-1"));
  EXPECT_NE(damage.find(file + " does not contain " + name + "_of_another"), std::string::npos) << damage;
}

// A comparison of all pairs takes minutes.
TEST_F(CraftedManifest, ManyPartsWithoutElementsAreReadInLittleTime) {
  boost::json::array parts;
  for (int i = 0; i < 100'000; ++i) parts.push_back(part_of({i % 10, 0}, {1, 0}));
  add_tensor("model/empty", {10, 0}, parts);
  const std::clock_t before = std::clock();
  EXPECT_EQ(error(), "no error");
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 60);
}

TEST_F(CraftedManifest, SumsOfBytesThat64BitsDoNotHoldAreRefused) {
  constexpr std::int64_t kElements = std::int64_t{1} << 58;  // 2^60 bytes, the most of an array
  const auto add = [&](int i) { add_tensor("model/" + std::to_string(i), {kElements}, {part_of({0}, {kElements})}); };
  for (int i = 0; i < 7; ++i) add(i);
  EXPECT_EQ(error(), "no error");
  {
    const FreshRank rank;
    EXPECT_GE(Checkpoint(folder_.file("checkpoint-1")).groups().at("model").bytes, 7 * 4 * kElements);
  }
  add(7);
  EXPECT_EQ(error(), path_ + ": tensors: all together have more than 2^63 - 1 bytes");
  boost::json::value all = boost::json::parse(read_file(path_));
  for (int i = 0; i < 8; ++i) all.at("tensors").as_object().erase("model/" + std::to_string(i));
  for (const char* name : {"one", "two"})
    all.at("files").as_object()[name] = {{"bytes", std::int64_t{1} << 62}, {"xxh3", ""}};
  write_file(path_, manifest_with_checksum(boost::json::serialize(all)));
  EXPECT_EQ(error(), path_ + ": files: all together have more than 2^63 - 1 bytes");
}

TEST_F(CraftedManifest, ErrorsNameOnlyTheCheckpointsOfTheFolder) {
  for (const char* name : {"checkpoint-7", "checkpoint-01"}) std::filesystem::create_directory(folder_.file(name));
  write_file(folder_.file("notes.txt"), "x");
  const auto error_of_folder = [&](const std::string& name) {
    const FreshRank rank;
    return ::tessera::testing::error_of([&] { const Checkpoint read(folder_.file(name)); });
  };
  const std::string hint = "; the newest checkpoint there is " + folder_.file("checkpoint-1");
  EXPECT_EQ(error_of_folder("checkpoint-5"), "there is no folder " + folder_.file("checkpoint-5") + hint);
  EXPECT_EQ(error_of_folder("notes.txt"), folder_.file("notes.txt") + " is not a folder" + hint);
  EXPECT_EQ(checkpoints_in(folder_.file("")), (std::map<std::int64_t, std::string>{{1, folder_.file("checkpoint-1")},
                                                                                   {7, folder_.file("checkpoint-7")}}));
}

// The last byte is a line end, which JSON does not need.
TEST_F(CraftedManifest, AMissingOrAddedByteIsFound) {
  const std::string text = read_file(path_);
  const std::string size = std::to_string(text.size());
  const auto damage = [&](std::size_t bytes) {
    return path_ + ": damaged: its " + std::to_string(bytes) + " bytes are not the " + size + " bytes that were saved";
  };
  write_file(path_, text.substr(0, text.size() - 1));
  EXPECT_EQ(error(), damage(text.size() - 1));
  write_file(path_, text + "\n");
  EXPECT_EQ(error(), damage(text.size() + 1));
  write_file(path_, text.substr(0, text.size() - 1) + " ");
  EXPECT_EQ(error(), damage(text.size()));
  write_file(path_, text);
  EXPECT_EQ(error(), "no error");
}

// It may be undamaged, so a run must not silently continue from an older one.
TEST_F(CraftedManifest, AnotherVersionOfTheFormatIsNoDamage) {
  using ::tessera::testing::error_of;
  const std::string newest = folder_.file("checkpoint-1");
  const auto with_version = [&](int version) {
    boost::json::value all = boost::json::parse(read_file(path_));
    all.as_object()["version"] = version;
    write_file(path_, manifest_with_checksum(boost::json::serialize(all)));
  };
  const auto expected = [&](const std::string& age, const std::string& version) {
    return path_ + ": the checkpoint was written by " + age + " version of Tessera: its format has version " + version +
           ", and this program reads version 2; use the program that wrote it, or give another checkpoint";
  };
  with_version(1);
  EXPECT_EQ(error(), expected("an older", "1"));
  with_version(3);
  EXPECT_EQ(error(), expected("a newer", "3"));
  on_ranks(2, [&](int) {
    Training run({2, "fsdp=2", true, false}, 7);
    save_checkpoint(folder_.file("checkpoint-0"), run.content());
    EXPECT_EQ(error_of([&] { load_newest_checkpoint(folder_.path(), run.states()); }), expected("a newer", "3"));
    EXPECT_EQ(error_of([&] { load_checkpoint(newest, run.states()); }), expected("a newer", "3"));
    EXPECT_EQ(damage_of(newest), expected("a newer", "3"));
  });
  EXPECT_EQ(other_format_of(newest), expected("a newer", "3"));
  EXPECT_EQ(other_format_of(folder_.file("checkpoint-0")), "");
  EXPECT_EQ(other_format_of(folder_.file("checkpoint-9")), "") << "there is none";
  write_file(path_, "{\"format\": \"tessera-checkpoint\", \"version\": 3");
  EXPECT_EQ(other_format_of(newest), "") << "damaged";
}

TEST_F(CraftedManifest, AManifestThatListsATensorTwiceIsRefused) {
  const std::string path = folder_.file("checkpoint-1/manifest.json");
  std::string text = read_file(path);
  const std::size_t begin = text.find("\"tensors\":{") + 11;
  const std::size_t end = text.find("]}]},", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string entry = text.substr(begin, end + 5 - begin);
  const std::string name = entry.substr(0, entry.find("\":") + 1);
  write_file(path, text.insert(begin, entry));
  EXPECT_EQ(error(), path + ": the key " + name + " occurs twice in an object");
}

}  // namespace
}  // namespace tessera
