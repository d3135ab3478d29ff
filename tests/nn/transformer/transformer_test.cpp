// SPDX-License-Identifier: Apache-2.0
// The layers of transformers equal their definitions in plain loops, with masks; gradients equal finite differences.
#include "tessera/nn/transformer/transformer.h"

#include <gtest/gtest.h>

#include <limits>

#include "nn/transformer/by_hand.h"
#include "tessera/nn/initializers.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::nn {
namespace {

constexpr double kHiddenKey = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kWidth = 6, kHeads = 2;

TransformerOptions small_options(bool norm_first = false) {
  return {.dim_feedforward = 5, .dropout = 0, .batch_first = true, .norm_first = norm_first, .dtype = kF64};
}

Tensor truths(const Dims& dims, const std::vector<std::int32_t>& values) {
  return Tensor::from<std::int32_t>(dims, values) == 1.0;
}

void expect_sample(const Tensor& actual, std::int64_t b, const Rows& expected) {
  const Rows rows = sample_of(actual, b);
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t t = 0; t < rows.size(); ++t) expect_near(rows[t], expected[t], 1e-11);
}

// ---- encoders -----------------------------------------------------------------------------------------------------------

TEST(TransformerEncoderLayer, EqualsItsDefinition) {
  const FreshRank rank;
  const Tensor x = numbers({2, 4, kWidth});
  const std::vector<std::int32_t> ignored{0, 0, 1, 0, 0, 1, 1, 1};
  for (const bool norm_first : {false, true})
    for (const bool bias : {false, true}) {
      TransformerOptions options = small_options(norm_first);
      options.bias = bias;
      if (norm_first) options.activation = "gelu";
      TransformerEncoderLayer layer(kWidth, kHeads, options);
      vary_parameters(layer);
      const Tensor y = layer(x, EncoderMasks{.src_key_padding_mask = truths({2, 4}, ignored)});
      const LayerByHand by_hand(layer, kHeads, norm_first, norm_first ? gelu_of : relu_of);
      for (std::size_t b = 0; b < 2; ++b)
        expect_sample(y, static_cast<std::int64_t>(b),
                      by_hand.encode(sample_of(x, static_cast<std::int64_t>(b)), [&](std::size_t, std::size_t key) {
                        return ignored[b * 4 + key] == 1 ? kHiddenKey : 0;
                      }));
    }
}

TEST(TransformerEncoderLayer, ASampleWithoutKeysHasAttentionZero) {
  const FreshRank rank;
  TransformerEncoderLayer layer(kWidth, kHeads, small_options());
  vary_parameters(layer);
  const Tensor x = numbers({2, 3, kWidth});
  const Tensor y = layer(x, EncoderMasks{.src_key_padding_mask = truths({2, 3}, {0, 0, 0, 1, 1, 1})});
  const LayerByHand by_hand(layer, kHeads, false, relu_of);
  expect_sample(y, 0, by_hand.encode(sample_of(x, 0), adds_nothing));
  expect_sample(y, 1, by_hand.encode(sample_of(x, 1), [](std::size_t, std::size_t) { return kHiddenKey; }));
}

TEST(TransformerEncoderLayer, TheThreeFormsOfACausalMaskAreEqual) {
  const FreshRank rank;
  TransformerEncoderLayer layer(kWidth, kHeads, small_options());
  const Tensor x = numbers({2, 3, kWidth});
  const Tensor y = layer(x, EncoderMasks{.is_causal = true});
  const Tensor added = Transformer::generate_square_subsequent_mask(3, kF64);
  EXPECT_EQ(values_of(added), (Numbers{0, kHiddenKey, kHiddenKey, 0, 0, kHiddenKey, 0, 0, 0}));
  const Tensor hidden = truths({3, 3}, {0, 1, 1, 0, 0, 1, 0, 0, 0});
  expect_near(values_of(layer(x, EncoderMasks{.src_mask = added})), values_of(y));
  expect_near(values_of(layer(x, EncoderMasks{.src_mask = hidden})), values_of(y));
  const LayerByHand by_hand(layer, kHeads, false, relu_of);
  expect_sample(y, 1, by_hand.encode(sample_of(x, 1), [](std::size_t query, std::size_t key) {
    return key > query ? kHiddenKey : 0;
  }));
}

