// SPDX-License-Identifier: Apache-2.0
#include "tasks/glue_metrics.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(error({}), "--train_file is needed: a TSV file with a header; or --task_name: a task of GLUE");
  EXPECT_EQ(error({"--task_name", "qnlli"}), "--task_name: there is no GLUE task \"qnlli\"; did you mean \"qnli\"?");
  EXPECT_EQ(error({"--data_dir", "d", "--train_file", "t"}), "--data_dir d needs --task_name: the task of GLUE");
  EXPECT_EQ(error({"--task_name", "rte", "--data_dir", "d", "--train_file", "t"}),
            "--data_dir and --train_file exclude each other");
  EXPECT_EQ(error({"--task_name", "rte"}), "no error");
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
