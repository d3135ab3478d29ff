// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/recurrent/recurrent.h"

#include "recurrent/steps.h"
#include "tessera/frontend/control/control_flow.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

// One layer in one direction: gates [t, b, gates, hidden] -> h of each time step [t, b, hidden], and the last state.
std::pair<Tensor, std::vector<Tensor>> scan_time(const RecurrentWeights& weights, const Tensor& gates,
                                                 std::vector<Tensor> state, RecurrentStep step, bool reverse) {
  // The gates may be wider than the inputs (autocast), and the type of the state cannot change in the loop.
  for (Tensor& part : state) part = part.to(gates.dtype());
  const auto body = [&](const std::vector<Tensor>& before, const Tensor& gates_now) {
    std::vector<Tensor> after = step(weights, gates_now, before);
    for (Tensor& part : after) part = part.to(gates.dtype());
    const Tensor h = after.front();
    return std::pair(std::move(after), h);
  };
  auto [last, outputs] = scan(body, state, gates, {.reverse = reverse}, detail::current_call());
  return {outputs, std::move(last)};
}

}  // namespace

void Recurrent::add_layers(const Sizes& sizes, const Options& options) {
  require(options.num_layers >= 1, "{}: num_layers must be positive, got {}", class_name(), options.num_layers);
  require(options.dropout >= 0 && options.dropout < 1, "{}: the probability of dropout must be in [0, 1), got {}",
          class_name(), options.dropout);
  sizes_ = sizes;
  options_ = options;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer)
    for (const char* const direction : {"", "_reverse"}) {
      if (*direction != 0 && !options.bidirectional) continue;
      const std::int64_t in = layer == 0 ? sizes.in : (options.bidirectional ? 2 : 1) * sizes.hidden;
      weights_.push_back(add_weights("_l" + std::to_string(layer) + direction, {sizes.gates, in, sizes.hidden},
                                     options.bias, options.dtype));
    }
}

std::vector<Tensor> Recurrent::initial_states(const Tensor& x, const std::vector<Tensor>& given) const {
  require(x.ndim() == 3 && x.dim(2) == sizes_.in, "{}: x must be [{}, {}], got {}", class_name(),
          options_.batch_first ? "batch, time" : "time, batch", sizes_.in, x.type());
  const std::int64_t batch = x.dim(options_.batch_first ? 0 : 1);
  return detail::states_or_zeros(class_name(), x, given, {isize(weights_), batch, sizes_.hidden});
}

Recurrent::Result Recurrent::run(const Tensor& x, const std::vector<Tensor>& given, RecurrentStep step) {
  const tessera::detail::LibraryCall scope(detail::current_call());
  const std::vector<Tensor> initial = initial_states(x, given);
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  std::vector<std::vector<Tensor>> ends(initial.size());  // of each part of the state
  Tensor y = options_.batch_first ? x.transpose({1, 0, 2}) : x;
  for (std::size_t first = 0; first < weights_.size(); first += directions) {
    std::vector<Tensor> outputs;
    for (std::size_t i = first; i < first + directions; ++i) {
      std::vector<Tensor> state;
      for (const Tensor& part : initial) state.push_back(part.select(0, static_cast<std::int64_t>(i)));
      const Tensor gates = detail::input_gates(weights_[i], y);
      const auto [output, last] = scan_time(weights_[i], gates, state, step, i > first);
      outputs.push_back(output);
      for (std::size_t k = 0; k < last.size(); ++k) ends[k].push_back(last[k]);
    }
    y = directions == 1 ? outputs[0] : concat(outputs, 2);
    const bool is_last = first + directions == weights_.size();
    if (!is_last && is_training() && options_.dropout > 0) y = dropout(y, options_.dropout);
  }
  Result out{options_.batch_first ? y.transpose({1, 0, 2}) : y, {}};
  for (const auto& parts : ends) out.state.push_back(stack(parts));
  return out;
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const Options& options)
    : is_relu_(detail::is_relu("RNN", options.nonlinearity)) {
  add_layers({detail::kRnnGates, input_size, hidden_size}, {options.num_layers, options.bias, options.batch_first,
                                                            options.dropout, options.bidirectional, options.dtype});
}
std::pair<Tensor, Tensor> RNN::forward(const Tensor& x, const Tensor& h) {
  const Result out = run(x, {h}, is_relu_ ? detail::relu_step : detail::tanh_step);
  return {out.output, out.state[0]};
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const Options& options) {
  add_layers({detail::kLstmGates, input_size, hidden_size}, options);
}
std::pair<Tensor, LSTMState> LSTM::forward(const Tensor& x, const LSTMState& state) {
  const Result out = run(x, {state.first, state.second}, detail::lstm_step);
  return {out.output, {out.state[0], out.state[1]}};
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const Options& options) {
  add_layers({detail::kGruGates, input_size, hidden_size}, options);
}
std::pair<Tensor, Tensor> GRU::forward(const Tensor& x, const Tensor& h) {
  const Result out = run(x, {h}, detail::gru_step);
  return {out.output, out.state[0]};
}

}  // namespace tessera::nn
