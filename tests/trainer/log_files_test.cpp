// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "run/event_file.h"
#include "run/log_files.h"
#include "support/temporary_folder.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::TemporaryFolder;

TEST(EventFile, HasTheChecksumOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
}

// Returns the content of the records of an event file, and checks their checksums.
std::vector<std::string> records_of(const std::string& file) {
  const auto masked = [](std::string_view text) {
    const std::uint32_t plain = crc32c(text);
    return ((plain >> 15) | (plain << 17)) + 0xA282EAD8U;
  };
  const auto number = [&file](std::size_t at) {
    std::uint32_t out = 0;
    std::memcpy(&out, file.data() + at, sizeof(out));
    return out;
  };
  std::vector<std::string> out;
  for (std::size_t at = 0; at < file.size();) {
    const std::uint32_t length = number(at);
    EXPECT_EQ(number(at + 8), masked(file.substr(at, 8)));
    out.push_back(file.substr(at + 12, length));
    EXPECT_EQ(number(at + 12 + length), masked(out.back()));
    at += 16 + length;
  }
  return out;
}

TEST(EventFile, HoldsAnEventWithTagsForEachEntry) {
  const TemporaryFolder folder;
  EventFile events(folder.file("run"));
  events.write(300, {{"train/loss", 1.5}});
  const auto records = records_of(read_file(events.path()));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
  // step = 300, then the summary with one value: its tag, and 1.5 as four bytes.
  const std::string expected =
      std::string("\x10\xac\x02\x2a\x13\x0a\x11\x0a\x0a", 9) + "train/loss" + std::string("\x15\x00\x00\xc0\x3f", 5);
  EXPECT_EQ(records[1].substr(9), expected);
}

TEST(LogFiles, WriteEveryFormThatReportToNames) {
  const TemporaryFolder folder;
  TrainingArguments arguments;
  arguments.logging_dir = folder.file("logs");
  arguments.report_to = "csv jsonl";
  LogFiles files(arguments);
  files.write({.step = 2, .epoch = 0.5, .loss = 1.25, .learning_rate = 0.1});
  files.write({.step = 4, .epoch = 1, .eval_loss = 3});
  EXPECT_EQ(read_file(folder.file("logs/log.csv")),
            "step,epoch,loss,learning_rate,grad_norm,tokens_per_second,mfu,exposed_communication_seconds,num_input_"
            "tokens_seen,ups,time_since_start,eta,"
            "eval_loss,eval_accuracy\n2,0.5,1.25,0.1,,,,,,,,,,\n4,1,,,,,,,,,,,3,\n");
  EXPECT_EQ(read_file(folder.file("logs/log.jsonl")),
            "{\"epoch\": 0.5,\"loss\": 1.25,\"learning_rate\": 0.1,\"step\": 2}\n{\"epoch\": 1.0,\"eval_loss\": "
            "3.0,\"step\": 4}\n");
}

TEST(LogFiles, AreCheckedBeforeTheTraining) {
  const TemporaryFolder folder;
  TrainingArguments arguments;
  arguments.report_to = "all";
  arguments.run_name = "first";
  const auto error = [&](const std::string& logs) {
    arguments.logging_dir = logs;
    return testing::error_of([&] { check_log_files(arguments); });
  };
  EXPECT_EQ(error(""), "no error");
  EXPECT_EQ(error(folder.file("logs")), "no error");
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("logs/first")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("logs/log.csv"))) << "its first line would have no header";
  const std::string place = folder.write("text", "x");
  EXPECT_EQ(error(place), fmt::format("--logging_dir: cannot create the folder {}: Not a directory", place));
  std::filesystem::create_directory(folder.file("logs/log.jsonl"));
  EXPECT_EQ(error(folder.file("logs")),
            fmt::format("--logging_dir: cannot write {}: Is a directory", folder.file("logs/log.jsonl")));
  arguments.report_to = "none";
  EXPECT_EQ(error(place), "no error");
}

TEST(StateWriter, WritesTheNewestState) {
  const TemporaryFolder folder;
  StateWriter writer(folder.file("out"));
  TrainerState state;
  for (std::int64_t step = 1; step <= 50; ++step) {
    state.global_step = step;
    writer.begin(state);
  }
  writer.finish();
  EXPECT_EQ(TrainerState::from_json(JsonObject::from_file(folder.file("out/trainer_state.json"))).global_step, 50);
}

}  // namespace
}  // namespace tessera::trainer
