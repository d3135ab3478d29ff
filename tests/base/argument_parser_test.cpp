// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/argument_parser.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

struct Settings {
  bool fast = false;
  bool check = true;
  std::int64_t steps = 100;
  double rate = 0.5;
  std::string name = "none";
  std::string kind = "a";
  std::string shard;
  std::optional<std::int64_t> rows;
  ArgumentParser parser{"prog", "Does things."};

  Settings() {
    parser.flag("fast", fast, "be quick").flag("check", check, "look twice").flag("max_steps", steps, "how many");
    parser.group("more")
        .flag("learning_rate", rate, "")
        .flag("name", name, "who")
        .choice("kind", kind, {"a", "b"}, "which");
    parser.text_or_bare("shard", shard, "true", "how").flag("rows", rows, "rows");
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
};

TEST(ArgumentParser, AcceptsValuesAfterSpaceOrEqualsAndDashesForUnderscores) {
  Settings s;
  ASSERT_TRUE(s.parser.parse({"--max_steps", "-1", "--learning-rate=1e-3", "--name", "x y", "--rows=7"}));
  EXPECT_EQ(s.steps, -1);
  EXPECT_EQ(s.rate, 1e-3);
  EXPECT_EQ(s.name, "x y");
  EXPECT_EQ(s.rows, 7);
  EXPECT_TRUE(s.parser.was_given("rows"));
  EXPECT_FALSE(s.parser.was_given("kind"));
  EXPECT_EQ(s.parser.given(),
            (std::vector<std::string>{"--max_steps -1", "--learning_rate 0.001", "--name x y", "--rows 7"}));
}

TEST(ArgumentParser, BooleansHaveAnOptionalValueAndANegatedForm) {
  Settings s;
  ASSERT_TRUE(s.parser.parse({"--fast", "--no_check"}));
  EXPECT_TRUE(s.fast);
  EXPECT_FALSE(s.check);
  ASSERT_TRUE(s.parser.parse({"--fast", "False", "--check=yes"}));
  EXPECT_FALSE(s.fast);
  EXPECT_TRUE(s.check);
  EXPECT_EQ(error_of([&] { s.parser.parse({"--fast", "maybe"}); }), "--fast takes true or false, got \"maybe\"");
}

TEST(ArgumentParser, ABareTextFlagMeansItsBareValue) {
  Settings s;
  ASSERT_TRUE(s.parser.parse({"--shard", "--fast"}));
  EXPECT_EQ(s.shard, "true");
  ASSERT_TRUE(s.parser.parse({"--shard", "full now"}));
  EXPECT_EQ(s.shard, "full now");
}

TEST(ArgumentParser, TheLastValueCounts) {
  Settings s;
  ASSERT_TRUE(s.parser.parse({"--max_steps", "5", "--max_steps=6"}));
  EXPECT_EQ(s.steps, 6);
}

TEST(ArgumentParser, ErrorsNameTheMistake) {
  Settings s;
  const auto error = [&](std::vector<std::string> arguments) { return error_of([&] { s.parser.parse(arguments); }); };
  EXPECT_EQ(error({"--max_step", "5"}), "unknown option --max_step; did you mean \"--max_steps\"?");
  EXPECT_EQ(error({"--qqqqqqqqqqqq"}), "unknown option --qqqqqqqqqqqq; --help lists the options");
  EXPECT_EQ(error({"--max_steps"}), "--max_steps needs a value");
  EXPECT_EQ(error({"--max_steps", "--fast"}), "--max_steps needs a value");
  EXPECT_EQ(error({"--max_steps", "5x"}), "--max_steps takes an integer, got \"5x\"");
  EXPECT_EQ(error({"--learning_rate", "fast"}), "--learning_rate takes a number, got \"fast\"");
  EXPECT_EQ(error({"--kind", "c"}), "--kind takes one of a, b, got \"c\"");
  EXPECT_EQ(error({"5"}), "unexpected argument \"5\": an option starts with --, and a value follows its option");
}

TEST(ArgumentParser, AnOverrideCountsMoreThanItsFlag) {
  Settings s;
  s.parser.override_name("training.max_updates", "max_steps").override_name("training.none", "no_such_flag");
  s.parser.without_effect("training.device", "xla", "there is one device");
  ASSERT_TRUE(s.parser.parse({"training.max_updates=7", "--max_steps", "5", "training.device=cuda"}));
  EXPECT_EQ(s.steps, 7);
  EXPECT_EQ(s.parser.notes(), std::vector<std::string>{"--training.device cuda has no effect: there is one device"});
  const auto error = [&](std::vector<std::string> arguments) { return error_of([&] { s.parser.parse(arguments); }); };
  EXPECT_EQ(error({"training.max_update=7"}),
            "unknown override training.max_update; did you mean \"training.max_updates\"?");
  EXPECT_EQ(error({"training.devise=xla"}), "unknown override training.devise; did you mean \"training.device\"?");
  EXPECT_EQ(error({"training.max_updates=x"}), "--max_steps takes an integer, got \"x\"");
  EXPECT_EQ(error({"max_steps=2"}),
            "unexpected argument \"max_steps=2\": an option starts with --, and a value follows its option");
  EXPECT_NE(error({"training.none=1"}).find("unknown override training.none"), std::string::npos);
}

TEST(ArgumentParser, AJsonFileAloneHoldsFlags) {
  const TemporaryFolder folder;
  Settings s;
  ASSERT_TRUE(s.parser.parse(
      {folder.write("a.json", R"({"max_steps": 3, "fast": true, "rows": 2, "kind": "b", "name": null})")}));
  EXPECT_EQ(s.steps, 3);
  EXPECT_TRUE(s.fast);
  EXPECT_EQ(s.rows, 2);
  EXPECT_EQ(s.kind, "b");
  EXPECT_EQ(s.name, "none");
  ASSERT_TRUE(s.parser.parse({folder.write("d.json", R"({"shard": true})")}));
  EXPECT_EQ(s.shard, "true");
  ASSERT_TRUE(s.parser.parse({folder.write("d.json", R"({"shard": false})")}));
  EXPECT_EQ(s.shard, "");
  ASSERT_TRUE(s.parser.parse({folder.write("e.json", R"({"max_steps": 3, "rows": 4})"), "--max_steps", "7"}));
  EXPECT_EQ(s.steps, 7);  // a flag after the file replaces its value
  const std::string unknown = folder.write("b.json", R"({"max_stepz": 3})");
  EXPECT_EQ(error_of([&] { s.parser.parse({unknown}); }),
            unknown + ": unknown key \"max_stepz\"; did you mean \"max_steps\"?");
  const std::string choice = folder.write("c.json", R"({"kind": "z"})");
  EXPECT_EQ(error_of([&] { s.parser.parse({choice}); }), "--kind takes one of a, b, got \"z\"");
}

TEST(ArgumentParser, AFlagAfterAFileResetsThoseThatItExcludes) {
  const TemporaryFolder folder;
  const std::string file = folder.write("a.json", R"({"rows": 4, "name": "n", "kind": "b", "max_steps": 3})");
  Settings s;
  s.parser.exclude("fast", "rows").exclude("fast", "name").exclude("shard", "kind=b").exclude("fast", "no_such_flag");
  ASSERT_TRUE(s.parser.parse({file, "--fast", "false", "--shard", "x"}));
  EXPECT_EQ(s.rows, 4) << "a flag that is false excludes nothing";
  EXPECT_EQ(s.kind, "a");
  ASSERT_TRUE(s.parser.parse({file, "--fast", "--name", "m"}));
  EXPECT_EQ(s.rows, std::nullopt);
  EXPECT_FALSE(s.parser.was_given("rows"));
  EXPECT_EQ(s.name, "m") << "the command line has both flags";
  EXPECT_EQ(s.steps, 3);
  ASSERT_TRUE(s.parser.parse({"--rows", "2", "--fast"}));
  EXPECT_EQ(s.rows, 2) << "there is no file";
}

TEST(ArgumentParser, AFileMayNameItsProgram) {
  const TemporaryFolder folder;
  Settings s;
  EXPECT_EQ(s.parser.json().text("program"), "prog");
  ASSERT_TRUE(s.parser.parse({folder.write("a.json", R"({"program": "prog", "max_steps": 3})")}));
  EXPECT_EQ(s.steps, 3);
  const std::string other = folder.write("b.json", R"({"program": "gorp", "unknown": 3})");
  EXPECT_EQ(error_of([&] { s.parser.parse({other}); }), other + ": has arguments of gorp, but this program is prog");
}

TEST(ArgumentParser, SeveralWordsMayFollowAFlagOfWords) {
  std::string fsdp, optim = "adamw";
  ArgumentParser parser("train", "");
  parser.words_or_bare("fsdp", fsdp, "true", "").flag("optim", optim, "").alias("optimizer", "optim");
  EXPECT_TRUE(parser.parse({"--fsdp", "full_shard", "auto_wrap", "--optimizer", "sgd"}));
  EXPECT_EQ(fsdp + "/" + optim, "full_shard auto_wrap/sgd");
  EXPECT_TRUE(parser.was_given("optim"));
  EXPECT_TRUE(parser.parse({"--fsdp"}));
  EXPECT_EQ(fsdp, "true");
  bool fast = true;
  parser.flag("fast", fast, "").alias("quick", "fast");
  EXPECT_TRUE(parser.parse({"--quick", "false"}));
  EXPECT_FALSE(fast);
}

TEST(ArgumentParser, FurtherWordsMaySetABool) {
  bool counts = false, other = false;
  ArgumentParser parser("train", "");
  parser.flag("counts", counts, "").also_true({"all", "some"}).flag("other", other, "");
  EXPECT_TRUE(parser.parse({"--counts", "some", "--other"}));
  EXPECT_TRUE(counts && other);
  EXPECT_TRUE(parser.parse({"--counts", "no"}));
  EXPECT_FALSE(counts);
  EXPECT_EQ(error_of([&] {
              parser.parse({"--counts", "each"});
            }),
            "--counts takes all, some, true or false, got \"each\"");
  EXPECT_EQ(error_of([&] { parser.parse({"--other", "all"}); }), "--other takes true or false, got \"all\"");
}

TEST(ArgumentParser, FlagsOfOtherProgramsAreNotedOrNamedInOneError) {
  std::int64_t steps = 1;
  ArgumentParser parser("train", "");
  parser.flag("steps", steps, "")
      .without_effect("tf32", "false", "CPUs have full precision")
      .without_effect("use_cpu", "*", "")
      .absent("deepspeed", "", "use --fsdp")
      .absent("push_to_hub", "false", "nothing is uploaded");
  EXPECT_TRUE(parser.parse({"--tf32", "True", "--use_cpu", "--push_to_hub", "False", "--steps", "3"}));
  EXPECT_EQ(parser.notes(), (std::vector<std::string>{"--tf32 True has no effect: CPUs have full precision"}));
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(error_of([&] {
              parser.parse({"--deepspeed", "a.json", "--steps", "5", "--push_to_hub"});
            }),
            "flags of Hugging Face's programs do not exist here: --deepspeed (use --fsdp), --push_to_hub (nothing is "
            "uploaded)");
  EXPECT_EQ(steps, 3);
}

TEST(ArgumentParser, OneErrorNamesAllUnknownFlagsAndThenThoseOfOtherPrograms) {
  const TemporaryFolder folder;
  Settings s;
  s.parser.absent("fp16", "false", "use --bf16").absent("deepspeed", "", "use --fsdp");
  const auto error = [&](std::vector<std::string> arguments) { return error_of([&] { s.parser.parse(arguments); }); };
  EXPECT_EQ(error({"--fp16", "--qqqqqqqqqqqq", "5", "--max_step=3", "--deepspeed", "x", "--max_step", "4"}),
            "unknown options --qqqqqqqqqqqq, --max_step (did you mean \"--max_steps\"?); --help lists the options\n"
            "flags of Hugging Face's programs do not exist here: --fp16 (use --bf16), --deepspeed (use --fsdp)");
  const std::string file =
      folder.write("a.json", R"({"max_stepz": 3, "fp16": true, "max_steps": 9, "qqqqqqqqqqqq": 1, "deepspeed": null})");
  const std::string keys = file + ": unknown keys \"max_stepz\" (did you mean \"max_steps\"?), \"qqqqqqqqqqqq\"\n";
  EXPECT_EQ(error({file}), keys + "a flag of Hugging Face's programs does not exist here: --fp16 (use --bf16)");
  EXPECT_EQ(error({file, "--max_step", "3", "--deepspeed", "x"}),
            keys +
                "unknown option --max_step; did you mean \"--max_steps\"?\n"
                "flags of Hugging Face's programs do not exist here: --fp16 (use --bf16), --deepspeed (use --fsdp)");
  EXPECT_EQ(s.steps, 100) << "an error sets nothing";
  EXPECT_EQ(error({"--max_steps", "7"}), "no error") << "an earlier error is forgotten";
}

TEST(ArgumentParser, AFlagOfOtherProgramsThatIsTrueByDefaultHasANegatedForm) {
  Settings s;
  s.parser.alias("verify", "check")
      .without_effect("pin_memory", "true", "memory is memory")
      .without_effect("other", "", "none")
      .absent("scale", "true", "nothing is scaled");
  ASSERT_TRUE(s.parser.parse({"--no-pin-memory", "--no_verify"}));
  EXPECT_EQ(s.parser.notes(), std::vector<std::string>{"--pin_memory false has no effect: memory is memory"});
  EXPECT_FALSE(s.check);
  EXPECT_EQ(error_of([&] { s.parser.parse({"--no_scale"}); }),
            "a flag of Hugging Face's programs does not exist here: --scale (nothing is scaled)");
  EXPECT_NE(error_of([&] { s.parser.parse({"--no_other"}); }).find("unknown option --no_other"), std::string::npos);
  ASSERT_TRUE(s.parser.parse({"--scale", "1"})) << "1 is true";
}

TEST(ArgumentParser, TwoNamesOfAFlagHaveTheSameValue) {
  const TemporaryFolder folder;
  Settings s;
  s.parser.alias("updates", "max_steps").alias("verify", "check").flag("lr", s.rate, "the same variable");
  const auto error = [&](std::vector<std::string> arguments) { return error_of([&] { s.parser.parse(arguments); }); };
  EXPECT_EQ(error({"--max_steps", "2", "--updates=3"}),
            "--max_steps 2 and --updates 3 are names of one flag with different values; give only one");
  EXPECT_EQ(error({"--lr", "1e-3", "--learning_rate", "0.01"}),
            "--lr 1e-3 and --learning_rate 0.01 are names of one flag with different values; give only one");
  EXPECT_EQ(error({"--lr", "1e-3", "--learning_rate", "0.001", "--updates", "4", "--max_steps", "4"}), "no error");
  EXPECT_EQ(error({"--updates", "5", "--max_steps", "6", "--updates", "6"}), "no error") << "the last value counts";
  EXPECT_EQ(error({"--verify", "yes", "--check", "true"}), "no error");
  EXPECT_EQ(error({"--check", "true", "--verify", "yes"}), "no error");
  const std::string file = folder.write("a.json", R"({"updates": 2, "max_steps": 3})");
  EXPECT_EQ(error({file}),
            file + ": --updates 2 and --max_steps 3 are names of one flag with different values; give only one");
  EXPECT_EQ(error({folder.write("b.json", R"({"updates": 2})"), "--max_steps", "3"}), "no error");
  EXPECT_EQ(s.steps, 3);
}

TEST(ArgumentParser, KnowsWhichFlagsWereChosenAndByWhichName) {
  const TemporaryFolder folder;
  Settings s;
  s.parser.alias("updates", "max_steps").flag("lr", s.rate, "the same variable");
  EXPECT_EQ(s.parser.given_name("max_steps"), "max_steps");
  ASSERT_TRUE(s.parser.parse(
      {folder.write("a.json", R"({"max_steps": 100, "kind": "b", "name": "none", "check": true})"), "--lr", "0.5"}));
  EXPECT_TRUE(s.parser.was_given("max_steps"));
  for (const char* flag : {"max_steps", "name", "check", "rows"}) EXPECT_FALSE(s.parser.was_chosen(flag)) << flag;
  for (const char* flag : {"kind", "learning_rate", "lr"}) EXPECT_TRUE(s.parser.was_chosen(flag)) << flag;
  ASSERT_TRUE(s.parser.parse({"--updates", "100"}));
  EXPECT_TRUE(s.parser.was_chosen("max_steps")) << "the command line says so, although it is the default";
  EXPECT_EQ(s.parser.given_name("max_steps"), "updates");
  EXPECT_EQ(error_of([&] { s.parser.parse({"--updates", "many"}); }), "--updates takes an integer, got \"many\"");
}

TEST(ArgumentParser, AJsonFileMayHaveObjectsAndFlagsOfOtherPrograms) {
  const TemporaryFolder folder;
  std::string config, words;
  ArgumentParser parser("train", "");
  parser.flag("fsdp_config", config, "").words_or_bare("report_to", words, "all", "").absent("hub_token", "", "none");
  EXPECT_TRUE(parser.parse({folder.write(
      "a.json", R"({"fsdp_config": {"min_num_params": 3}, "report_to": ["csv", "jsonl"], "hub_token": null})")}));
  EXPECT_EQ(config, R"({"min_num_params":3})");
  EXPECT_EQ(words, "csv jsonl");
  EXPECT_EQ(error_of([&] { parser.parse({folder.write("b.json", R"({"hub_token": "x"})")}); }),
            "a flag of Hugging Face's programs does not exist here: --hub_token (none)");
}

TEST(ArgumentParser, HelpShowsGroupsDefaultsAndChoices) {
  Settings s;
  EXPECT_FALSE(s.parser.parse({"--max_steps", "9", "--help"}));
  EXPECT_EQ(s.steps, 100);
  EXPECT_EQ(s.parser.help(),
            "usage: prog [FILE.json] [--flag value]…\nDoes things.\n\nflags\n"
            "  --fast                                be quick [false]\n"
            "  --check                               look twice [true]\n"
            "  --max_steps                           how many [100]\n"
            "\nmore\n"
            "  --learning_rate                        [0.5]\n"
            "  --name                                who [none]\n"
            "  --kind a|b                            which [a]\n"
            "  --shard                               how\n"
            "  --rows                                rows\n");
}

TEST(ArgumentParser, HelpOmitsTheEmptyChoiceOfADefault) {
  std::string metric;
  ArgumentParser parser("prog", "");
  parser.choice("metric", metric, {"", "loss", "accuracy"}, "which");
  EXPECT_NE(parser.help().find("  --metric loss|accuracy                which\n"), std::string::npos) << parser.help();
}

}  // namespace
}  // namespace tessera
