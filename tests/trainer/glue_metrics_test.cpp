// SPDX-License-Identifier: Apache-2.0
#include "tasks/glue_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/temporary_folder.h"
#include "tasks/text_samples.h"
#include "tessera/trainer/programs.h"
#include "tessera/trainer/trainer_state.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Values = std::vector<double>;
using Names = std::vector<std::string>;

TEST(GlueMetrics, CountCorrectClasses) {
  // Of class 1, two samples are found, one is missed, and one is found wrongly; of class 0, one is found.
  const Values predictions = {1, 1, 0, 0, 1};
  const Values labels = {1, 0, 0, 1, 1};
  EXPECT_DOUBLE_EQ(accuracy_of(predictions, labels), 3.0 / 5);
  EXPECT_DOUBLE_EQ(f1_of(predictions, labels), 2.0 / 3);
  EXPECT_DOUBLE_EQ(matthews_correlation_of(predictions, labels), (2 * 1 - 1 * 1) / 6.0);
  EXPECT_DOUBLE_EQ(matthews_correlation_of(labels, labels), 1);
  EXPECT_DOUBLE_EQ(matthews_correlation_of({0, 1, 1, 0, 0}, labels), -1);
}

TEST(GlueMetrics, OfASingleClassAreZero) {
  EXPECT_EQ(f1_of({0, 0}, {0, 0}), 0);
  EXPECT_EQ(f1_of({1, 0}, {0, 0}), 0);
  EXPECT_EQ(matthews_correlation_of({1, 1, 1}, {1, 0, 1}), 0);
}

TEST(GlueMetrics, CorrelationsOfNumbers) {
  EXPECT_NEAR(pearson_of({1, 2, 3, 4}, {1, 3, 2, 5}), 5.5 / std::sqrt(5 * 8.75), 1e-12);
  EXPECT_NEAR(spearman_of({1, 2, 3, 4}, {1, 3, 2, 5}), 1 - 6.0 * (1 + 1) / (4 * 15), 1e-12);
  EXPECT_NEAR(spearman_of({1, 10, 100, 1000}, {-3, 0, 7, 7.5}), 1, 1e-12);  // any increasing relation
  EXPECT_NEAR(pearson_of({5, 3, 1}, {-5, -3, -1}), -1, 1e-12);
  EXPECT_NEAR(spearman_of({1, 1, 2}, {3, 1, 2}), 0, 1e-12);  // ranks 1.5, 1.5, 3 and 3, 1, 2
  EXPECT_NEAR(spearman_of({2, 2, 2, 5}, {1, 2, 3, 4}), 3 / std::sqrt(3 * 5), 1e-12);
  EXPECT_TRUE(std::isnan(pearson_of({2, 2}, {1, 3})));
}

TEST(GlueMetrics, HaveHuggingFacesNamesAndTheirMean) {
  const auto metrics = glue_metrics({"accuracy", "f1"}, {1, 1, 0, 0, 1}, {1, 0, 0, 1, 1});
  ASSERT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics[0].first + metrics[1].first + metrics[2].first, "accuracyf1combined_score");
  EXPECT_DOUBLE_EQ(metrics[2].second, (3.0 / 5 + 2.0 / 3) / 2);
  EXPECT_EQ(glue_metrics({"matthews_correlation"}, {1, 0}, {1, 0}).size(), 1U);
  for (const std::string& name : data::glue_task_names())
    for (const std::string& metric : data::glue_task(name).metrics) {
      EXPECT_NO_THROW((void)glue_metrics({metric}, {1, 0}, {1, 0})) << name;
      EXPECT_TRUE(greater_is_better("eval_" + metric)) << name;
    }
}

TrainingArguments classification(const std::vector<std::string>& flags) {
  TrainingArguments out = classification_defaults();
  ArgumentParser parser("run_classification", "");
  out.add_flags(parser);
  EXPECT_TRUE(parser.parse(flags));
  return out;
}

