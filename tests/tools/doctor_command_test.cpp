// SPDX-License-Identifier: Apache-2.0
// `tessera doctor` on programs without and with faults, which mpirun starts.
#include <algorithm>
#include <csignal>
#include <map>

#include "doctor/checklist.h"
#include "tessera/base/json_object.h"
#include "tools/command_fixture.h"

namespace tessera::command_tests {
namespace {

struct Checked {
  Outcome outcome;
  std::map<std::string, JsonObject> items;  // by name
  [[nodiscard]] std::string text(const std::string& item, std::string_view key) const {
    const auto found = items.find(item);
    return found == items.end() ? "no item" : found->second.text(key);
  }
};

class DoctorCommand : public TesseraCommand {
 protected:
  [[nodiscard]] Checked doctor(const std::string& words) const {
    allow_mpirun();
    const std::string json = path("list.json");
    fs::remove(json);
    Checked out{run(fmt::format("doctor --json '{}' {}", json, words)), {}};
    std::vector<JsonObject> items;
    if (fs::exists(json)) JsonObject::from_file(json).read("items", items);
    for (const JsonObject& item : items) {
      EXPECT_NE(out.outcome.out.find(
                    fmt::format("{:<8} {:<15} {}", item.text("finding"), item.text("name"), item.text("evidence"))),
                std::string::npos)
          << out.outcome.out;
      out.items.emplace(item.text("name"), item);
    }
    const bool is_good =
        std::all_of(items.begin(), items.end(), [](const auto& i) { return i.text("finding") == "ok"; });
    EXPECT_EQ(out.outcome.code, is_good && !items.empty() ? 0 : 1) << out.outcome.error;
    return out;
  }

