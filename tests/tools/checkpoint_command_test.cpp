// SPDX-License-Identifier: Apache-2.0
// tessera checkpoint: the content of a checkpoint, damaged files, and the model folder that it becomes.
#include "checkpoint/small_gpt2.h"
#include "frontend/on_ranks.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/pretrained.h"
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

TEST_F(TesseraCommand, CheckpointsAreInspectedVerifiedAndConsolidated) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {{"config", config_json(model)}}});

  const auto inspected = run("checkpoint inspect " + folder + " --tensors");
  EXPECT_EQ(inspected.code, 0) << inspected.error;
  const auto elements = model.parameter_count();
  for (const std::string& line :
       {fmt::format("model               28{:>14}{:>16}\n", elements, 4 * elements),
        fmt::format("{:<56}{:<24}{:>6}\n", "model/transformer.h.1.attn.c_attn.weight", "f32[12,3,3,4]", 1)})
    EXPECT_NE(inspected.out.find(line), std::string::npos) << line << inspected.out;
  const auto json = JsonObject::parse(run("checkpoint inspect " + folder + " --json").out);
  EXPECT_TRUE(json.has("groups") && json.has("files") && json.has("tensors"));
  EXPECT_TRUE(run("checkpoint verify " + folder).out.starts_with("2 files, "));

  EXPECT_EQ(run("checkpoint consolidate " + folder + " -o " + path("m")).code, 0);
  nn::GPT2LMHeadModel loaded(small_gpt2());
  load_pretrained(loaded, path("m"));
  for (const auto& entry : model.state_dict().entries())
    EXPECT_EQ(loaded.parameter(entry.name).to_host(), entry.tensor.to_host()) << entry.name;
  EXPECT_TRUE(fs::exists(path("m") + "/config.json"));
}

TEST_F(TesseraCommand, CheckpointsAreReshardedAndCompared) {
  const std::string folder = path("checkpoint-3");
  const std::string two = path("two");
  on_ranks(3, [&](int) {
    nn::GPT2LMHeadModel model(small_gpt2());
    save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {{"run", JsonObject()}}});
    Tensor bias = model.parameter("transformer.ln_f.bias");
    bias.assign(bias.detach() + 0.5);
    mark_step();
    save_checkpoint(path("other"), {.states = {{"model", model.state_dict()}}, .documents = {}});
  });
  EXPECT_EQ(run("checkpoint reshard " + folder + " --files 2 -o " + two).code, 0);
  EXPECT_EQ(run("checkpoint verify " + two).code, 0);
  EXPECT_TRUE(fs::exists(two + "/state-00002-of-00002.safetensors"));
  const auto equal = run("checkpoint diff " + folder + " " + two);
  EXPECT_EQ(equal.code, 0);
  EXPECT_NE(equal.out.find("all documents are equal"), std::string::npos) << equal.out;

  const auto different = run("checkpoint diff " + two + " " + path("other"));
  EXPECT_EQ(different.code, 3);
  const std::string expected =
      fmt::format("{0} of {0} elements differ, by at most 0.5\nrun.json differs\n", small_gpt2().n_embd);
  EXPECT_NE(different.out.find(expected), std::string::npos) << different.out;
  EXPECT_TRUE(different.out.ends_with(
      "\n1 of 28 tensors differs; the largest difference is 0.5, at [0] of model/transformer.ln_f.bias\n"))
      << different.out;
  EXPECT_NE(run("checkpoint reshard " + folder + " --files 2 -o " + two).error.find("it exists"), std::string::npos);
  EXPECT_EQ(run("checkpoint reshard " + folder + " --files 0 -o " + path("none")).code, 2);
  EXPECT_EQ(run("checkpoint reshard " + folder + " --files 2 -o " + path("three") + "/.").code, 0);
  EXPECT_EQ(run("checkpoint verify " + path("three")).code, 0);
}

TEST_F(TesseraCommand, AReshardIntoMoreFilesThanRowsIsRefused) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {}});
  const auto many = run("checkpoint reshard " + folder + " --files 49 -o " + path("many"));
  EXPECT_EQ(many.code, 1);
  EXPECT_EQ(many.error, "tessera checkpoint reshard: cannot write " + path("many") +
                            ": 49 files are too many, because no tensor has more than 48 rows "
                            "(model/transformer.h.0.mlp.c_fc.bias); give at most 48 files\n");
  EXPECT_FALSE(fs::exists(path("many")));
  EXPECT_EQ(run("checkpoint reshard " + folder + " --files 48 -o " + path("many")).code, 0);
}

