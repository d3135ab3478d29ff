// SPDX-License-Identifier: Apache-2.0
// The time steps of RNN, LSTM and GRU.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/nn/recurrent/cells.h"

namespace tessera::nn::detail {

inline constexpr std::int64_t kRnnGates = 1, kLstmGates = 4, kGruGates = 3;

/// W_ih x + b_ih: x [..., in] -> [..., gates, hidden].
Tensor input_gates(const RecurrentWeights& weights, const Tensor& x);

// The steps of RecurrentStep. The state of an LSTM is h, c; that of the others is h.
std::vector<Tensor> tanh_step(const RecurrentWeights& weights, const Tensor& gates, const std::vector<Tensor>& state);
std::vector<Tensor> relu_step(const RecurrentWeights& weights, const Tensor& gates, const std::vector<Tensor>& state);
std::vector<Tensor> lstm_step(const RecurrentWeights& weights, const Tensor& gates, const std::vector<Tensor>& state);
std::vector<Tensor> gru_step(const RecurrentWeights& weights, const Tensor& gates, const std::vector<Tensor>& state);

/// True for "relu", false for "tanh". Error for another name.
bool is_relu(std::string_view layer, std::string_view nonlinearity);

/// The states with zeros in place of null tensors. Error, with the name of the layer, unless a given state has these
/// dims and the element type of x.
std::vector<Tensor> states_or_zeros(std::string_view layer, const Tensor& x, const std::vector<Tensor>& given,
                                    const Dims& dims);

}  // namespace tessera::nn::detail
