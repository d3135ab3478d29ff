// SPDX-License-Identifier: Apache-2.0
#include "recurrent/steps.h"

#include <fmt/format.h>

#include "tessera/frontend/tensor/functions.h"

namespace tessera::nn::detail {
namespace {

// x [..., in] and weight [gates, hidden, in] -> [..., gates, hidden].
Tensor in_gates(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = dot(x, weight, {.lhs_contracting = {x.ndim() - 1}, .rhs_contracting = {2}});
  return bias.is_null() ? y : y + bias;
}

Tensor hidden_gates(const RecurrentWeights& weights, const Tensor& h) {
  return in_gates(h, weights.weight_hh, weights.bias_hh);
}

}  // namespace

Tensor input_gates(const RecurrentWeights& weights, const Tensor& x) {
  return in_gates(x, weights.weight_ih, weights.bias_ih);
}

std::vector<Tensor> tanh_step(const RecurrentWeights& weights, const Tensor& gates, const std::vector<Tensor>& state) {
  return {tanh(gates + hidden_gates(weights, state[0])).select(1, 0)};
}

std::vector<Tensor> relu_step(const RecurrentWeights& weights, const Tensor& gates, const std::vector<Tensor>& state) {
  return {relu(gates + hidden_gates(weights, state[0])).select(1, 0)};
}

std::vector<Tensor> lstm_step(const RecurrentWeights& weights, const Tensor& gates, const std::vector<Tensor>& state) {
  const Tensor all = gates + hidden_gates(weights, state[0]);
  const Tensor input = sigmoid(all.select(1, 0)), forget = sigmoid(all.select(1, 1));
  const Tensor cell = forget * state[1] + input * tanh(all.select(1, 2));
  return {sigmoid(all.select(1, 3)) * tanh(cell), cell};
}

std::vector<Tensor> gru_step(const RecurrentWeights& weights, const Tensor& gates, const std::vector<Tensor>& state) {
  const Tensor& h = state[0];
  const Tensor recurrent = hidden_gates(weights, h);
  const Tensor reset = sigmoid(gates.select(1, 0) + recurrent.select(1, 0));
  const Tensor update = sigmoid(gates.select(1, 1) + recurrent.select(1, 1));
  const Tensor fresh = tanh(gates.select(1, 2) + reset * recurrent.select(1, 2));
  return {fresh + update * (h - fresh)};
}

bool is_relu(std::string_view layer, std::string_view nonlinearity) {
  require(nonlinearity == "tanh" || nonlinearity == "relu", "{}: nonlinearity must be tanh or relu, got \"{}\"", layer,
          nonlinearity);
  return nonlinearity == "relu";
}

std::vector<Tensor> states_or_zeros(std::string_view layer, const Tensor& x, const std::vector<Tensor>& given,
                                    const Dims& dims) {
  std::vector<Tensor> out;
  for (const Tensor& state : given) {
    require(state.is_null() || (state.dims() == dims && state.dtype() == x.dtype()),
            "{}: the initial state for x {} must be {}, got {}", layer, x.type(), Type::array(x.dtype(), dims),
            [&] { return state.type().str(); });
    out.push_back(state.is_null() ? tessera::zeros({dims}, x.dtype()) : state);
  }
  return out;
}

}  // namespace tessera::nn::detail
