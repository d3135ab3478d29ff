// SPDX-License-Identifier: Apache-2.0
// RNN, LSTM, GRU and their cells equal their definitions in plain loops; gradients equal finite differences.
#include "tessera/nn/recurrent/recurrent.h"

#include <gtest/gtest.h>

#include "nn/recurrent/by_hand.h"
#include "tessera/frontend/tensor/autocast.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kTime = 5, kBatch = 3, kIn = 4, kHidden = 2;

TEST(Recurrent, LayersAndDirectionsEqualTheDefinition) {
  const FreshRank rank;
  const Tensor x = numbers({kTime, kBatch, kIn}), h = numbers({4, kBatch, kHidden}, 2),
               c = numbers({4, kBatch, kHidden}, 3);
  const auto expect = [&](RecurrentKind kind, const Module& module, const Tensor& output, const Tensor& end_h,
                          const Tensor& end_c) {
    States hs = nested(h), cs = nested(c);
    const Sequence expected = run_by_hand(kind, module, {.layers = 2, .both = true}, nested(x), hs, cs);
    expect_near(values_of(output), flat_numbers(expected));
    expect_near(values_of(end_h), flat_numbers(hs));
    if (!end_c.is_null()) expect_near(values_of(end_c), flat_numbers(cs));
  };
  RNN with_tanh(kIn, kHidden, {.num_layers = 2, .bidirectional = true, .dtype = kF64});
  RNN with_relu(kIn, kHidden, {.num_layers = 2, .nonlinearity = "relu", .bidirectional = true, .dtype = kF64});
  LSTM lstm(kIn, kHidden, {.num_layers = 2, .bidirectional = true, .dtype = kF64});
  GRU gru(kIn, kHidden, {.num_layers = 2, .bidirectional = true, .dtype = kF64});
  const auto [tanh_output, tanh_end] = with_tanh(x, h);
  const auto [relu_output, relu_end] = with_relu(x, h);
  const auto [lstm_output, lstm_end] = lstm(x, LSTMState{h, c});
  const auto [gru_output, gru_end] = gru(x, h);
  EXPECT_EQ(lstm_output.dims(), (Dims{kTime, kBatch, 2 * kHidden}));
  expect(RecurrentKind::kTanh, with_tanh, tanh_output, tanh_end, {});
  expect(RecurrentKind::kRelu, with_relu, relu_output, relu_end, {});
  expect(RecurrentKind::kLstm, lstm, lstm_output, lstm_end.first, lstm_end.second);
  expect(RecurrentKind::kGru, gru, gru_output, gru_end, {});
}

TEST(Recurrent, WithoutBiasAndStateTheBatchMayComeFirst) {
  const FreshRank rank;
  LSTM lstm(kIn, kHidden, {.bias = false, .batch_first = true, .dtype = kF64});
  EXPECT_EQ(lstm.parameters().size(), 2U);
  const Tensor x = numbers({kBatch, kTime, kIn});
  States h(1, std::vector<Numbers>(kBatch, Numbers(kHidden, 0.0))), c = h;
  const Sequence expected =
      run_by_hand(RecurrentKind::kLstm, lstm, {.bias = false}, nested(x.transpose({1, 0, 2})), h, c);
  const auto [output, end] = lstm(x);
  EXPECT_EQ(output.dims(), (Dims{kBatch, kTime, kHidden}));
  EXPECT_EQ(end.first.dims(), (Dims{1, kBatch, kHidden}));
  expect_near(values_of(output.transpose({1, 0, 2})), flat_numbers(expected));
  expect_near(values_of(end.second), flat_numbers(c));
}

TEST(Recurrent, CellsEqualTheDefinition) {
  const FreshRank rank;
  const Tensor x = numbers({kBatch, kIn}), h = numbers({kBatch, kHidden}, 2), c = numbers({kBatch, kHidden}, 3);
  const auto rows = [](const Tensor& of) { return nested(of.unsqueeze(0))[0]; };
  const auto expect = [&](RecurrentKind kind, const Module& cell, const Tensor& next_h, const Tensor& next_c) {
    std::vector<Numbers> hs = rows(h), cs = rows(c);
    const WeightsByHand weights(cell, "", true);
    for (std::size_t b = 0; b < hs.size(); ++b) step_by_hand(kind, weights, rows(x)[b], hs[b], cs[b]);
    expect_near(values_of(next_h), flat_numbers({hs}));
    if (!next_c.is_null()) expect_near(values_of(next_c), flat_numbers({cs}));
  };
  RNNCell with_tanh(kIn, kHidden, {.dtype = kF64}), with_relu(kIn, kHidden, {.nonlinearity = "relu", .dtype = kF64});
  LSTMCell lstm(kIn, kHidden, {.dtype = kF64});
  GRUCell gru(kIn, kHidden, {.dtype = kF64});
  expect(RecurrentKind::kTanh, with_tanh, with_tanh(x, h), {});
  expect(RecurrentKind::kRelu, with_relu, with_relu(x, h), {});
  expect(RecurrentKind::kGru, gru, gru(x, h), {});
  const auto [next_h, next_c] = lstm(x, LSTMState{h, c});
  expect(RecurrentKind::kLstm, lstm, next_h, next_c);
  const Tensor nothing = Tensor::zeros(h.type());
  expect_near(values_of(gru(x)), values_of(gru(x, nothing)));
  tessera::expect_gradients(
      [&] {
        return weighted_sum(lstm(x, LSTMState{h, c}).second);
      },
      variables_of(lstm, {x, h, c}));
}