TEST(TransformerEncoderLayer, GradientsEqualFiniteDifferences) {
  const FreshRank rank;
  const Tensor padding = truths({2, 3}, {0, 0, 1, 0, 0, 0});
  const Tensor x = numbers({2, 3, kWidth});
  TransformerOptions options = small_options(true);
  options.activation = "gelu";
  TransformerEncoderLayer layer(kWidth, kHeads, options);
  vary_parameters(layer);
  tessera::expect_gradients(
      [&] { return weighted_sum(layer(x, EncoderMasks{.src_key_padding_mask = padding, .is_causal = true})); },
      variables_of(layer, {x}));
}

TEST(TransformerEncoder, AppliesItsLayersAndThenTheNorm) {
  const FreshRank rank;
  TransformerEncoder encoder(kWidth, kHeads, 2, small_options(), make<LayerNorm>(kWidth, 1e-5, kF64));
  const Tensor x = numbers({2, 3, kWidth});
  const EncoderMasks masks{.is_causal = true};
  LayerNorm norm(kWidth, 1e-5, kF64);
  expect_near(values_of(encoder(x, masks)), values_of(norm(encoder.layers()[1](encoder.layers()[0](x, masks), masks))));
  EXPECT_NE(values_of(encoder.layers()[0].linear1().weight()), values_of(encoder.layers()[1].linear1().weight()));
  TransformerOptions time_first = small_options();
  time_first.batch_first = false;
  TransformerEncoder other(kWidth, kHeads, 2, time_first, make<LayerNorm>(kWidth, 1e-5, kF64));
  other.load_state_dict(encoder.state_dict());
  expect_near(values_of(other(x.transpose({1, 0, 2}), masks).transpose({1, 0, 2})), values_of(encoder(x, masks)));
}

// ---- decoders -----------------------------------------------------------------------------------------------------------

TEST(TransformerDecoderLayer, EqualsItsDefinition) {
  const FreshRank rank;
  const Tensor tgt = numbers({2, 3, kWidth}), memory = numbers({2, 4, kWidth}, 2), bias = numbers({3, 4}, 3);
  const std::vector<std::int32_t> ignored{0, 0, 1, 0, 0, 1, 0, 1};
  const Numbers added = values_of(bias);
  for (const bool norm_first : {false, true}) {
    TransformerDecoderLayer layer(kWidth, kHeads, small_options(norm_first));
    vary_parameters(layer);
    const Tensor y = layer(
        tgt, memory,
        DecoderMasks{.memory_mask = bias, .memory_key_padding_mask = truths({2, 4}, ignored), .tgt_is_causal = true});
    const LayerByHand by_hand(layer, kHeads, norm_first, relu_of);
    const Added causal = [](std::size_t query, std::size_t key) { return key > query ? kHiddenKey : 0; };
    for (std::size_t b = 0; b < 2; ++b) {
      const auto sample = static_cast<std::int64_t>(b);
      const Added of_memory = [&](std::size_t query, std::size_t key) {
        return ignored[b * 4 + key] == 1 ? kHiddenKey : added[query * 4 + key];
      };
      expect_sample(y, sample, by_hand.decode(sample_of(tgt, sample), sample_of(memory, sample), causal, of_memory));
    }
  }
}

TEST(TransformerDecoderLayer, GradientsEqualFiniteDifferences) {
  const FreshRank rank;
  const Tensor tgt = numbers({2, 3, kWidth}), memory = numbers({2, 4, kWidth}, 2);
  TransformerOptions options = small_options();
  options.activation = "gelu";
  TransformerDecoderLayer layer(kWidth, kHeads, options);
  vary_parameters(layer);
  tessera::expect_gradients([&] { return weighted_sum(layer(tgt, memory, DecoderMasks{.tgt_is_causal = true})); },
                            variables_of(layer, {tgt, memory}));
}