TEST(GlueFlags, ATaskNamesItsFiles) {
  const TemporaryFolder folder;
  const std::string train = folder.write("MNLI/train.tsv", "");
  const std::string matched = folder.write("MNLI/dev_matched.tsv", "");
  const TrainingArguments found =
      with_glue_files(classification({"--task_name", "MNLI", "--data_dir", folder.path(), "--config_name", "tiny"}));
  EXPECT_EQ(found.train_file, train);
  EXPECT_EQ(found.validation_file, matched);
  const TrainingArguments mismatched = with_glue_files(
      classification({"--task_name", "mnli", "--cache_dir", folder.path(), "--validation_file", "other.tsv"}));
  EXPECT_EQ(mismatched.train_file, train);
  EXPECT_EQ(mismatched.validation_file, "other.tsv");
  EXPECT_EQ(with_glue_files(classification({"--task_name", "mnli", "--train_file", "t.tsv"})).validation_file, "");
  EXPECT_EQ(with_glue_files(classification({"--task_name", "rte", "--dry_run"})).train_file, "");  // a plan needs none
  EXPECT_EQ(classification({"dataset=glue_qnli"}).task_name, "glue_qnli");
}

TEST(GlueFlags, ErrorsSayWhatToGive) {
  const auto error = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--config_name", "tiny"});
    return error_of([&] { classification(flags).check(); });
  };
  EXPECT_EQ(error({}), "give --train_file, a TSV or CSV file with a header, or --task_name, a task of GLUE");
  EXPECT_EQ(error({"--task_name", "qnlli"}), "--task_name: there is no GLUE task \"qnlli\"; did you mean \"qnli\"?");
  EXPECT_EQ(error({"--data_dir", "d", "--train_file", "t"}), "--data_dir d needs --task_name: the task of GLUE");
  EXPECT_EQ(error({"--task_name", "rte", "--data_dir", "d", "--train_file", "t"}),
            "--data_dir and --train_file exclude each other");
  EXPECT_EQ(error({"--task_name", "rte"}), "no error");
  EXPECT_EQ(error({"--do_train", "false"}),
            "--do_train false needs --validation_file, or --do_predict with --test_file");
  EXPECT_EQ(error({"--do_train", "false", "--validation_file", "v.tsv"}), "no error");
}

TEST(GlueFlags, ARunThatDoesNotTrainNeedsNoTrainingFile) {
  const TemporaryFolder folder;
  const std::string dev = folder.write("RTE/dev.tsv", "");
  const TrainingArguments found =
      with_glue_files(classification({"--task_name", "rte", "--data_dir", folder.path(), "--do_train", "false"}));
  EXPECT_EQ(found.train_file, "");
  EXPECT_EQ(found.validation_file, dev);
}

// Otherwise the first evaluation would end the run.
TEST(GlueFlags, TheMetricIsOneOfTheTask) {
  const auto error = [](const std::string& metric, std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--config_name", "tiny", "--metric_for_best_model", metric, "--eval_strategy", "epoch",
                               "--save_strategy", "epoch", "--output_dir", "out"});
    return error_of([&] { classification(flags).check(); });
  };
  EXPECT_EQ(error("accuracy", {"--task_name", "stsb"}),
            "--metric_for_best_model accuracy: the metrics of the GLUE task stsb are loss, pearson, spearmanr, "
            "combined_score");
  EXPECT_EQ(
      error("eval_combined_score", {"--task_name", "cola"}),
      "--metric_for_best_model eval_combined_score: the metrics of the GLUE task cola are loss, matthews_correlation");
  EXPECT_EQ(error("f1", {"--train_file", "t.tsv"}),
            "--metric_for_best_model f1: the metrics of an evaluation without --task_name are loss, accuracy");
  for (const std::string& name : data::glue_task_names())
    for (const std::string& metric : evaluation_names(&data::glue_task(name))) {
      EXPECT_EQ(error(metric, {"--task_name", name}), "no error") << name;
      EXPECT_EQ(error("eval_" + metric, {"--task_name", name}), "no error") << name;
    }
  EXPECT_EQ(error("eval_accuracy", {"--train_file", "t.tsv"}), "no error");
}

// These are the values that an evaluation has.
TEST(GlueMetrics, NamesAreThoseOfTheValues) {
  for (const std::string& name : data::glue_task_names()) {
    Names names = {"loss"};
    const data::GlueTask& task = data::glue_task(name);
    for (const auto& [metric, value] : glue_metrics(task.metrics, {1, 0}, {1, 0})) names.push_back(metric);
    EXPECT_EQ(evaluation_names(&task), names) << name;
  }
}