TEST_F(TesseraCommand, AConsolidationReplacesNoFiles) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {}});
  fs::create_directory(path("m"));  // an empty folder may be there
  EXPECT_EQ(run("checkpoint consolidate " + folder + " -o " + path("m")).code, 0);
  for (const std::string& used : {path("m"), folder}) {
    const auto again = run("checkpoint consolidate " + folder + " -o " + used);
    EXPECT_EQ(again.code, 1);
    EXPECT_EQ(again.error, "tessera checkpoint consolidate: cannot write " + used +
                               ": it exists, and is not empty; give a new folder\n");
  }
  EXPECT_FALSE(fs::exists(folder + "/model.safetensors"));
}

TEST_F(TesseraCommand, TheLargestFileOfAModelFolderHasUnits) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {}});
  const auto written = run("checkpoint consolidate " + folder + " --max-shard-bytes 8KB --json -o " + path("m"));
  ASSERT_EQ(written.code, 0) << written.error;
  JsonObject files;
  ASSERT_TRUE(JsonObject::parse(written.out).read("files", files));
  EXPECT_TRUE(files.has("model-00001-of-00003.safetensors") && files.has("model.safetensors.index.json"))
      << written.out;
  for (const std::string wrong : {"5parsecs", "0", "-3GB"})
    EXPECT_EQ(run("checkpoint consolidate " + folder + " --max-shard-bytes=" + wrong + " -o " + path("n")).code, 2);
}

TEST_F(TesseraCommand, CheckpointsAreDescribedAsJson) {
  nn::GPT2LMHeadModel model(small_gpt2());
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 0.1});
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder,
                  {.states = {{"model", model.state_dict()}, {"optimizer", optimizer.state_dict()}}, .documents = {}});
  EXPECT_NE(run("checkpoint inspect " + folder).out.find("  AdamW\n"), std::string::npos);
  const auto json = JsonObject::parse(run("checkpoint inspect " + folder + " --json").out);
  JsonObject groups, group;
  ASSERT_TRUE(json.read("groups", groups) && groups.read("optimizer", group));
  EXPECT_EQ(group.text("class"), "AdamW");
  std::vector<JsonObject> tensors;
  json.read("tensors", tensors);
  for (const JsonObject& one : tensors) {
    if (one.text("name") != "transformer.h.1.attn.c_attn.weight") continue;
    std::vector<std::int64_t> shape, exported;
    one.read("shape", shape);
    one.read("exported_shape", exported);
    EXPECT_EQ(one.text("dtype"), "f32");
    EXPECT_EQ(shape, (std::vector<std::int64_t>{12, 3, 3, 4}));
    EXPECT_EQ(exported, (std::vector<std::int64_t>{12, 36}));
  }
  bool passed = false;
  EXPECT_TRUE(JsonObject::parse(run("checkpoint verify " + folder + " --json").out).read("passed", passed));
  EXPECT_TRUE(passed);
  const std::string file = folder + "/state-00001-of-00001.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  const auto damaged = run("checkpoint verify " + folder + " --json");
  EXPECT_EQ(damaged.code, 1);
  const auto report = JsonObject::parse(damaged.out);
  EXPECT_TRUE(report.read("passed", passed) && !passed);
  EXPECT_NE(report.text("error").find(file), std::string::npos) << damaged.out;
  EXPECT_NE(damaged.error.find(file), std::string::npos) << damaged.error;
}

TEST_F(TesseraCommand, ACheckpointNeedsAFolderToWrite) {
  nn::GPT2LMHeadModel model(small_gpt2());
  save_checkpoint(path("checkpoint-3"), {.states = {{"model", model.state_dict()}}, .documents = {}});
  for (const std::string verb : {"reshard --files 2", "consolidate"}) {
    const auto outcome = run("checkpoint " + verb + " " + path("checkpoint-3") + " -o=");
    EXPECT_EQ(outcome.code, 2) << verb;
    EXPECT_NE(outcome.error.find("-o needs the folder to write"), std::string::npos) << verb << outcome.error;
  }
}

TEST_F(TesseraCommand, AConsolidationThatFailsLeavesNothing) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {}});
  const auto limited = run("checkpoint consolidate " + folder + " -o " + path("m"), "ulimit -f 8; exec");
  EXPECT_EQ(limited.code, 1);
  EXPECT_NE(limited.error.find("model.safetensors.partial: File too large"), std::string::npos) << limited.error;
  EXPECT_FALSE(fs::exists(path("m")) || fs::exists(path("m.partial")));
  fs::create_directory(path("m"));
  EXPECT_EQ(run("checkpoint consolidate " + folder + " -o " + path("m"), "ulimit -f 8; exec").code, 1);
  EXPECT_TRUE(fs::is_empty(path("m")));
}

// A command that runs `then` when a consolidation has written the file `written`, and kills the consolidation after that.
std::string killed_at(const std::string& written, const std::string& then = "true") {
  return fmt::format(
      " & pid=$!; n=0; while [ ! -e {0} ] && [ $n -lt 1000 ]; do sleep 0.1; n=$((n + 1)); done; {1}; kill -9 $pid; "
      "wait "
      "$pid; test -e {0}",
      written, then);
}
constexpr const char* kSlowRenames = "TESSERA_RENAME_DELAY=60000";