// ---- the transformer ----------------------------------------------------------------------------------------------------

TEST(Transformer, DecodesWhatItEncodes) {
  const FreshRank rank;
  Transformer model(kWidth, kHeads, 2, 1, small_options());
  const Tensor src = numbers({2, 4, kWidth}), tgt = numbers({2, 3, kWidth}, 2);
  const Tensor padding = truths({2, 4}, {0, 0, 0, 1, 0, 0, 1, 1});
  const Tensor memory = model.encoder()(src, EncoderMasks{.src_key_padding_mask = padding});
  const Tensor expected =
      model.decoder()(tgt, memory, DecoderMasks{.memory_key_padding_mask = padding, .tgt_is_causal = true});
  const Tensor y = model(
      src, tgt,
      TransformerMasks{.src_key_padding_mask = padding, .memory_key_padding_mask = padding, .tgt_is_causal = true});
  expect_near(values_of(y), values_of(expected));
}

std::vector<std::string> with_prefix(const std::string& prefix, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& name : names) out.push_back(prefix + name);
  return out;
}

TEST(Transformer, ParametersHaveTheNamesShapesAndNumberOfPyTorch) {
  const FreshRank rank;
  const std::vector<std::string> encoder{"self_attn.in_proj_weight 18x6",
                                         "self_attn.in_proj_bias 18",
                                         "self_attn.out_proj.weight 6x6",
                                         "self_attn.out_proj.bias 6",
                                         "linear1.weight 5x6",
                                         "linear1.bias 5",
                                         "linear2.weight 6x5",
                                         "linear2.bias 6",
                                         "norm1.weight 6",
                                         "norm1.bias 6",
                                         "norm2.weight 6",
                                         "norm2.bias 6"};
  std::vector<std::string> decoder = encoder;
  decoder.insert(decoder.begin() + 4, {"multihead_attn.in_proj_weight 18x6", "multihead_attn.in_proj_bias 18",
                                       "multihead_attn.out_proj.weight 6x6", "multihead_attn.out_proj.bias 6"});
  decoder.insert(decoder.end(), {"norm3.weight 6", "norm3.bias 6"});
  EXPECT_EQ(names_of(TransformerEncoderLayer(kWidth, kHeads, small_options())), encoder);
  EXPECT_EQ(names_of(TransformerDecoderLayer(kWidth, kHeads, small_options())), decoder);
  std::vector<std::string> all;
  for (const auto& names :
       {with_prefix("encoder.layers.0.", encoder), with_prefix("encoder.layers.1.", encoder),
        with_prefix("encoder.norm.", {"weight 6", "bias 6"}), with_prefix("decoder.layers.0.", decoder),
        with_prefix("decoder.norm.", {"weight 6", "bias 6"})})
    all.insert(all.end(), names.begin(), names.end());
  EXPECT_EQ(names_of(Transformer(kWidth, kHeads, 2, 1, small_options())), all);
  // 6 layers of 3,152,384, 6 of 4,204,032, and two norms of 1024.
  EXPECT_EQ(Transformer().parameter_count(), 44'140'544);
}

TEST(Transformer, MatricesStartFromXavierUniform) {
  const FreshRank rank;
  Transformer model(kWidth, kHeads, 1, 1, small_options());
  double largest = 0;
  for (const double value : values_of(model.decoder().layers()[0].linear1().weight()))
    largest = std::max(largest, std::fabs(value));
  EXPECT_LE(largest, std::sqrt(6.0 / 11));
  EXPECT_GT(largest, 1 / std::sqrt(6.0));  // the bound of Linear alone
  const Tensor weight = model.encoder().layers()[0].linear1().weight();
  expect_error([&] { set_initializer(model.decoder().layers()[0].linear1().weight(), zeros()); },
               "set_initializer: the parameter decoder.layers.0.linear1.weight has a value already");
  set_initializer(weight, constant(0.25));
  EXPECT_EQ(values_of(weight), Numbers(30, 0.25));
}

