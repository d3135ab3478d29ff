// SPDX-License-Identifier: Apache-2.0
// Recurrent networks over sequences, with PyTorch's arguments and names of parameters. The loop over time is one scan
// in the graph for each layer and direction, so the size of the program does not depend on the length.
//
//   nn::LSTM lstm(80, 256, {.num_layers = 2, .batch_first = true, .bidirectional = true});
//   const auto [output, state] = lstm(x);                    // x [b, t, 80], output [b, t, 512]
//   const auto [more, end] = lstm(y, state);                 // continues with the state (h, c)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/nn/recurrent/cells.h"

namespace tessera::nn {

/// The base of RNN, LSTM and GRU. Its parameters are weight_ih_lN, weight_hh_lN, bias_ih_lN and bias_hh_lN for each
/// layer N, and the same with the suffix _reverse for the direction from the last time step to the first.
class Recurrent : public RecurrentModule {
 public:
  struct Options {
    std::int64_t num_layers = 1;
    bool bias = true;
    bool batch_first = false;
    double dropout = 0;  // of the results of each layer but the last, in training
    bool bidirectional = false;
    DType dtype = DType::kF32;
  };

 protected:
  struct Result {
    Tensor output;              // [t, b, directions * hidden], or [b, t, …]
    std::vector<Tensor> state;  // after the last time step: [layers * directions, b, hidden]
  };
  /// Adds the parameters. Errors: a size is not positive; dropout is not in [0, 1).
  void add_layers(const Sizes& sizes, const Options& options);
  /// `given` has null tensors for zeros. Error if a shape does not fit.
  Result run(const Tensor& x, const std::vector<Tensor>& given, RecurrentStep step);

 private:
  [[nodiscard]] std::vector<Tensor> initial_states(const Tensor& x, const std::vector<Tensor>& given) const;

  Sizes sizes_;
  Options options_;
  std::vector<RecurrentWeights> weights_;  // by layer, then by direction
};

/// The RNN of Elman (1990): h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with max(·, 0) instead of tanh.
class RNN : public Callable<RNN, Recurrent> {
 public:
  struct Options {
    std::int64_t num_layers = 1;
    std::string nonlinearity = "tanh";  // or "relu"
    bool bias = true;
    bool batch_first = false;
    double dropout = 0;
    bool bidirectional = false;
    DType dtype = DType::kF32;
  };
  RNN(std::int64_t input_size, std::int64_t hidden_size) : RNN(input_size, hidden_size, Options()) {}
  /// Error for another nonlinearity.
  RNN(std::int64_t input_size, std::int64_t hidden_size, const Options& options);
  /// x [t, b, input_size], or [b, t, input_size] with batch_first -> the results of the last layer [t, b, directions *
  /// hidden_size] (b first with batch_first), and the last h of each layer [layers * directions, b, hidden_size].
  std::pair<Tensor, Tensor> forward(const Tensor& x) { return forward(x, {}); }
  /// Begins with h [layers * directions, b, hidden_size]; null: zeros.
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& h);
  [[nodiscard]] std::string_view class_name() const override { return "RNN"; }

 private:
  bool is_relu_;
};

/// An LSTM: layers of LSTMCell, which run over time.
class LSTM : public Callable<LSTM, Recurrent> {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size) : LSTM(input_size, hidden_size, Options()) {}
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const Options& options);
  /// As RNN, with the state (h, c).
  std::pair<Tensor, LSTMState> forward(const Tensor& x) { return forward(x, {}); }
  std::pair<Tensor, LSTMState> forward(const Tensor& x, const LSTMState& state);
  [[nodiscard]] std::string_view class_name() const override { return "LSTM"; }
};

/// A GRU: layers of GRUCell, which run over time.
class GRU : public Callable<GRU, Recurrent> {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size) : GRU(input_size, hidden_size, Options()) {}
  GRU(std::int64_t input_size, std::int64_t hidden_size, const Options& options);
  /// As RNN.
  std::pair<Tensor, Tensor> forward(const Tensor& x) { return forward(x, {}); }
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& h);
  [[nodiscard]] std::string_view class_name() const override { return "GRU"; }
};

}  // namespace tessera::nn
