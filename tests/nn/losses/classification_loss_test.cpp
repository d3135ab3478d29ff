// SPDX-License-Identifier: Apache-2.0
// The loss of classifiers is that of Hugging Face's transformers 5.24 (ForSequenceClassificationLoss), whose values are
// written here. All classifiers use it.
#include "tessera/nn/models/classification_loss.h"

#include <gtest/gtest.h>

#include "nn/layer_checks.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/resnet.h"
#include "tessera/nn/models/vit.h"

namespace tessera::nn {
namespace {

Tensor three_scores() { return Tensor::from<double>({2, 3}, {0.5, -1.0, 2.0, 1.5, 0.25, -0.75}); }
Tensor float_labels() { return Tensor::from<double>({2, 3}, {1.0, 0.0, 1.0, 0.0, 0.5, 1.0}); }
Tensor class_ids() { return Tensor::from<std::int32_t>({2}, {2, 0}); }

TEST(ClassificationLoss, DependsOnTheLabelsIfNoProblemTypeIsGiven) {
  const FreshRank rank;
  EXPECT_NEAR(classification_loss(three_scores(), class_ids(), "").item(), 0.28599195303219055, 1e-12);
  EXPECT_NEAR(classification_loss(three_scores(), class_ids().unsqueeze(1), "").item(), 0.28599195303219055, 1e-12);
  EXPECT_NEAR(classification_loss(three_scores(), float_labels(), "").item(), 0.7422483977862996, 1e-12);
}

TEST(ClassificationLoss, IsThatOfTheGivenProblemType) {
  const FreshRank rank;
  EXPECT_NEAR(classification_loss(three_scores(), float_labels(), "regression").item(), 1.2708333333333333, 1e-12);
  EXPECT_NEAR(classification_loss(three_scores(), class_ids(), "single_label_classification").item(),
              0.28599195303219055, 1e-12);
  const Tensor one = Tensor::from<double>({2, 1}, {0.5, -1.0});
  const Tensor labels = Tensor::from<double>({2}, {1, 0});
  EXPECT_NEAR(classification_loss(one, labels, "multi_label_classification").item(), 0.39366933584916475, 1e-12);
}

// The mean of all pairs would be (0.25 + 6.25 + 4 + 16) / 4.
TEST(ClassificationLoss, OneLabelMayHaveADimOfItsOwn) {
  const FreshRank rank;
  const Tensor one = Tensor::from<double>({2, 1}, {0.5, -1.0});
  const Tensor labels = Tensor::from<double>({2}, {1, 3});
  EXPECT_NEAR(classification_loss(one, labels, "").item(), 8.125, 1e-12);
  EXPECT_NEAR(classification_loss(one, labels.unsqueeze(1), "").item(), 8.125, 1e-12);
  EXPECT_NEAR(classification_loss(one, labels.to(DType::kF32), "").item(), 8.125, 1e-12);
  EXPECT_NEAR(classification_loss(one, labels.to(DType::kS32), "").item(), 8.125, 1e-12);
  EXPECT_NEAR(classification_loss(one.slice(0, 0, 1), labels.slice(0, 0, 1), "").item(), 0.25, 1e-12);
}

TEST(ClassificationLoss, OtherLabelsAreErrors) {
  const FreshRank rank;
  expect_error([] { (void)classification_loss(three_scores(), class_ids(), "regression"); },
               "regression of logits f64[2,3] needs real labels of these dims, got s32[2]");
  expect_error([] { (void)classification_loss(three_scores(), float_labels(), "single_label_classification"); },
               "single_label_classification of logits f64[2,3] needs integer labels [2], got f64[2,3]");
  expect_error([] { (void)classification_loss(three_scores(), float_labels().select(1, 0), ""); },
               "multi_label_classification of logits f64[2,3] needs floating-point labels of these dims, got f64[2]");
  expect_error([] { (void)classification_loss(three_scores(), class_ids(), "regresion"); },
               "classification_loss: unknown problem_type \"regresion\"; did you mean \"regression\"?");
}

// A configuration with one label and another problem type, read and written.
template <class Config>
void expect_problem_type_is_kept(const std::string& architecture) {
  const std::string text = R"({"problem_type": "multi_label_classification", "id2label": {"0": "a", "1": "b"}})";
  const Config config = Config::from_json(text);
  EXPECT_EQ(config.problem_type, "multi_label_classification") << architecture;
  EXPECT_NE(config.to_json().find("\"problem_type\": \"multi_label_classification\""), std::string::npos);
  EXPECT_EQ(Config::from_json(R"({"problem_type": null})").problem_type, "");
  Config made;
  made.problem_type = "regression";
  EXPECT_EQ(Config::from_json(made.to_json()).problem_type, "regression");
  EXPECT_NE(message_of([] {
              (void)Config::from_json(R"({"problem_type": "regresion"})");
            }).find("unknown problem_type \"regresion\"; did you mean \"regression\"?"),
            std::string::npos);
}

TEST(ClassificationLoss, ConfigurationsKeepTheProblemType) {
  expect_problem_type_is_kept<BertConfig>("bert");
  expect_problem_type_is_kept<ViTConfig>("vit");
  expect_problem_type_is_kept<ResNetConfig>("resnet");
}

TEST(ClassificationLoss, EveryClassifierUsesIt) {
  const FreshRank rank;
  const Tensor scores = Tensor::from<double>({2, 2}, {1, 0, 0.5, 1});
  const auto expect = [&](PretrainedModel& model, const std::string& input, const Tensor& given) {
    model.eval();
    const Tensor logits = model.run({{input, given}}).logits;
    const Tensor loss = model.run({{input, given}, {"labels", scores}}).loss;
    EXPECT_NEAR(loss.item(), classification_loss(logits, scores, "").item(), 1e-5) << model.class_name();
    EXPECT_GT(std::abs(loss.item() - classification_loss(logits, scores, "regression").item()), 1e-3);
  };
  BertForSequenceClassification bert(BertConfig::tiny(13));
  ViTForImageClassification vit(ViTConfig::tiny(2));
  ResNetForImageClassification resnet(ResNetConfig::tiny(2));
  expect(bert, "input_ids", Tensor::from<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6}));
  expect(vit, "pixel_values", numbers({2, 3, 12, 12}).to(DType::kF32));
  expect(resnet, "pixel_values", numbers({2, 3, 16, 16}).to(DType::kF32));
}

}  // namespace
}  // namespace tessera::nn
