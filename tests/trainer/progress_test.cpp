// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer/progress.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "run/run_figures.h"
#include "support/temporary_folder.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::TemporaryFolder;

TEST(Progress, ShowsBarTimesLossRateAndMfu) {
  EXPECT_EQ(
      progress_text(
          {.step = 420, .total_steps = 1000, .seconds = 63, .loss = 2.08124, .tokens_per_second = 8123, .mfu = 0.3121}),
      " 42%|█████       | 420/1000 [01:03<01:27] loss 2.0812  8.12k tokens/s  MFU 31.2%");
  EXPECT_EQ(progress_text({.step = 0, .total_steps = 3, .seconds = 0, .loss = NAN, .tokens_per_second = 0}),
            "  0%|                    | 0/3 [00:00<?] loss nan  0 tokens/s");
  EXPECT_EQ(progress_text({.step = 3, .total_steps = 3, .seconds = 3700, .loss = 1, .tokens_per_second = 5.5}),
            "100%|████████████████████| 3/3 [1:01:40<00:00] loss 1.0000  5.50 tokens/s");
}

TEST(Progress, ShortensNumbersToThreeDigits) {
  EXPECT_EQ(short_number(999), "999");
  EXPECT_EQ(short_number(999.6), "1.00k");
  EXPECT_EQ(short_number(12'345), "12.3k");
  EXPECT_EQ(short_number(2'196'691'968), "2.20G");
}

// Returns what `draw` writes to a file.
template <class F>
std::string drawn(F&& draw) {
  const TemporaryFolder folder;
  std::FILE* file = std::fopen(folder.file("out").c_str(), "w");
  draw(file);
  std::fclose(file);
  return read_file(folder.file("out"));
}

TEST(ProgressBar, PrintsALineFromTimeToTimeWithoutATerminal) {
  const std::string text = drawn([](std::FILE* out) {
    ProgressBar bar(out, 4, false);
    for (std::int64_t step = 1; step <= 10; ++step) bar.update({.step = step, .total_steps = 10, .seconds = 1});
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);  // 4, 8 and the last step
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(ProgressBar, RedrawsInPlaceOnATerminalAndKeepsPrintedLines) {
  const std::string text = drawn([](std::FILE* out) {
    ProgressBar bar(out, 4, true);
    bar.update({.step = 1, .total_steps = 3, .seconds = 0.5});
    bar.update({.step = 2, .total_steps = 3, .seconds = 0.55});  // too early to be drawn
    bar.print("note");
    bar.update({.step = 3, .total_steps = 3, .seconds = 0.6});
  });
  EXPECT_EQ(text.find("2/3"), std::string::npos);
  EXPECT_NE(text.find("\r\x1b[Knote\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_NE(text.find("3/3"), std::string::npos);
}

TEST(ProgressBar, TextAfterTheBarStartsANewLine) {
  const std::string text = drawn([](std::FILE* out) {
    ProgressBar bar(out, 4, true);
    bar.update({.step = 3, .total_steps = 3, .seconds = 0.6});
    bar.finish();
    std::fputs("held out", out);
  });
  EXPECT_TRUE(text.ends_with("\nheld out")) << text;
}

TEST(ProgressBar, StatusStaysOnATerminalUntilItIsErased) {
  const auto draw = [](bool is_terminal) {
    return drawn([&](std::FILE* out) {
      ProgressBar bar(out, 4, is_terminal);
      bar.status("held out: 0 of 9 samples");
      bar.status("held out: 1 of 9 samples");  // too early to be drawn
      bar.erase();
      std::fputs("held out: loss", out);
    });
  };
  EXPECT_EQ(draw(true), "held out: 0 of 9 samples\r\x1b[Kheld out: loss");
  EXPECT_EQ(draw(false), "held out: loss");
}

TEST(Formulas, ReproduceTheSourceTablesRow) {
  // 2B on v4-8: 131,072 tokens in a batch, 4 chips of 275 TFLOP/s, 4.191 s for a step; the parameter count is that of
  // the configuration.
  const double flops = training_flops(131'072, 2'196'691'968);
  EXPECT_NEAR(flops / 1e15, 1.73, 0.005);
  EXPECT_NEAR(model_flops_utilization(flops, 4.191, 4, 275e12), 0.375, 0.0005);
  EXPECT_NEAR(model_flops_utilization(1.65e15, 4.191, 4, 275e12), 0.357, 0.001);
}

TEST(Formulas, AttentionMultipliesQueriesWithKeysAndScoresWithValues) {
  // Forward, 5 tokens of width 8 attend to 5 positions in each of 3 layers: two products of 5 x 8 x 5. Backward, four.
  EXPECT_EQ(attention_flops(5, 3, 8, 5), 3 * (2 + 4) * 2 * 5 * 8 * 5);
}

TEST(Work, NamesTheFormulasAndTheirNumbers) {
  EXPECT_EQ(work_lines({.nominal = 6 * 250.0 * 40, .parameters = 250, .units = 40, .unit = "tokens"}),
            "work       6 N T = 6e+04 FLOP per step, which the MFU counts\n"
            "           N = 250 parameters, T = 40 tokens\n");
  EXPECT_EQ(
      work_lines({.nominal = 1e6, .parameters = 1, .units = 2, .unit = "tokens", .attention = 5e4, .executed = 1.2e6}),
      "work       6 N T = 1e+06 FLOP per step, which the MFU counts\n"
      "           N = 1 parameters, T = 2 tokens\n"
      "           attention adds 12 L d S T = 5e+04 FLOP (5%)\n"
      "           the ranks execute 1.2e+06 FLOP per step\n");
}

TEST(TrainerState, WritesTheLogAsHuggingFaceDoesWithFullDoubles) {
  const TemporaryFolder folder;
  TrainerState state{.max_steps = 20,
                     .num_train_epochs = 1,
                     .logging_steps = 10,
                     .train_batch_size = 4,
                     .total_flos = 1e12,
                     .global_step = 20,
                     .epoch = 1,
                     .log_history = {}};
  const double loss = 2.0 / 3;
  state.log_history.push_back(
      {.step = 10, .epoch = 0.5, .loss = loss, .learning_rate = 1e-3, .grad_norm = 0.1, .tokens_per_second = 5});
  state.log_history.push_back({.step = 20, .epoch = 1, .eval_loss = 1.5});
  state.save(folder.file("a/b"));
  const std::string text = read_file(folder.file("a/b/trainer_state.json"));
  EXPECT_NE(text.find("\"loss\": 0.6666666666666666,"), std::string::npos) << text;
  EXPECT_NE(text.find("\"global_step\": 20"), std::string::npos);
  EXPECT_NE(text.find("\"eval_loss\": 1.5"), std::string::npos);
  EXPECT_EQ(text.find("mfu"), std::string::npos);
  EXPECT_NE(text.find("\"num_train_epochs\": 1,"), std::string::npos);
}

TEST(TrainerState, EpochsOfOlderFilesAreRoundedUp) {
  const auto epochs_of = [](double value) {
    JsonObject json;
    json.set("num_train_epochs", value);
    return TrainerState::from_json(json).num_train_epochs;
  };
  EXPECT_EQ(epochs_of(0.5), 1);
  EXPECT_EQ(epochs_of(3), 3);
  EXPECT_EQ(epochs_of(1e300), 0) << "damaged";
}

}  // namespace
}  // namespace tessera::trainer
