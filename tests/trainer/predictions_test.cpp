// SPDX-License-Identifier: Apache-2.0
// The predictions of run_classification: flags, texts without labels, and the file.
#include "tasks/predictions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/temporary_folder.h"
#include "tessera/trainer/programs.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

TrainingArguments classification_flags(const std::vector<std::string>& flags) {
  TrainingArguments out = classification_defaults();
  ArgumentParser parser("run_classification", "");
  out.add_flags(parser);
  EXPECT_TRUE(parser.parse(flags));
  return out;
}

std::string error_of_flags(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"--config_name", "tiny"});
  return error_of([&] { classification_flags(flags).check(); });
}

TEST(Predictions, FlagsAreChecked) {
  const TrainingArguments a =
      classification_flags({"--do_predict", "--test_file", "t.tsv", "--max_predict_samples", "7"});
  EXPECT_TRUE(a.do_predict && a.test_file == "t.tsv" && a.max_predict_samples == 7);
  EXPECT_FALSE(classification_flags({}).do_predict);
  EXPECT_EQ(error_of_flags({"--train_file", "a.tsv", "--do_predict", "--test_file", "t.tsv", "--output_dir", "o"}),
            "no error");
  EXPECT_EQ(error_of_flags({"--task_name", "rte", "--do_predict", "--output_dir", "o"}), "no error");
  EXPECT_EQ(error_of_flags({"--task_name", "rte", "--do_predict"}),
            "--do_predict needs --output_dir, where it writes the predictions");
  const std::string needs_file =
      "--do_predict needs --test_file, a TSV or CSV file with the texts; it has a default only with --task_name and "
      "without --train_file";
  EXPECT_EQ(error_of_flags({"--train_file", "a.tsv", "--do_predict", "--output_dir", "o"}), needs_file);
  EXPECT_EQ(error_of_flags({"--train_file", "a.tsv", "--task_name", "rte", "--do_predict", "--output_dir", "o"}),
            needs_file);
  EXPECT_EQ(error_of_flags({"--task_name", "rte", "--max_predict_samples", "0"}),
            "--max_predict_samples must be at least 1, got 0");
  EXPECT_EQ(error_of_flags({"--task_name", "stsb", "--label_smoothing_factor", "0.1"}),
            "--label_smoothing_factor 0.1: the labels of the GLUE task stsb are numbers, which cannot be smoothed");
  EXPECT_EQ(error_of_flags({"--task_name", "rte", "--label_smoothing_factor", "0.1"}), "no error");
}

TEST(Predictions, OtherProgramsRefuseTheFlags) {
  TrainingArguments arguments = mlm_defaults();
  ArgumentParser parser("run_mlm", "");
  arguments.add_flags(parser);
  EXPECT_EQ(
      error_of([&] {
        parser.parse({"--do_predict", "--test_file", "t", "--max_predict_samples", "3", "--neftune_noise_alpha", "5"});
      }),
      "flags of Hugging Face's programs do not exist here: --do_predict (only run_classification writes "
      "predictions; use --do_eval), --test_file (only run_classification writes predictions; use "
      "--validation_file), --max_predict_samples (only run_classification writes predictions; use "
      "--max_eval_samples), --neftune_noise_alpha (only run_clm adds noise to embeddings)");
}

TEST(Predictions, TheTrainerOfAModelNamesTheFunctionsInsteadOfFlags) {
  TrainingArguments arguments;
  arguments.program = TrainingProgram::kModel;
  arguments.label_smoothing_factor = 0.1;
  EXPECT_EQ(error_of([&] { arguments.check(); }),
            "label_smoothing_factor: only the training programs smooth labels; give the Trainer compute_loss with "
            "cross_entropy_parts()");
  arguments.label_smoothing_factor = 0;
  arguments.neftune_noise_alpha = 5;
  EXPECT_EQ(error_of([&] { arguments.check(); }),
            "neftune_noise_alpha: only run_clm adds noise to embeddings; call nn::add_embedding_noise()");
}

