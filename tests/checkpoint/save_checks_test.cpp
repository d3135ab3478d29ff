// SPDX-License-Identifier: Apache-2.0
// Saves that could not be loaded are refused: names, ranks that save different things, folders in use.
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/save.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TemporaryFolder;

StateDict state_with(const std::string& name, double value) {
  StateDict out;
  out.add({name, Tensor::full(Type::array(DType::kF64, {4}), value), {}});
  mark_step();
  return out;
}

CheckpointContent content_with(double value) {
  return {.states = {{"model", state_with("x", value)}}, .documents = {}};
}

double value_in(const std::string& folder) {
  const StateDict state = state_with("x", 0);
  load_checkpoint(folder, {{"model", state}});
  return state.find("x")->tensor.to_host().data<double>()[0];
}

struct BadName {
  const char* group;
  const char* tensor;
  const char* document;
  const char* message;
};

TEST(CheckpointNames, ThoseThatCannotBeLoadedAreRefused) {
  const FreshRank rank;
  const TemporaryFolder folder;
  const BadName bad[] = {{"model/ema", "x", "d",
                          "the name of a group must not be empty or contain a slash, because a slash ends the name in "
                          "the files; got \"model/ema\""},
                         {"", "x", "d", "the name of a group must not be empty"},
                         {"a\xff", "x", "d", "the name of a group must be UTF-8, got \"a\\xff\""},
                         {"model", "w\xff\xfe", "d", "the name of a tensor must be UTF-8, got \"w\\xff\\xfe\""},
                         {"model", "x", "manifest", "a document cannot be named manifest"},
                         {"model", "x", "../escaped", "the document \"../escaped\" is written to a file of its name"}};
  for (const BadName& one : bad) {
    const CheckpointContent content{.states = {{one.group, state_with(one.tensor, 1)}},
                                    .documents = {{one.document, JsonObject()}}};
    const std::string path = folder.file("checkpoint-1");
    const std::string error = error_of([&] { save_checkpoint(path, content); });
    EXPECT_EQ(error.find("cannot save " + path + ": " + one.message), 0U) << error;
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(CheckpointNames, ControlCharactersAndOtherScriptsAreLoadedAgain) {
  const FreshRank rank;
  const TemporaryFolder folder;
  const std::string name = "w\n\"\x01 \xc3\xbc/y";
  save_checkpoint(folder.file("checkpoint-1"), {.states = {{"model", state_with(name, 7)}}, .documents = {}});
  const StateDict state = state_with(name, 0);
  load_checkpoint(folder.file("checkpoint-1"), {{"model", state}});
  EXPECT_EQ(state.find(name)->tensor.to_host().data<double>()[3], 7);
}

TEST(CheckpointNames, AFolderNeedsAName) {
  const FreshRank rank;
  EXPECT_EQ(error_of([&] { save_checkpoint("", content_with(1)); }),
            "cannot save a checkpoint: the name of the folder is empty");
  for (const std::string name : {"/", ".", "x/.."})
    EXPECT_EQ(error_of([&] {
                save_checkpoint(name, content_with(1));
              }).find("cannot save a checkpoint to " + name + ": give the name of a new folder"),
              0U)
        << name;
}

TEST(CheckpointRanks, MustSaveTheSameTensorsDocumentsAndFolder) {
  const TemporaryFolder folder;
  on_ranks(3, [&](int rank) {
    const bool is_other = rank == 1;
    const std::string path = folder.file("checkpoint-1");
    const auto error = [&](const std::string& place, const char* group, const char* document) {
      const CheckpointContent content{.states = {{group, state_with("x", 1)}}, .documents = {{document, JsonObject()}}};
      return error_of([&] { save_checkpoint(place, content); });
    };
    const std::string groups = error(path, is_other ? "n" : "m", "d");
    EXPECT_NE(groups.find("the ranks save tensors with other names or types, whose hashes are: "), std::string::npos)
        << groups;
    EXPECT_EQ(
        error(path, "m", is_other ? "e" : "d"),
        "cannot save " + path +
            ": the ranks save other documents: d on ranks 0, 2; e on rank 1; all ranks must save the same checkpoint");
    const std::string folders = error(is_other ? path + "0" : path, "m", "d");
    EXPECT_NE(folders.find("the ranks save to different folders: "), std::string::npos) << folders;
  });
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(CheckpointFolder, TwoWritersCannotUseOneAtTheSameTime) {
  const TemporaryFolder folder;
  on_ranks(2, [&](int) {
    const std::string path = folder.file("checkpoint-1");
    CheckpointWriter first;
    first.begin(path, content_with(1));
    CheckpointWriter second;
    EXPECT_EQ(
        error_of([&] { second.begin(path + "/", content_with(2)); }),
        "cannot save " + path + "/: another CheckpointWriter is still saving this folder; call its finish() first");
    EXPECT_EQ(first.finish().value().error, "");
    EXPECT_EQ(value_in(path), 1);
    second.begin(path, content_with(2));
    EXPECT_EQ(second.finish().value().error, "");
    EXPECT_EQ(value_in(path), 2);
  });
}

TEST(CheckpointFolder, OnlyWhatASaveHasLeftIsDeleted) {
  const FreshRank rank;
  const TemporaryFolder folder;
  const std::string path = folder.file("checkpoint-1");
  const std::string notes = folder.write("checkpoint-1.partial/notes.txt", "mine");
  const std::string expected = path + ".partial exists, and no save of a checkpoint has left it";
  EXPECT_NE(error_of([&] { save_checkpoint(path, content_with(1)); }).find(expected), std::string::npos);
  save_checkpoint(folder.file("other"), content_with(1));
  EXPECT_NE(error_of([&] { Checkpoint(folder.file("other")).reshard(path, 2); }).find(expected), std::string::npos);
  EXPECT_EQ(read_file(notes), "mine");
  fs::remove_all(path + ".partial");
  (void)folder.write("checkpoint-1.partial/state-00001-of-00002.safetensors", "left");
  (void)folder.write("checkpoint-1.partial/config.json", "{}");
  save_checkpoint(path, content_with(3));
  EXPECT_EQ(value_in(path), 3);
}

// Also if the scope ends with an exception.
TEST(CheckpointWriter, TheEndOfTheScopeFinishesTheSave) {
  const TemporaryFolder folder;
  on_ranks(2, [&](int) {
    {
      CheckpointWriter writer;
      writer.begin(folder.file("checkpoint-1"), content_with(4));
    }
    EXPECT_EQ(value_in(folder.file("checkpoint-1")), 4);
    try {
      CheckpointWriter writer;
      writer.begin(folder.file("checkpoint-2"), content_with(5));
      throw std::runtime_error("the training has failed");
    } catch (const std::runtime_error&) {
    }
    (void)gather_texts(*joined_world(), "");  // one of the ranks has completed it
    EXPECT_EQ(value_in(folder.file("checkpoint-2")), 5);
  });
}

TEST(SaveFile, RefusesNamesThatItCannotHold) {
  const FreshRank rank;
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  EXPECT_EQ(error_of([&] { save(state_with("__metadata__", 1), path); }),
            "cannot save " + path +
                ": safetensors: a tensor cannot be named __metadata__, which has a meaning in the format");
  EXPECT_EQ(error_of([&] { save(state_with("w\xff", 1), path); }),
            "cannot save " + path + ": safetensors: the name of a tensor must be UTF-8, got \"w\\xff\"");
  EXPECT_FALSE(fs::exists(path));
}

TEST(SaveFile, NeedsTheSameNamesOnAllRanks) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  on_ranks(2, [&](int rank) {
    const std::string error = error_of([&] { save(state_with(rank == 0 ? "x" : "y", 1), path); });
    EXPECT_NE(error.find("the ranks save tensors with other names or types"), std::string::npos) << error;
  });
  EXPECT_FALSE(fs::exists(path));
}

TEST(SaveFile, WritesTheTargetOfALink) {
  const FreshRank rank;
  const TemporaryFolder folder;
  fs::create_directory(folder.file("disk"));
  fs::create_symlink("disk/x.safetensors", folder.file("link.safetensors"));
  for (const double value : {1, 2}) {  // a new file, and then an existing one
    save(state_with("x", value), folder.file("link.safetensors"));
    EXPECT_TRUE(fs::is_symlink(folder.file("link.safetensors")));
    EXPECT_EQ(load(folder.file("disk/x.safetensors")).find("x")->tensor.to_host().data<double>()[0], value);
  }
}

}  // namespace
}  // namespace tessera
