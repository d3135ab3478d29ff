// SPDX-License-Identifier: Apache-2.0
// The layouts of the nine tasks' files. The texts are made up; the headers, the files without a header and the spelling
// of labels are those of GLUE's archives.
#include "tessera/data/glue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

struct GlueLayout {
  const char* task;
  const char* text;
  LabelledText sample;  // the last one
};

const GlueLayout kGlueLayouts[] = {
    {"cola", "gj04\t1\t\tA book fell.\ngj04\t0\t*\tFell a \"book.\n", {"Fell a \"book.", "", "unacceptable"}},
    {"sst2", "sentence\tlabel\nhide new things \t0\na bright film \t1\n", {"a bright film ", "", "positive"}},
    {"mrpc",
     "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t702\t703\tHe said so .\tSo he said .\n",
     {"He said so .", "So he said .", "equivalent"}},
    {"qqp",
     "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n7\t1\t2\tWhy?\tHow?\t0\n",
     {"Why?", "How?", "not_duplicate"}},
    {"stsb",
     "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
     "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA plane leaves.\tAn air plane leaves.\t4.750\n",
     {"A plane leaves.", "An air plane leaves.", "4.750"}},
    {"mnli",
     "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
     "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
     "0\t31\t31n\tfiction\t( a )\t( b )\t(R a)\t(R b)\tA car stops.\tIt is red.\tneutral\tneutral\n",
     {"A car stops.", "It is red.", "neutral"}},
    {"qnli",
     "index\tquestion\tsentence\tlabel\n0\tWho came?\tThe guests came late.\tentailment\n",
     {"Who came?", "The guests came late.", "entailment"}},
    {"rte",
     "index\tsentence1\tsentence2\tlabel\n0\tNo rain fell.\tIt was wet.\tnot_entailment\n",
     {"No rain fell.", "It was wet.", "not_entailment"}},
    {"wnli",
     "index\tsentence1\tsentence2\tlabel\n0\tI put it in.\tThe pin went in.\t1\n",
     {"I put it in.", "The pin went in.", "entailment"}}};

TEST(Glue, ReadsTheFilesOfEveryTask) {
  ASSERT_EQ(std::size(kGlueLayouts), glue_task_names().size());
  for (const GlueLayout& layout : kGlueLayouts) {
    const LabelledTexts texts = parse_glue(glue_task(layout.task), layout.text, "train.tsv");
    ASSERT_FALSE(texts.samples.empty()) << layout.task;
    EXPECT_EQ(texts.samples.back().first, layout.sample.first) << layout.task;
    EXPECT_EQ(texts.samples.back().second, layout.sample.second) << layout.task;
    EXPECT_EQ(texts.samples.back().label, layout.sample.label) << layout.task;
    EXPECT_EQ(texts.skipped, 0) << layout.task;
  }
  EXPECT_EQ(parse_glue(glue_task("cola"), kGlueLayouts[0].text, "").samples.size(), 2U);  // no line is a header
}