TEST(Predictions, TheTestFileOfATaskIsFound) {
  const TemporaryFolder folder;
  (void)folder.write("MNLI/train.tsv", "");
  const std::vector<std::string> flags = {"--task_name", "mnli", "--data_dir", folder.path()};
  TrainingArguments a = classification_flags(flags);
  EXPECT_EQ(with_glue_files(a).test_file, "");
  a.do_predict = true;
  const TrainingArguments found = with_glue_files(a);
  EXPECT_EQ(found.test_file, folder.file("MNLI/test_matched.tsv"));
  const auto& derived = found.derived_flags;
  EXPECT_EQ(std::count(derived.begin(), derived.end(), "test_file"), 1);
  a.test_file = "MNLI/test_mismatched.tsv";
  EXPECT_EQ(with_glue_files(a).test_file, "MNLI/test_mismatched.tsv");
  a.do_predict = false;
  a.max_predict_samples = 3;
  const std::vector<std::string> notes = with_glue_files(a).notes;
  for (const char* note :
       {"--test_file has no effect without --do_predict", "--max_predict_samples has no effect without --do_predict"})
    EXPECT_EQ(std::count(notes.begin(), notes.end(), note), 1) << note;
}

// Its evaluation is not omitted.
TEST(Predictions, AFileOfATaskMayBeALinkToNothing) {
  const TemporaryFolder folder;
  (void)folder.write("RTE/train.tsv", "");
  std::filesystem::create_symlink("/no/such", folder.file("RTE/dev.tsv"));
  const TrainingArguments found =
      with_glue_files(classification_flags({"--task_name", "rte", "--data_dir", folder.path()}));
  EXPECT_EQ(found.validation_file, folder.file("RTE/dev.tsv"));
}

TEST(Predictions, TextsHaveTheColumnsOfTheTrainingFile) {
  const TemporaryFolder folder;
  TrainingArguments a = classification_flags({});
  a.train_file = folder.write("train.tsv", "index\tquestion\tanswer\tlabel\n0\tWho?\tShe.\tyes\n1\tWhy?\tSo.\tno\n");
  const data::LabelledTexts train = read_training_texts(a);
  const auto read = [&](const char* text) {
    a.test_file = folder.write("test.tsv", text);
    std::string out;
    for (const data::LabelledText& one : read_test_texts(a, train).samples) out += one.first + one.second + ";";
    return out;
  };
  EXPECT_EQ(read("question\tanswer\nWhen?\tNow.\nHow?\t\n"), "When?Now.;How?;");
  EXPECT_EQ(read("answer\tid\tlabel\tsource\tquestion\nNow.\t5\tunknown\tweb\tWhen?\n"), "When?Now.;");
  EXPECT_EQ(error_of([&] { read("question\treply\na\tb\n"); }),
            folder.file("test.tsv") +
                ": there is no column answer, which the training file has; the columns are question, reply");
  EXPECT_EQ(error_of([&] { read("question\tanswer\n"); }), folder.file("test.tsv") + ": contains no sample");
}

TEST(Predictions, WithoutATrainingFileAllColumnsOfTextsAreRead) {
  const TemporaryFolder folder;
  TrainingArguments a = classification_flags({});
  a.test_file = folder.write("test.tsv", "index\tquestion\tanswer\n0\tWhen?\tNow.\n");
  const data::LabelledTexts read = read_test_texts(a, {});
  ASSERT_EQ(read.samples.size(), 1U);
  EXPECT_EQ(read.samples[0].first + read.samples[0].second, "When?Now.");
}

TEST(Predictions, RowsThatLackFieldsAreAnErrorBecauseRowsAreNumbered) {
  const TemporaryFolder folder;
  TrainingArguments a = classification_flags({"--task_name", "rte"});
  a.test_file = folder.write("test.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n1\ta\n2\tc\td\n");
  EXPECT_EQ(error_of([&] { (void)read_test_texts(a, {}); }),
            a.test_file +
                ": 1 of 3 rows lack some of the 3 fields that the header has; no row may be skipped, because "
                "predictions are numbered by row");
}

TEST(Predictions, TheFileHasALineForEachSample) {
  EXPECT_EQ(predictions_text({1, 0, 2}, {.names = {"entailment", "neutral", "contradiction"}}),
            "index\tprediction\n0\tneutral\n1\tentailment\n2\tcontradiction\n");
  EXPECT_EQ(predictions_text({2.71828, -0.25, 4}, {.names = {}, .is_regression = true}),
            "index\tprediction\n0\t2.718\n1\t-0.250\n2\t4.000\n");
  TrainingArguments a = classification_flags({"--output_dir", "out"});
  EXPECT_EQ(predictions_file(a), "out/predict_results.txt");
  a.task_name = "SST-2";
  EXPECT_EQ(predictions_file(a), "out/predict_results_sst2.txt");
}

}  // namespace
}  // namespace tessera::trainer
