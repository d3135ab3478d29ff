// SPDX-License-Identifier: Apache-2.0
// One time step of recurrent networks, with PyTorch's names of parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/nn/module.h"

namespace tessera::nn {

/// The state of an LSTM: h and c.
using LSTMState = std::pair<Tensor, Tensor>;

/// The parameters of one layer in one direction. Their shapes in memory have a dim of the gates, so that the dim of the
/// hidden units can be sharded; the shapes in files are those of PyTorch: [gates * hidden, …].
struct RecurrentWeights {
  Tensor weight_ih;  // [gates, hidden, in]
  Tensor weight_hh;  // [gates, hidden, hidden]
  Tensor bias_ih;    // [gates, hidden]; null without bias
  Tensor bias_hh;
};

/// One time step: the next state for the gates W_ih x + b_ih [b, gates, hidden] and the state, which is [b, hidden] for
/// each of its tensors.
using RecurrentStep = std::vector<Tensor> (*)(const RecurrentWeights& weights, const Tensor& gates,
                                              const std::vector<Tensor>& state);

/// The base of recurrent modules.
class RecurrentModule : public Module {
 protected:
  struct Sizes {
    std::int64_t gates = 1;
    std::int64_t in = 0;
    std::int64_t hidden = 0;
  };
  /// Adds weight_ih, weight_hh, bias_ih and bias_hh, with the suffix, from uniform(-1/sqrt(hidden), 1/sqrt(hidden)).
  /// Error unless the sizes are positive.
  RecurrentWeights add_weights(const std::string& suffix, const Sizes& sizes, bool bias, DType dtype);
};

/// The base of the cells: x [b, input_size] and states [b, hidden_size].
class RecurrentCell : public RecurrentModule {
 public:
  struct Options {
    bool bias = true;
    DType dtype = DType::kF32;
  };

 protected:
  /// Adds the parameters.
  void add_cell(const Sizes& sizes, const Options& options);
  /// Returns the next state. `given` has null tensors for zeros. Error if a shape does not fit.
  std::vector<Tensor> next(const Tensor& x, const std::vector<Tensor>& given, RecurrentStep step);

 private:
  Sizes sizes_;
  RecurrentWeights weights_;
};

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with max(·, 0) instead of tanh.
class RNNCell : public Callable<RNNCell, RecurrentCell> {
 public:
  struct Options {
    bool bias = true;
    std::string nonlinearity = "tanh";  // or "relu"
    DType dtype = DType::kF32;
  };
  RNNCell(std::int64_t input_size, std::int64_t hidden_size) : RNNCell(input_size, hidden_size, Options()) {}
  /// Error for another nonlinearity.
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const Options& options);
  /// Without a state, h is zero.
  Tensor forward(const Tensor& x) { return forward(x, {}); }
  Tensor forward(const Tensor& x, const Tensor& h);
  [[nodiscard]] std::string_view class_name() const override { return "RNNCell"; }

 private:
  bool is_relu_;
};

/// The LSTM of Hochreiter and Schmidhuber (1997). With the gates i, f, g, o in this order in the parameters: c' =
/// sigmoid(f) c + sigmoid(i) tanh(g), and h' = sigmoid(o) tanh(c').
class LSTMCell : public Callable<LSTMCell, RecurrentCell> {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size) : LSTMCell(input_size, hidden_size, Options()) {}
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const Options& options);
  /// Without a state, h and c are zero.
  LSTMState forward(const Tensor& x) { return forward(x, {}); }
  LSTMState forward(const Tensor& x, const LSTMState& state);
  [[nodiscard]] std::string_view class_name() const override { return "LSTMCell"; }
};

/// The GRU of Cho et al. (2014), in PyTorch's form. With the gates r, z, n in this order in the parameters: n =
/// tanh(W_in x + b_in + sigmoid(r) (W_hn h + b_hn)), and h' = (1 - sigmoid(z)) n + sigmoid(z) h.
class GRUCell : public Callable<GRUCell, RecurrentCell> {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size) : GRUCell(input_size, hidden_size, Options()) {}
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const Options& options);
  /// Without a state, h is zero.
  Tensor forward(const Tensor& x) { return forward(x, {}); }
  Tensor forward(const Tensor& x, const Tensor& h);
  [[nodiscard]] std::string_view class_name() const override { return "GRUCell"; }
};

}  // namespace tessera::nn
