// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/bert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "module_checks.h"
#include "support/sanitizers.h"
#include "tessera/frontend/sharding/mark_sharding.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kWords = 13;
constexpr std::int64_t kRows = 5;
constexpr std::int64_t kTime = 7;

BertConfig small_bert() {
  BertConfig config = BertConfig::tiny(kWords);
  config.hidden_size = 12;
  config.num_attention_heads = 3;
  config.intermediate_size = 20;
  config.max_position_embeddings = 9;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;
  config.dtype = DType::kF64;
  config.initializer_range = 0.2;
  return config;
}

// Texts of different lengths; the second part of each belongs to the second text of a pair.
BertInputs bert_inputs(std::int64_t offset = 0) {
  std::vector<std::int32_t> mask, types;
  for (std::int64_t b = 0; b < kRows; ++b)
    for (std::int64_t t = 0; t < kTime; ++t) {
      mask.push_back(t < kTime - b ? 1 : 0);
      types.push_back(t >= 2 + b % 2 ? 1 : 0);
    }
  return {varied_ids({kRows, kTime}, kWords, offset), Tensor::from<std::int32_t>({kRows, kTime}, mask),
          Tensor::from<std::int32_t>({kRows, kTime}, types)};
}
Tensor masked_labels(std::int64_t offset = 0) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < kRows * kTime; ++i)
    labels.push_back(i % 3 == 0 ? static_cast<std::int32_t>((i + offset) % kWords) : -100);
  return Tensor::from<std::int32_t>({kRows, kTime}, labels);
}

TEST(Bert, NamesAndShapesAreThoseOfHuggingFace) {
  const FreshRank rank;
  BertForMaskedLM model(small_bert());
  const auto names = names_of(model);
  for (const char* name :
       {"bert.embeddings.word_embeddings.weight 13x12", "bert.embeddings.position_embeddings.weight 9x12",
        "bert.embeddings.token_type_embeddings.weight 2x12", "bert.embeddings.LayerNorm.weight 12",
        "bert.encoder.layer.1.attention.self.key.weight 12x12",
        "bert.encoder.layer.0.attention.output.LayerNorm.bias 12", "bert.encoder.layer.0.intermediate.dense.bias 20",
        "bert.encoder.layer.0.output.dense.weight 12x20", "cls.predictions.bias 13",
        "cls.predictions.transform.dense.weight 12x12", "cls.predictions.transform.LayerNorm.weight 12"})
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  // Tied: one entry each.
  EXPECT_EQ(
      std::count_if(names.begin(), names.end(), [](const auto& n) { return n.find("decoder") != std::string::npos; }),
      0);
  EXPECT_TRUE(same_variable(model.head_weight(), model.bert().embeddings().word_embeddings().weight()));
  BertForSequenceClassification classifier(small_bert());
  const auto more = names_of(classifier);
  for (const char* name : {"bert.pooler.dense.weight 12x12", "classifier.weight 2x12"})
    EXPECT_TRUE(std::find(more.begin(), more.end(), name) != more.end()) << name;
}

// Hugging Face's BertModel and BertForMaskedLM have as many.
TEST(Bert, PresetsHaveTheKnownNumbersOfParameters) {
  const FreshRank rank;
  EXPECT_EQ(BertModel(BertConfig::base()).parameter_count(), 109'482'240);
  EXPECT_EQ(BertForMaskedLM(BertConfig::large()).parameter_count(), 335'174'458);
}