TEST_F(TesseraCommand, AKilledConsolidationCanBeRepeated) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {{"config", config_json(model)}}});
  save_checkpoint(path("other"), {.states = {{"model", model.state_dict()}}, .documents = {}});
  const std::string partial = path("m.partial");
  const std::string from[] = {folder, path("other")};
  for (const bool is_empty : {false, true})
    for (int i = 0; i < 2; ++i) {
      if (is_empty) fs::create_directory(path("m"));
      const std::string command = "checkpoint consolidate " + from[i] + " -o " + path("m");
      EXPECT_EQ(run(command + killed_at(partial + "/model.safetensors.partial"), kSlowRenames).code, 0);
      EXPECT_EQ(fs::exists(path("m")), is_empty) << "a folder with weights would not be complete";
      const auto again = run(command);
      EXPECT_EQ(again.code, 0) << again.error;
      EXPECT_EQ(again.error, "warning: deleted " + partial + ", which an interrupted consolidation left\n");
      EXPECT_FALSE(fs::exists(partial) || fs::exists(path("m/unfinished_by_tessera")));
      EXPECT_TRUE(fs::exists(path("m/model.safetensors")));
      EXPECT_EQ(fs::exists(path("m/config.json")), i == 0);
      fs::remove_all(path("m"));
    }
}

TEST_F(TesseraCommand, AConsolidationDeletesOnlyItsOwnFiles) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {}});
  const std::string command = "checkpoint consolidate " + folder + " -o " + path("m");
  const std::string partial = path("m.partial");
  fs::create_directory(partial);
  (void)file("m.partial/model.safetensors", "of the user");
  const std::string expected =
      "tessera checkpoint consolidate: " + partial +
      " exists, and no consolidation has left it; the model is written under this name first, so "
      "move it away\n";
  EXPECT_EQ(run(command).error, expected);
  EXPECT_EQ(content(partial + "/model.safetensors"), "of the user");
  (void)file("m.partial/notes.txt", "of the user");
  (void)file("m.partial/unfinished_by_tessera", "");
  EXPECT_NE(run(command).error.find(expected), std::string::npos);
  EXPECT_EQ(content(partial + "/notes.txt"), "of the user");
  fs::remove_all(partial);
  // A consolidation that still runs.
  const auto second =
      run(command + killed_at(partial + "/model.safetensors.partial", fmt::format("'{}' {}", TESSERA_COMMAND, command)),
          kSlowRenames);
  EXPECT_EQ(second.code, 0);
  const std::string busy = "another process is writing " + partial + "; wait for its end, or give another folder\n";
  EXPECT_TRUE(second.error.starts_with("tessera checkpoint consolidate: " + busy)) << second.error;
}

// The current folder cannot be replaced.
TEST_F(TesseraCommand, AConsolidationIntoTheCurrentFolderCanBeRepeated) {
  nn::GPT2LMHeadModel model(small_gpt2());
  save_checkpoint(path("checkpoint-3"), {.states = {{"model", model.state_dict()}}, .documents = {}});
  fs::create_directory(path("m"));
  const std::string command = "checkpoint consolidate " + path("checkpoint-3") + " -o .";
  const std::string there = "cd " + path("m") + " && ";
  EXPECT_EQ(run(command + killed_at("model.safetensors.partial"), "cd " + path("m") + "; " + kSlowRenames).code, 0);
  const auto again = run(command, there);
  EXPECT_EQ(again.code, 0) << again.error;
  EXPECT_TRUE(again.error.ends_with("/m, which an interrupted consolidation left\n")) << again.error;
  EXPECT_EQ(std::distance(fs::directory_iterator(path("m")), {}), 1);
  EXPECT_TRUE(fs::exists(path("m/model.safetensors")));
}

TEST_F(TesseraCommand, ADamagedCheckpointIsNamed) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {}});
  const std::string file = folder + "/state-00001-of-00001.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  write_file(file, bytes);
  const auto verified = run("checkpoint verify " + folder);
  EXPECT_EQ(verified.code, 1);
  EXPECT_EQ(verified.error,
            "tessera checkpoint verify: " + folder + " is damaged: " + file +
                ": damaged: the bytes 16384 to 19600 do not have the checksum with which they were saved\n");
  EXPECT_EQ(
      run("checkpoint inspect").error,
      "tessera checkpoint inspect: an input is missing: the folder of a checkpoint\ntry `tessera checkpoint inspect "
      "--help`\n");
  EXPECT_EQ(run("checkpoint inspect nothing").error, "tessera checkpoint inspect: there is no folder nothing\n");
  const std::string near = "; the newest checkpoint there is " + folder + "\n";
  EXPECT_EQ(run("checkpoint verify " + path("checkpoint-9/")).error,
            "tessera checkpoint verify: there is no folder " + path("checkpoint-9/") + near);
  const std::string parent = fs::path(folder).parent_path().string();
  EXPECT_EQ(
      run("checkpoint inspect " + parent).error,
      "tessera checkpoint inspect: " + parent + " is not a complete checkpoint: it contains no manifest.json" + near);
  EXPECT_EQ(
      run("checkpoint inspekt x").error,
      "tessera: unknown verb \"checkpoint inspekt\"; did you mean \"checkpoint inspect\"?\ntry `tessera --help`\n");
}