TEST(GlueFlags, AnEvaluationWithoutAFileGetsANote) {
  const TemporaryFolder folder;
  (void)folder.write("RTE/train.tsv", "");
  const std::vector<std::string> flags = {"--task_name", "rte", "--data_dir", folder.path()};
  const auto notes = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return with_glue_files(classification(more)).notes;
  };
  EXPECT_EQ(notes({"--do_eval"}), Names{"no dev.tsv in " + folder.path() + "/RTE: no evaluation"});
  EXPECT_EQ(notes({"--do_eval", "false"}), Names{});
  EXPECT_EQ(notes({"--validation_file", "v.tsv"}), Names{});
  EXPECT_EQ(notes({"--dry_run"}), Names{});  // a plan does not evaluate
  (void)folder.write("RTE/dev.tsv", "");
  EXPECT_EQ(notes({"--do_eval"}), Names{});
}

TEST(GlueFiles, WithoutASampleAreErrors) {
  const TemporaryFolder folder;
  const auto error = [&](const char* task, const std::string& text) {
    const std::string file = folder.write("t.tsv", text);
    TrainingArguments arguments = classification_defaults();
    arguments.task_name = task;
    arguments.train_file = file;
    const std::string message = error_of([&] { (void)read_training_texts(arguments); });
    EXPECT_EQ(no_sample_text(arguments, read_texts(arguments, file)), message);
    EXPECT_TRUE(message.starts_with(file + ": ")) << message;
    return message.substr(std::min(message.size(), file.size() + 2));
  };
  EXPECT_EQ(
      error("cola", "no\ttab\nhere\n"),
      "contains no sample; 2 rows lack some of the 4 fields that the GLUE task cola has: source, label, annotation, "
      "sentence");
  EXPECT_EQ(error("rte", "sentence1\tsentence2\tlabel\na\tb\n"),
            "contains no sample; 1 row lacks some of the 3 fields that the header has: sentence1, sentence2, label");
  EXPECT_EQ(error("rte", "sentence1\tsentence2\tlabel\n"), "contains no sample");
  EXPECT_EQ(error("", "sentence\tlabel\n"), "contains no sample");
}

TEST(GlueFiles, LabelsThatTrainingDoesNotHaveNameTheLine) {
  const TemporaryFolder folder;
  const std::string file = folder.write("v.tsv", "sentence\tlabel\na\tyes\n\nb\tperhaps\n");
  const data::LabelledTexts texts = read_texts(classification_defaults(), file);
  const TextLabels labels{.names = {"no", "yes"}};
  EXPECT_EQ(
      error_of([&] { (void)labelled_samples(texts, BertVocabulary::of(classification_defaults(), ""), labels, 8); }),
      file + ", line 4: the label \"perhaps\" is not one of the training file: no, yes");
  const TextLabels of_model = text_labels(classification_defaults(), {}, {"no", "yes"});
  EXPECT_EQ(of_model.names, (Names{"no", "yes"}));
  EXPECT_EQ(
      error_of([&] { (void)labelled_samples(texts, BertVocabulary::of(classification_defaults(), ""), of_model, 8); }),
      file + ", line 4: the label \"perhaps\" is not one of the model: no, yes");
}

// Without --task_name, the training file decides what the labels are.
class TextLabelsOfAFile : public ::testing::Test {
 protected:
  [[nodiscard]] TextLabels labels(const std::string& rows) const {
    TrainingArguments arguments = classification_defaults();
    arguments.train_file = folder_.write("t.csv", "sentence,label\n" + rows);
    return text_labels(arguments, read_training_texts(arguments), {});
  }
  // The error without the path.
  [[nodiscard]] std::string error(const std::string& rows) const {
    const std::string text = error_of([&] { (void)labels(rows); });
    const std::string path = folder_.file("t.csv");
    return text.starts_with(path) ? text.substr(path.size()) : text;
  }

  TemporaryFolder folder_;
};

