// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/recurrent/cells.h"

#include <cmath>

#include "recurrent/steps.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"

namespace tessera::nn {

RecurrentWeights RecurrentModule::add_weights(const std::string& suffix, const Sizes& sizes, bool bias, DType dtype) {
  require(sizes.in >= 1 && sizes.hidden >= 1, "{}: input_size and hidden_size must be positive, got {} and {}",
          class_name(), sizes.in, sizes.hidden);
  const double bound = 1 / std::sqrt(static_cast<double>(sizes.hidden));
  const auto add = [&](const std::string& name, Dims dims) {
    const Type type = Type::array(dtype, dims);
    dims[1] *= dims[0];
    dims.erase(dims.begin());
    return add_parameter(name + suffix, type, uniform(-bound, bound), dims);
  };
  RecurrentWeights out;
  out.weight_ih = add("weight_ih", {sizes.gates, sizes.hidden, sizes.in});
  out.weight_hh = add("weight_hh", {sizes.gates, sizes.hidden, sizes.hidden});
  if (!bias) return out;
  out.bias_ih = add("bias_ih", {sizes.gates, sizes.hidden});
  out.bias_hh = add("bias_hh", {sizes.gates, sizes.hidden});
  return out;
}

void RecurrentCell::add_cell(const Sizes& sizes, const Options& options) {
  sizes_ = sizes;
  weights_ = add_weights("", sizes, options.bias, options.dtype);
}

std::vector<Tensor> RecurrentCell::next(const Tensor& x, const std::vector<Tensor>& given, RecurrentStep step) {
  const tessera::detail::LibraryCall scope(detail::current_call());
  require(x.ndim() == 2 && x.dim(1) == sizes_.in, "{}: x must be [batch, {}], got {}", class_name(), sizes_.in,
          x.type());
  const auto state = detail::states_or_zeros(class_name(), x, given, {x.dim(0), sizes_.hidden});
  return step(weights_, detail::input_gates(weights_, x), state);
}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const Options& options)
    : is_relu_(detail::is_relu("RNNCell", options.nonlinearity)) {
  add_cell({detail::kRnnGates, input_size, hidden_size}, {.bias = options.bias, .dtype = options.dtype});
}
Tensor RNNCell::forward(const Tensor& x, const Tensor& h) {
  return next(x, {h}, is_relu_ ? detail::relu_step : detail::tanh_step)[0];
}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const Options& options) {
  add_cell({detail::kLstmGates, input_size, hidden_size}, options);
}
LSTMState LSTMCell::forward(const Tensor& x, const LSTMState& state) {
  const auto out = next(x, {state.first, state.second}, detail::lstm_step);
  return {out[0], out[1]};
}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, const Options& options) {
  add_cell({detail::kGruGates, input_size, hidden_size}, options);
}
Tensor GRUCell::forward(const Tensor& x, const Tensor& h) { return next(x, {h}, detail::gru_step)[0]; }

}  // namespace tessera::nn