TEST(Recurrent, GradientsFlowThroughTime) {
  const FreshRank rank;
  const Tensor x = numbers({kTime, kBatch, kIn}), h = numbers({2, kBatch, kHidden}, 2),
               c = numbers({2, kBatch, kHidden}, 3);
  RNN rnn(kIn, kHidden, {.bidirectional = true, .dtype = kF64});
  LSTM lstm(kIn, kHidden, {.num_layers = 2, .dtype = kF64});
  GRU gru(kIn, kHidden, {.bidirectional = true, .dtype = kF64});
  const auto loss = [](const Tensor& output, const Tensor& end) {
    return weighted_sum(output) + weighted_sum(end) * 0.3;
  };
  tessera::expect_gradients(
      [&] {
        const auto [output, end] = rnn(x, h);
        return loss(output, end);
      },
      variables_of(rnn, {x, h}));
  tessera::expect_gradients(
      [&] {
        const auto [output, end] = lstm(x, LSTMState{h, c});
        return loss(output, end.second);
      },
      variables_of(lstm, {x, h, c}));
  tessera::expect_gradients(
      [&] {
        const auto [output, end] = gru(x, h);
        return loss(output, end);
      },
      variables_of(gru, {x, h}));
}

TEST(Recurrent, ParametersHaveTheNamesAndShapesOfPyTorch) {
  const FreshRank rank;
  EXPECT_EQ(names_of(LSTM(3, 2, {.num_layers = 2, .bidirectional = true})),
            (std::vector<std::string>{"weight_ih_l0 8x3", "weight_hh_l0 8x2", "bias_ih_l0 8", "bias_hh_l0 8",
                                      "weight_ih_l0_reverse 8x3", "weight_hh_l0_reverse 8x2", "bias_ih_l0_reverse 8",
                                      "bias_hh_l0_reverse 8", "weight_ih_l1 8x4", "weight_hh_l1 8x2", "bias_ih_l1 8",
                                      "bias_hh_l1 8", "weight_ih_l1_reverse 8x4", "weight_hh_l1_reverse 8x2",
                                      "bias_ih_l1_reverse 8", "bias_hh_l1_reverse 8"}));
  EXPECT_EQ(names_of(GRU(3, 2, {.bias = false})), (std::vector<std::string>{"weight_ih_l0 6x3", "weight_hh_l0 6x2"}));
  EXPECT_EQ(names_of(RNN(3, 2)),
            (std::vector<std::string>{"weight_ih_l0 2x3", "weight_hh_l0 2x2", "bias_ih_l0 2", "bias_hh_l0 2"}));
  EXPECT_EQ(names_of(GRUCell(3, 2)),
            (std::vector<std::string>{"weight_ih 6x3", "weight_hh 6x2", "bias_ih 6", "bias_hh 6"}));
}

TEST(Recurrent, InitialValuesLieBetweenTheBounds) {
  const FreshRank rank;
  LSTM lstm(40, 25, {.dtype = kF64});
  for (const auto& [name, parameter] : lstm.named_parameters()) {
    double largest = 0;
    for (const double value : values_of(parameter)) largest = std::max(largest, std::fabs(value));
    EXPECT_LE(largest, 0.2) << name;  // 1 / sqrt(25)
    EXPECT_GT(largest, 0.18) << name;
  }
}

TEST(Recurrent, TheProgramDoesNotGrowWithTheLength) {
  const FreshRank rank;
  GRU gru(kIn, kHidden, {.num_layers = 2, .bidirectional = true, .dtype = kF64});
  const auto ops_for = [&](std::int64_t time) {
    const Tensor x = numbers({time, kBatch, kIn});
    gru.zero_grad();
    const std::int64_t before = lazy_counters().recorded_ops;
    sum(gru(x).first).backward();
    const std::int64_t ops = lazy_counters().recorded_ops - before;
    mark_step();
    return ops;
  };
  EXPECT_EQ(ops_for(7), ops_for(70));
}