TEST_F(TextLabelsOfAFile, AreNamesOrWholeNumbers) {
  EXPECT_EQ(labels("a,yes\nb,no\nc,yes\n").names, (Names{"no", "yes"}));
  EXPECT_EQ(labels("a,1\nb,0\nc,12\n").names, (Names{"0", "1", "12"}));
  EXPECT_EQ(labels("a,1st\nb,2-3\nc,-\n").names, (Names{"-", "1st", "2-3"})) << "no numbers";
}

TEST_F(TextLabelsOfAFile, EmptyOnesAreRefused) {
  const std::string what = ": the label is empty; give each row the name or the number of its class, or remove the row";
  EXPECT_EQ(error("a,yes\n\nb,\nc,no\n"), ", line 4" + what);
  EXPECT_EQ(error("a,yes\nb,\" \"\n"), ", line 3" + what);
}

TEST_F(TextLabelsOfAFile, NumbersAreWholeAndNotNegative) {
  EXPECT_EQ(error("a,0\nb,-1\n"),
            ", line 3: the label \"-1\" is negative; labels are names, or whole numbers from 0; remove rows without a "
            "class");
  for (const char* label : {"0.5", "1.0", "-2.5", "1e3", "nan"})
    EXPECT_EQ(
        error(fmt::format("a,0\nb,1\nc,{}\n", label)),
        fmt::format(", line 4: the label \"{}\" is not a whole number; labels are names, or whole numbers from 0; "
                    "only --task_name stsb trains on scores",
                    label));
}

TEST_F(TextLabelsOfAFile, NamesAndNumbersAreNotMixed) {
  EXPECT_EQ(
      error("a,1\nb,0\nc,positive\n"),
      ", line 4: the label \"positive\" is a name, but \"1\" in line 2 is a number; give names to all classes, or "
      "numbers to all");
  EXPECT_EQ(error("a,label\nb,0\nc,1\n"),
            ", line 3: the label \"0\" is a number, but \"label\" in line 2 is a name; give names to all classes, or "
            "numbers to all");
}

TEST_F(TextLabelsOfAFile, AreNotTheNumbersOfTheRows) {
  std::string ids;
  for (int i = 0; i < 101; ++i) ids += fmt::format("a,{}\n", 7 + i);
  EXPECT_EQ(
      error(ids),
      ", line 2: the column label, which has \"7\" here, has 101 different values in 101 rows; labels are classes "
      "with several rows each, and not numbers of rows");
  EXPECT_EQ(labels(ids + ids).names.size(), 101U);
  EXPECT_EQ(labels("a,1\nb,2\nc,3\n").names.size(), 3U) << "a small file";
}

TEST_F(TextLabelsOfAFile, AnErrorAboutOneOfManyNamesSome) {
  TextLabels many;
  for (int i = 0; i < 30; ++i) many.names.push_back(fmt::format("{}", 10 + i));
  const std::string path = folder_.write("v.csv", "sentence,label\na,9\n");
  const data::LabelledTexts texts = read_texts(classification_defaults(), path);
  const auto vocabulary = BertVocabulary::of(classification_defaults(), "");
  EXPECT_EQ(error_of([&] { (void)labelled_samples(texts, vocabulary, many, 8); }),
            path +
                ", line 2: the label \"9\" is not one of the training file: 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, "
                "20, 21, 22, 23, 24, 25, 26, 27, 28, 29, … (30 labels)");
}

TEST(LogEntry, MetricsOfATaskAreReadBack) {
  LogEntry entry{.step = 3, .eval_loss = 0.5};
  entry.eval_metrics = {{"f1", 0.25}, {"pearson", std::nan("")}};
  EXPECT_EQ(JsonObject::parse(json_line(entry)).keys(),
            (Names{"epoch", "eval_loss", "eval_f1", "step"}));  // NaN is not a number of JSON
  const TrainerState state{.log_history = {entry}};
  const TrainerState read = TrainerState::from_json(state.to_json());
  ASSERT_EQ(read.log_history.at(0).eval_metrics.size(), 1U);
  EXPECT_EQ(read.log_history[0].eval_metrics[0], (std::pair<std::string, double>{"f1", 0.25}));
  EXPECT_EQ(read.log_history[0].eval_loss, 0.5);
}

}  // namespace
}  // namespace tessera::trainer