TEST(Transformer, ForwardReadsNothingOnTheHost) {
  const FreshRank rank;
  Transformer model(kWidth, kHeads, 1, 1, {.dim_feedforward = 5, .batch_first = true});
  const Tensor x = numbers({2, 3, kWidth}).to(kF32);
  const Tensor padding = truths({2, 3}, {0, 0, 1, 0, 0, 0});
  mark_step();
  const auto reads = [] {
    const auto data = metrics().metric_data("TransferFromDeviceTime");
    return std::pair{lazy_counters().forced_reads, data ? data->total_samples : 0};
  };
  const auto before = reads();
  const Tensor y = model(x, x, TransformerMasks{.src_key_padding_mask = padding, .tgt_is_causal = true});
  sum(y).backward();
  mark_step({.wait = true});
  EXPECT_EQ(reads(), before);
}

TEST(Transformer, EmptyBatchesAndAnEmptyMemoryAreAllowed) {
  const FreshRank rank;
  Transformer model(kWidth, kHeads, 1, 1, small_options());
  const Tensor none = Tensor::zeros(Type::array(kF64, {0, 3, kWidth}));
  EXPECT_EQ(model(none, none).dims(), (Dims{0, 3, kWidth}));
  EXPECT_TRUE(values_of(model(none, none)).empty());
  TransformerDecoderLayer layer(kWidth, kHeads, small_options());
  vary_parameters(layer);
  const Tensor tgt = numbers({2, 3, kWidth});
  const Tensor y = layer(tgt, Tensor::zeros(Type::array(kF64, {2, 0, kWidth})));
  const LayerByHand by_hand(layer, kHeads, false, relu_of);
  expect_sample(y, 1, by_hand.decode(sample_of(tgt, 1), {}, adds_nothing, adds_nothing));
}

TEST(Transformer, ErrorsNameTheArgument) {
  const FreshRank rank;
  expect_error([] { TransformerEncoderLayer(6, 4); }, "MultiheadAttention: embed_dim 6 is not a multiple of 4 heads");
  expect_error([] { TransformerDecoderLayer(6, 2, {.activation = "rely"}); },
               "TransformerDecoderLayer: unknown activation \"rely\"; did you mean \"relu\"?");
  expect_error([] { TransformerEncoderLayer(6, 2, {.dropout = 1}); },
               "Dropout: the probability must be in [0, 1), got 1");
  expect_error([] { TransformerEncoder(6, 2, -1); }, "TransformerEncoder: num_layers must not be negative, got -1");
  TransformerEncoderLayer encoder(kWidth, kHeads, small_options());
  TransformerOptions time_first = small_options();
  time_first.batch_first = false;
  TransformerDecoderLayer decoder(kWidth, kHeads, time_first);
  Transformer model(kWidth, kHeads, 1, 1, small_options());
  const Tensor x = numbers({2, 3, kWidth}), narrow = numbers({2, 3, 5});
  expect_error([&] { (void)encoder(narrow); }, "TransformerEncoderLayer: src must be [batch, time, 6], got f64[2,3,5]");
  expect_error([&] { (void)decoder(x, narrow); },
               "TransformerDecoderLayer: memory must be [time, batch, 6], got f64[2,3,5]");
  expect_error(
      [&] {
        (void)decoder(numbers({3, kWidth}), x);
      },
      "TransformerDecoderLayer: tgt must be [time, batch, 6], got f64[3,6]");
  expect_error(
      [&] {
        (void)model(x, numbers({3, 3, kWidth}));
      },
      "Transformer: src and tgt must be [batch, time, d_model] with the same batch, got f64[2,3,6] and f64[3,3,6]");
  expect_error(
      [&] {
        (void)encoder(x, EncoderMasks{.src_key_padding_mask = truths({2, 2}, {0, 0, 0, 0})});
      },
      "MultiheadAttention: key_padding_mask needs booleans [2, 3], got pred[2,2]");
}

}  // namespace
}  // namespace tessera::nn