  // The machine and the waits for data depend on the machine, so this checks the other items.
  static void expect_only(const Checked& checked, const std::string& fault) {
    for (const char* name : {"program", "compilation", "host reads", "host ops", "initial values", "sharding"})
      EXPECT_EQ(checked.text(name, "finding"), name == fault ? "warning" : "ok")
          << name << ": " << checked.outcome.out << checked.outcome.error;
  }
  static void expect_part(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text << "\ndoes not contain\n" << part;
  }
};

TEST_F(DoctorCommand, StopsATrainingProgramAfterTheSteps) {
  const std::string config =
      file("config.json", R"({"model_type": "gpt2", "n_head": 3, "n_embd": 12, "n_layer": 2, "n_positions": 15,)"
                          R"( "vocab_size": 257})");
  std::string words;
  for (int i = 0; i < 1500; ++i) words += fmt::format("{} ", i * i % 97);
  const Checked checked =
      doctor(fmt::format("-np 2 --steps 9 -- {} --config_name {} --train_file {} --block_size 15 --global_batch_size 4 "
                         "--max_steps 1000000 --disable_tqdm --sample_tokens 0 --do_eval false",
                         TESSERA_RUN_CLM, config, file("text.txt", words)));
  expect_only(checked, "");
  EXPECT_EQ(checked.text("program", "evidence"), "ranks: 2, steps: 9, stopped by the doctor");
  expect_part(checked.text("compilation", "evidence"), "programs: 2");
  expect_part(checked.text("data", "evidence"), "the ranks have compared 2 files, and compare values from the host");
  expect_part(checked.text("machine", "evidence"), "; threads: 1 for each rank; ");
  expect_part(checked.text("sharding", "evidence"), "are sharded over mesh<data=2>");
  expect_part(checked.outcome.error, "2 layers");  // what the program prints is not on standard output
}

TEST_F(DoctorCommand, ChecksAProgramThatEndsByItself) {
  const Checked checked = doctor(fmt::format("-np 2 -- {} --steps 6", TESSERA_SIMPLE_LINEAR));
  expect_only(checked, "");
  EXPECT_EQ(checked.text("program", "evidence"), "ranks: 2, steps: 6, ended with exit code 0");
  EXPECT_EQ(doctor(fmt::format("-- {} --virtual_ranks 2 --steps 6", TESSERA_SIMPLE_LINEAR)).text("program", "evidence"),
            "ranks: 2, steps: 6, ended with exit code 0");
}

TEST_F(DoctorCommand, EndsAProgramThatDoesNotWatchForSignals) {
  const Checked checked = doctor(fmt::format("-np 2 -- {} endless", TESSERA_FAULTY_PROGRAM));
  expect_only(checked, "");
  EXPECT_EQ(checked.text("program", "evidence"), "ranks: 2, steps: 10, killed by the SIGTERM of the doctor");
}

TEST_F(DoctorCommand, DoesNotCountEvaluationsAsSteps) {
  const Checked checked = doctor(fmt::format("-np 2 -- {} evaluations", TESSERA_FAULTY_PROGRAM));
  expect_only(checked, "");  // the reads of the evaluations are not those of the steps
  expect_part(checked.text("program", "evidence"), "ranks: 2, steps: 10, evaluations: 9, ");
  const std::string config =
      file("config.json", R"({"model_type": "gpt2", "n_head": 3, "n_embd": 12, "n_layer": 1, "n_positions": 15,)"
                          R"( "vocab_size": 257})");
  std::string words;
  for (int i = 0; i < 500; ++i) words += fmt::format("{} ", i * i % 97);
  const Checked trained = doctor(
      fmt::format("--steps 5 -- {} --config_name {} --train_file {} --block_size 15 --global_batch_size 4 --max_steps "
                  "1000000 --disable_tqdm --sample_tokens 0 --eval_strategy steps --eval_steps 1 --save_strategy no",
                  TESSERA_RUN_CLM, config, file("text.txt", words)));
  EXPECT_EQ(trained.text("program", "evidence"), "ranks: 1, steps: 5, evaluations: 4, stopped by the doctor");
}

TEST_F(DoctorCommand, NamesTheSignalThatKillsTheProgram) {
  const Checked checked = doctor(fmt::format("-- {} killed", TESSERA_FAULTY_PROGRAM));
  EXPECT_EQ(checked.text("program", "finding"), "error");
  EXPECT_EQ(checked.text("program", "evidence"), "ranks: 1, steps: 6, killed by SIGKILL (exit code 137)");
}

TEST(Checklist, SaysHowTheProgramEnded) {
  using command::JobEnd;
  struct Case {
    JobEnd end;
    bool has_ended;  // by itself
    std::string how;
    std::string_view finding;
  };
  const Case cases[] = {
      {{.status = 0}, true, "ended with exit code 0", "ok"},
      {{.status = 3}, true, "ended with exit code 3", "error"},
      {{.status = 139}, false, "killed by SIGSEGV (exit code 139)", "error"},
      {{.status = 139}, true, "ended with exit code 139", "error"},
      {{.status = 143, .is_stopped = true}, true, "stopped by the doctor", "ok"},
      {{.status = 143, .is_stopped = true}, false, "killed by the SIGTERM of the doctor", "ok"},
      {{.status = 143, .is_stopped = true, .seconds_after_signal = 31},
       false,
       "killed 30 s after the SIGTERM of the doctor, because it did not end",
       "warning"},
      {{.status = 143, .is_stopped = true, .seconds_after_signal = 29}, true, "stopped by the doctor", "ok"},
      {{.status = 1, .is_stopped = true}, true, "ended with exit code 1 after the SIGTERM of the doctor", "error"},
      {{.status = 0, .is_stopped = true}, true, "ended with exit code 0", "ok"},
      {{.status = 130, .signal = SIGINT}, true, "stopped by SIGINT", "warning"},
      {{.status = 130, .signal = SIGINT}, false, "killed by SIGINT", "warning"}};
  for (const auto& [end, has_ended, how, finding] : cases) {
    const command::Record record{.starts = {JsonObject::parse(R"({"ranks": 1})")},
                                 .steps = std::vector<command::Record::Step>(1),
                                 .has_ended = has_ended};
    const command::Item item = checklist(record, end).front();
    EXPECT_EQ(item.evidence, "ranks: 1, steps: 1, " + how);
    EXPECT_EQ(item.finding, finding) << how;
  }
}

TEST_F(DoctorCommand, NamesTheCauseOfLateCompilations) {
  const Checked shapes = doctor(fmt::format("-np 2 --steps 8 -- {} shapes", TESSERA_FAULTY_PROGRAM));
  expect_only(shapes, "compilation");
  expect_part(shapes.text("compilation", "evidence"), "programs: 8; faulty_program.cpp:");
  expect_part(shapes.text("compilation", "evidence"), " needs 5 after step 3, the last one in step 8: input ");
  expect_part(shapes.text("compilation", "evidence"), " f32[11] before");
  const Checked constants = doctor(fmt::format("-- {} constants", TESSERA_FAULTY_PROGRAM));
  expect_only(constants, "compilation");
  expect_part(constants.text("compilation", "evidence"), "its inputs are equal, so a constant");
}

TEST_F(DoctorCommand, NamesReadsAndOpsOnTheHost) {
  const Checked reads = doctor(fmt::format("-np 2 -- {} reads", TESSERA_FAULTY_PROGRAM));
  expect_only(reads, "host reads");
  expect_part(reads.text("host reads", "evidence"), "host_read::faulty_program.cpp:");
  expect_part(reads.text("host reads", "evidence"), " 7 times in 7 of 7 steps");
  const Checked ops = doctor(fmt::format("-- {} host_ops", TESSERA_FAULTY_PROGRAM));
  EXPECT_EQ(ops.text("host ops", "finding"), "warning") << ops.outcome.out;
  expect_part(ops.text("host ops", "evidence"), "fallback::look 7 times in 7 of 7 steps");
}

TEST_F(DoctorCommand, FindsRanksThatDoTheSameWork) {
  const Checked two = doctor(fmt::format("-np 2 -- {} replicated", TESSERA_FAULTY_PROGRAM));
  expect_only(two, "sharding");
  expect_part(two.text("sharding", "evidence"), "are sharded over mesh<data=2>; the ranks along data do the same work");
  expect_only(doctor(fmt::format("-- {} replicated", TESSERA_FAULTY_PROGRAM)), "");
}

TEST_F(DoctorCommand, ProgramsWithoutStepsAndWithErrorsAreErrors) {
  const std::pair<std::string, std::string> cases[] = {
      {"/bin/true", "no rank has used Tessera, ended with exit code 0; call tessera::launch()"},
      {"/bin/false", "no rank has used Tessera, ended with exit code 1; see its messages above"},
      {fmt::format("'{}' env", TESSERA_COMMAND),
       "ranks: 2, steps: 0, ended with exit code 0; no step of the training has ended"},
      {fmt::format("{} error", TESSERA_FAULTY_PROGRAM),
       "ranks: 2, steps: 6, ended with exit code 1; see its messages"}};
  for (const auto& [program, line] : cases) {
    const Checked checked = doctor(fmt::format("-np 2 -- {}", program));
    EXPECT_EQ(checked.text("program", "finding"), "error") << program;
    expect_part(checked.outcome.out, fmt::format("{:<8} {:<15} {}", "error", "program", line));
  }
}

TEST_F(DoctorCommand, TooFewStepsAreAWarning) {
  const Checked checked = doctor(fmt::format("--steps 2 -- {}", TESSERA_FAULTY_PROGRAM));
  expect_part(checked.text("compilation", "advice"), "at least 5 steps");
  for (const char* item : {"host reads", "host ops", "initial values", "data"}) {
    EXPECT_EQ(checked.text(item, "finding"), "warning") << item;
    EXPECT_EQ(checked.text(item, "evidence"), "not checked: 2 of at least 5 steps") << item;
  }
}

TEST_F(DoctorCommand, MistakesAreErrors) {
  EXPECT_EQ(run("doctor").code, 2);
  expect_part(run("doctor").error, "an input is missing: the program to run: tessera doctor -np N -- PROGRAM");
  expect_part(run("doctor --steps 0 -- /bin/true").error, "--steps takes a number from 1 to 1000, got \"0\"");
  const Outcome json = run(fmt::format("doctor --json - -- {}", TESSERA_FAULTY_PROGRAM));
  EXPECT_TRUE(JsonObject::parse(json.out).has("items")) << json.out;
}

}  // namespace
}  // namespace tessera::command_tests