TEST_F(TesseraCommand, ACheckpointOfANewerVersionIsNotCalledDamaged) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string folder = path("checkpoint-3");
  save_checkpoint(folder, {.states = {{"model", model.state_dict()}}, .documents = {}});
  const std::string file = folder + "/manifest.json";
  std::string manifest = read_file(file);
  manifest[manifest.find("\"version\":2") + 10] = '3';
  write_file(file, manifest);
  const std::string reason =
      file +
      ": the checkpoint was written by a newer version of Tessera: its format has version 3, and this program reads "
      "version 2; use the program that wrote it, or give another checkpoint";
  for (const std::string verb : {"inspect", "verify"}) {
    const auto outcome = run("checkpoint " + verb + " " + folder);
    EXPECT_EQ(outcome.code, 1) << verb;
    EXPECT_EQ(outcome.error, "tessera checkpoint " + verb + ": " + reason + "\n");
  }
  EXPECT_EQ(JsonObject::parse(run("checkpoint verify " + folder + " --json").out).text("error"), reason);
}

// Only verify reports the damage as JSON, too.
TEST_F(TesseraCommand, EveryVerbNamesAFileThatIsDamagedOrMissing) {
  nn::GPT2LMHeadModel model(small_gpt2());
  const std::string good = path("checkpoint-3");
  const std::string bad = path("checkpoint-4");
  const std::string state = "state-00001-of-00001.safetensors";
  for (const std::string& name : {std::string("manifest.json"), std::string("config.json"), state, state + ".xxh3"})
    for (const bool is_missing : {false, true}) {
      fs::remove_all(bad);
      for (const std::string& folder : {good, bad})
        save_checkpoint(folder,
                        {.states = {{"model", model.state_dict()}}, .documents = {{"config", config_json(model)}}});
      std::string bytes = read_file(bad + "/" + name);
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
      is_missing ? static_cast<void>(fs::remove(bad + "/" + name)) : write_file(bad + "/" + name, bytes);
      std::vector<std::string> commands = {"verify " + bad, "consolidate " + bad + " -o " + path("m"),
                                           "reshard " + bad + " --files 2 -o " + path("r"), "diff " + good + " " + bad,
                                           "diff " + bad + " " + good};
      if (name == "manifest.json") commands.push_back("inspect " + bad);
      for (const std::string& command : commands) {
        const auto outcome = run("checkpoint " + command + " --json");
        EXPECT_EQ(outcome.code, 1) << command << outcome.error;
        EXPECT_NE(outcome.error.find(bad), std::string::npos) << command << outcome.error;
        EXPECT_NE(outcome.error.find(name), std::string::npos) << command << outcome.error;
        if (command.starts_with("verify")) {
          EXPECT_NE(JsonObject::parse(outcome.out).text("error").find(name), std::string::npos) << outcome.out;
        } else {
          EXPECT_EQ(outcome.out, "") << command;
        }
        for (const char* left : {"m", "m.partial", "r", "r.partial"}) EXPECT_FALSE(fs::exists(path(left))) << command;
      }
    }
}

TEST_F(TesseraCommand, TheFirstWordOfCheckpointVerbsPrintsThem) {
  const auto help = run("checkpoint --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("  checkpoint reshard      writes a checkpoint in another number of files\n"),
            std::string::npos)
      << help.out;
  EXPECT_EQ(help.out.find("tokenize"), std::string::npos) << help.out;
  const auto alone = run("checkpoint");
  EXPECT_EQ(alone.code, 2);
  EXPECT_EQ(alone.error, help.out);
}

TEST_F(TesseraCommand, LinesAboutOptionsHaveAtMost120Columns) {
  for (const char* verb : {"launch", "tokenize", "partition", "run", "check", "print", "stats", "optimize"}) {
    const auto text = run(std::string(verb) + " --help").out;
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
      const std::string line = text.substr(begin, end - begin);
      EXPECT_TRUE(!line.starts_with("  ") || line.size() <= 120) << line;
    }
  }
}

}  // namespace
}  // namespace tessera::command_tests