TEST(Bert, TheConfigurationIsReadAndWrittenBack) {
  const BertConfig config = BertConfig::from_json(R"({"model_type": "bert", "architectures": ["BertModel"],
      "hidden_size": 24, "num_attention_heads": 2, "position_embedding_type": "absolute", "classifier_dropout": null,
      "gradient_checkpointing": false, "use_cache": true, "_name_or_path": "x", "layer_norm_eps": 1e-12})");
  EXPECT_EQ(config.hidden_size, 24);
  EXPECT_FALSE(config.classifier_dropout.has_value());
  const std::string text = config.to_json("BertForSequenceClassification");
  EXPECT_NE(text.find("BertForSequenceClassification"), std::string::npos);
  EXPECT_NE(text.find("_name_or_path"), std::string::npos);
  EXPECT_EQ(BertConfig::from_json(text).num_labels, 2);
  BertConfig three = BertConfig::tiny();
  three.num_labels = 3;
  EXPECT_EQ(BertConfig::from_json(three.to_json()).num_labels, 3);
  for (const char* wrong :
       {R"({"is_decoder": true})", R"({"position_embedding_type": "relative_key"})", R"({"hidden_sizes": 3})",
        R"({"num_attention_heads": 5})", R"({"pad_token_id": 40000})", R"({"hidden_dropout_prob": 1})"})
    EXPECT_THROW(BertConfig::from_json(wrong), Error) << wrong;
}

TEST(Bert, ThereMayBeNoPadToken) {
  EXPECT_EQ(BertConfig::from_json("{}").pad_token_id, 0);
  const BertConfig config = BertConfig::from_json(R"({"pad_token_id": null})");
  EXPECT_FALSE(config.pad_token_id.has_value());
  EXPECT_NE(config.to_json().find("\"pad_token_id\": null"), std::string::npos);
  const FreshRank rank;
  for (const bool has_pad : {true, false}) {
    BertConfig small = small_bert();
    if (!has_pad) small.pad_token_id.reset();
    BertModel model(small);
    sum(model(BertInputs{Tensor::from<std::int32_t>({1, 2}, {0, 3})}) * varied({1, 2, 12})).backward();
    const auto slopes = model.embeddings().word_embeddings().weight().grad().to_vector<double>();
    EXPECT_EQ(std::all_of(slopes.begin(), slopes.begin() + 12, [](double v) { return v == 0; }), has_pad);
  }
}