TEST(Glue, TestFilesHaveNoLabels) {
  const auto texts_of_test = [](const char* task, const std::string& text) {
    std::vector<std::string> out;
    for (const LabelledText& one : parse_glue_test(glue_task(task), text, "test.tsv").samples)
      out.push_back(one.first + "|" + one.second + "|" + one.label);
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of_test("rte", "index\tsentence1\tsentence2\n0\tIt rained.\tIt is wet.\n1\ta\tb\n"),
            (Texts{"It rained.|It is wet.|", "a|b|"}));
  // The other files of CoLA have no header.
  EXPECT_EQ(texts_of_test("cola", "index\tsentence\n0\tA book fell.\n"), Texts{"A book fell.||"});
  EXPECT_EQ(texts_of_test("cola", "gj04\t1\t\tA book fell.\n"), Texts{"A book fell.||"});
  // Labels of a labelled file are not read, not even wrong ones.
  EXPECT_EQ(texts_of_test("wnli", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t7\n"), Texts{"a|b|"});
  EXPECT_EQ(parse_glue_test(glue_task("rte"), "sentence1\tsentence2\na\tb\na\n", "test.tsv").skipped, 1);
  EXPECT_EQ(error_of([] { (void)parse_glue_test(glue_task("rte"), "index\tsentence1\n0\ta\n", "test.tsv"); }),
            "test.tsv: there is no column sentence2, which files of the GLUE task rte have; the columns are index, "
            "sentence1");
  for (const auto& [task, file] : {std::pair{"cola", "test.tsv"}, {"mnli", "test_matched.tsv"}, {"stsb", "test.tsv"}})
    EXPECT_EQ(glue_task(task).test_file(), file);
}

TEST(Glue, ColumnsAreFoundByTheirNames) {
  // The dev files of MNLI have the labels of five annotators.
  const std::string text =
      "index\tsentence1\tsentence2\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
      "0\tA car stops.\tIt goes on.\tneutral\tcontradiction\tcontradiction\tneutral\tcontradiction\tcontradiction\n";
  EXPECT_EQ(parse_glue(glue_task("mnli"), text, "dev_matched.tsv").samples.at(0).label, "contradiction");
}

TEST(Glue, RowsThatLackFieldsAreSkippedAndCounted) {
  const std::string text =
      "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t2\tbroken\n2\t3\t4\tWho?\tWhose?\t1\n3\t1\n";
  const LabelledTexts texts = parse_glue(glue_task("qqp"), text, "train.tsv");
  ASSERT_EQ(texts.samples.size(), 1U);
  EXPECT_EQ(texts.samples[0].second, "Whose?");
  EXPECT_EQ(texts.skipped, 2);
  EXPECT_EQ(texts.samples[0].line, 3);
  EXPECT_EQ(texts.columns.size(), 6U);
}

TEST(Glue, TasksHaveTheMetricsOfTheBenchmark) {
  using Names = std::vector<std::string>;
  for (const auto& [task, metrics] : {std::pair{"cola", Names{"matthews_correlation"}},
                                      {"mrpc", Names{"accuracy", "f1"}},
                                      {"qqp", Names{"accuracy", "f1"}},
                                      {"stsb", Names{"pearson", "spearmanr"}},
                                      {"qnli", Names{"accuracy"}}})
    EXPECT_EQ(glue_task(task).metrics, metrics) << task;
  EXPECT_TRUE(glue_task("stsb").is_regression());
  EXPECT_EQ(glue_task("mnli").labels.size(), 3U);
  EXPECT_EQ(glue_task("SST-2").name + glue_task("glue_qnli").name + glue_task("STS-B").name, "sst2qnlistsb");
}

TEST(Glue, ErrorsNameTheMistake) {
  EXPECT_EQ(error_of([] { (void)glue_task("qnlii"); }), "there is no GLUE task \"qnlii\"; did you mean \"qnli\"?");
  const auto error = [](const char* task, const std::string& text) {
    return error_of([&] { (void)parse_glue(glue_task(task), text, "t.tsv"); });
  };
  EXPECT_EQ(error("rte", "index\tsentence1\tlabel\n"),
            "t.tsv: there is no column sentence2, which files of the GLUE task rte have; the columns are index, "
            "sentence1, label");
  // The line of the file, also after a row that is skipped and a blank line.
  EXPECT_EQ(error("wnli", "sentence1\tsentence2\tlabel\na\tb\t0\na\n\na\tb\t2\n"),
            "t.tsv, line 5: the label \"2\" is not one of not_entailment, entailment, nor one of their numbers, which "
            "begin with 0");
  const std::string cola =
      "the label \"label\" is not one of unacceptable, acceptable, nor one of their numbers, which begin with 0";
  EXPECT_EQ(error("cola", "source\tlabel\tannotation\tsentence\na\t1\t\tb\n"),
            "t.tsv, line 1: " + cola + "; files of the GLUE task cola have no header line");
  EXPECT_EQ(error("cola", "a\t1\t\tb\na\tlabel\t\tb\n"), "t.tsv, line 2: " + cola);
}

TEST(Glue, ScoresAreFromZeroToFive) {
  const auto error = [](const std::string& score) {
    const std::string text = "sentence1\tsentence2\tscore\na\tb\t2.5\na\tb\t" + score + "\n";
    return error_of([&] { (void)parse_glue(glue_task("stsb"), text, "t.tsv"); });
  };
  for (const char* score : {"0", "0.000", "5", "5.000"}) EXPECT_EQ(error(score), "no error") << score;
  for (const char* score : {"high", "5.001", "-0.5", "nan", "inf", "", "4x"})
    EXPECT_EQ(error(score), fmt::format("t.tsv, line 3: score must be a number from 0 to 5, got \"{}\"", score));
}

TEST(Glue, FoldersAreFoundUnderTheNamesOfTheArchives) {
  const TemporaryFolder folder;
  const GlueTask& task = glue_task("qnli");
  const auto found = [&](const std::string& data_dir) {
    std::string out;
    const std::string error = error_of([&] { out = find_glue_folder(task, data_dir, folder.path()); });
    return out.empty() ? error : out;
  };
  const std::string root = folder.path();
  EXPECT_TRUE(found("").starts_with(
      fmt::format("no folder QNLI with the TSV files of the GLUE task qnli; searched {0}/glue_data/QNLI, "
                  "{0}/glue/QNLI, {0}/QNLI",
                  root)));
  (void)folder.write("QNLI/train.tsv", "");
  EXPECT_EQ(found(""), root + "/QNLI");
  (void)folder.write("glue_data/QNLI/train.tsv", "");
  EXPECT_EQ(found(""), root + "/glue_data/QNLI");
  EXPECT_EQ(found(root + "/glue_data"), root + "/glue_data/QNLI");
  EXPECT_EQ(found(root + "/glue_data/QNLI"), root + "/glue_data/QNLI");
  EXPECT_EQ(found(root + "/elsewhere"), root + "/elsewhere");  // the program reports that it has no files
}

}  // namespace
}  // namespace tessera::data