TEST(Recurrent, AStateContinuesASequence) {
  const FreshRank rank;
  LSTM lstm(kIn, kHidden, {.num_layers = 2, .dtype = kF64});
  const Tensor x = numbers({7, kBatch, kIn});
  const auto [complete, end] = lstm(x);
  const auto [first, middle] = lstm(x.slice(0, 0, 4));
  const auto [second, same_end] = lstm(x.slice(0, 4, 7), middle);
  expect_near(values_of(concat({first, second}, 0)), values_of(complete));
  expect_near(values_of(same_end.second), values_of(end.second));
}

TEST(Recurrent, DropoutActsBetweenLayersInTraining) {
  const FreshRank rank;
  const Tensor x = numbers({kTime, kBatch, kIn});
  LSTM two(kIn, 7, {.num_layers = 2, .dropout = 0.5, .dtype = kF64}), one(kIn, 7, {.dropout = 0.5, .dtype = kF64});
  const Numbers dropped = values_of(two(x).first), one_trained = values_of(one(x).first);
  two.eval();
  one.eval();
  EXPECT_NE(values_of(two(x).first), dropped);
  EXPECT_EQ(values_of(one(x).first), one_trained);
}

TEST(Recurrent, EmptySequencesKeepTheState) {
  const FreshRank rank;
  GRU gru(kIn, kHidden, {.num_layers = 2, .dtype = kF64});
  const Tensor h = numbers({2, kBatch, kHidden});
  const auto [output, end] = gru(Tensor::zeros(Type::array(kF64, {0, kBatch, kIn})), h);
  EXPECT_EQ(output.dims(), (Dims{0, kBatch, kHidden}));
  EXPECT_EQ(values_of(end), values_of(h));
  const auto [no_rows, no_state] = gru(Tensor::zeros(Type::array(kF64, {kTime, 0, kIn})));
  EXPECT_EQ(no_rows.dims(), (Dims{kTime, 0, kHidden}));
  EXPECT_EQ(no_state.dims(), (Dims{2, 0, kHidden}));
  EXPECT_TRUE(values_of(no_rows).empty());
}

TEST(Recurrent, LowerPrecisionKeepsTheTypesOfTheLoop) {
  const FreshRank rank;
  LSTM lstm(kIn, kHidden, {.num_layers = 2, .bidirectional = true});
  const Tensor x = numbers({kTime, kBatch, kIn}).to(kF32);
  const Numbers exact = values_of(lstm(x).first.to(kF64));
  Numbers lower;
  {
    const Autocast scope(DType::kBF16);
    lower = values_of(lstm(x).first.to(kF64));
  }
  EXPECT_NE(lower, exact);
  expect_near(lower, exact, 0.03);
  lstm.set_compute_dtype(DType::kBF16);
  const auto [output, end] = lstm(x.to(DType::kBF16));
  EXPECT_EQ(output.dtype(), DType::kBF16);
  expect_near(values_of(output.to(kF64)), exact, 0.05);
}

TEST(Recurrent, ErrorsNameTheArgument) {
  const FreshRank rank;
  expect_error([] { RNN(3, 2, {.nonlinearity = "gelu"}); }, "RNN: nonlinearity must be tanh or relu, got \"gelu\"");
  expect_error([] { LSTM(3, 2, {.num_layers = 0}); }, "LSTM: num_layers must be positive, got 0");
  expect_error([] { GRU(3, 2, {.dropout = 1}); }, "GRU: the probability of dropout must be in [0, 1), got 1");
  expect_error([] { GRUCell(0, 2); }, "GRUCell: input_size and hidden_size must be positive, got 0 and 2");
  GRU gru(3, 2, {.batch_first = true, .dtype = kF64});
  LSTM lstm(3, 2, {.num_layers = 2, .dtype = kF64});
  LSTMCell cell(3, 2, {.dtype = kF64});
  expect_error([&] { (void)gru(numbers({4, 5})); }, "GRU: x must be [batch, time, 3], got f64[4,5]");
  expect_error([&] { (void)lstm(numbers({4, 5, 2})); }, "LSTM: x must be [time, batch, 3], got f64[4,5,2]");
  expect_error(
      [&] {
        (void)lstm(numbers({4, 5, 3}), LSTMState{numbers({1, 5, 2}), {}});
      },
      "LSTM: the initial state for x f64[4,5,3] must be f64[2,5,2], got f64[1,5,2]");
  expect_error([&] { (void)cell(numbers({4, 5})); }, "LSTMCell: x must be [batch, 3], got f64[4,5]");
}

}  // namespace
}  // namespace tessera::nn