// In Hugging Face, the decoder of an untied head has its own bias, and `cls.predictions.bias` is not used.
TEST(Bert, AnUntiedHeadHasAMatrixAndABiasOfItsOwn) {
  const FreshRank rank;
  BertConfig config = small_bert();
  config.tie_word_embeddings = false;
  BertForMaskedLM model(config);
  const auto names = names_of(model);
  for (const char* name :
       {"cls.predictions.bias 13", "cls.predictions.decoder.weight 13x12", "cls.predictions.decoder.bias 13"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  const auto before = model.logits(bert_inputs()).to_vector<double>();
  const Tensor shift = varied({kWords});
  Tensor unused = model.parameter("cls.predictions.bias");
  unused.assign(shift);
  EXPECT_EQ(model.logits(bert_inputs()).to_vector<double>(), before);
  Tensor used = model.parameter("cls.predictions.decoder.bias");
  used.assign(shift);
  auto expected = before;
  const auto added = shift.to_vector<double>();
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i % kWords];
  expect_close(model.logits(bert_inputs()).to_vector<double>(), expected, "bias", 1e-12);
  EXPECT_TRUE(same_variable(model.head_bias(), used));
  model(bert_inputs(), masked_labels()).backward();
  EXPECT_TRUE(unused.grad().is_null());
}

TEST(Bert, HiddenPositionsHaveNoEffectOnTheOthers) {
  const FreshRank rank;
  BertModel model(small_bert());
  BertInputs given = bert_inputs();
  const auto before = model.embed(given).to_vector<double>();
  auto tokens = given.input_ids.to_vector<std::int32_t>();
  const auto mask = given.attention_mask.to_vector<std::int32_t>();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (mask[i] == 0) tokens[i] = static_cast<std::int32_t>((tokens[i] + 5) % kWords);
  given.input_ids = Tensor::from<std::int32_t>({kRows, kTime}, tokens);
  expect_close(model.embed(given).to_vector<double>(), before, "mean", 1e-12);
  const auto cls = model.embed(given, {.pooling = BertPooling::kCls}).to_vector<double>();
  const auto hidden = model(given).to_vector<double>();
  EXPECT_EQ(cls[12], hidden[kTime * 12]);
  double length = 0;
  const auto unit = model.embed(given, {.normalize = true}).to_vector<double>();
  for (std::size_t i = 0; i < 12; ++i) length += unit[i] * unit[i];
  EXPECT_NEAR(length, 1, 1e-12);
}

TEST(Bert, ABatchWithoutMaskAndTypesIsOneOfCompleteSingleTexts) {
  const FreshRank rank;
  BertModel model(small_bert());
  const Tensor tokens = bert_inputs().input_ids;
  const std::vector<std::int32_t> ones(kRows * kTime, 1), zeros(kRows * kTime, 0);
  const BertInputs complete{tokens, Tensor::from<std::int32_t>({kRows, kTime}, ones),
                            Tensor::from<std::int32_t>({kRows, kTime}, zeros)};
  expect_close(model.embed({tokens}).to_vector<double>(), model.embed(complete).to_vector<double>(), "embeddings",
               1e-12);
}

TEST(Bert, GradientsAgreeWithFiniteDifferences) {
  {
    const FreshRank rank;
    BertConfig config = small_bert();
    config.pad_token_id =
        kWords - 1;  // its row has only the head's gradient; the first elements of the table are compared
    BertForMaskedLM model(config);
    expect_gradients(model, [&] { return model(bert_inputs(), masked_labels()); });
  }
  const FreshRank rank;
  BertConfig config = small_bert();
  config.num_labels = 3;
  config.pad_token_id = kWords - 1;
  BertForSequenceClassification model(config);
  expect_gradients(model, [&] { return model(bert_inputs(), varied_ids({kRows}, 3)); });
}

TEST(Bert, OneLabelIsANumber) {
  const FreshRank rank;
  BertConfig config = small_bert();
  config.num_labels = 1;
  BertForSequenceClassification model(config);
  const auto scores = model.logits(bert_inputs()).to_vector<double>();
  double expected = 0;
  for (const double score : scores) expected += (score - 0.5) * (score - 0.5) / kRows;
  const Tensor labels = Tensor::from<double>({kRows}, std::vector<double>(kRows, 0.5));
  EXPECT_NEAR(model(bert_inputs(), labels).item(), expected, 1e-12);
  const Tensor numbers = varied_ids({kRows}, 2);
  EXPECT_EQ(model(bert_inputs(), numbers).item(), model(bert_inputs(), numbers.to(DType::kF64)).item());
}

template <class Model>
std::vector<double> trained_on(const std::string& text,
                               const std::function<Tensor(Model&, const BertInputs&, int)>& loss) {
  manual_seed(4);
  BertConfig config = small_bert();
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.2;
  Model model(config);
  const Mesh mesh = Mesh::parse(text);
  if (mesh.has_axis("model")) shard_tensor_parallel(model, mesh, "model");
  return trained_values(model, [&](int step) {
    const BertInputs given = bert_inputs(step);
    if (mesh.has_axis("data"))
      for (const Tensor& tensor : {given.input_ids, given.attention_mask, given.token_type_ids})
        mark_sharding(tensor, mesh, {"data", {}});
    return loss(model, given, step);
  });
}

template <class Model>
void expect_same_on_meshes(const std::vector<std::string>& meshes,
                           const std::function<Tensor(Model&, const BertInputs&, int)>& loss) {
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = trained_on<Model>("data=1", loss);
  }
  for (const std::string& mesh : testing::cases_of(meshes))
    on_ranks(static_cast<int>(Mesh::parse(mesh).device_count()),
             [&](int) { expect_close(trained_on<Model>(mesh, loss), expected, mesh); });
}

TEST(Bert, TrainingIsTheSameOnEveryMesh) {
  expect_same_on_meshes<BertForMaskedLM>(
      {"data=2,model=3", "data=3", "model=2", "model=4"},
      [](BertForMaskedLM& model, const BertInputs& given, int step) { return model(given, masked_labels(step)); });
  expect_same_on_meshes<BertForSequenceClassification>(
      {"data=2,model=2"}, [](BertForSequenceClassification& model, const BertInputs& given, int step) {
        return model(given, varied_ids({kRows}, 2, step));
      });
}

}  // namespace
}  // namespace tessera::nn
