// SPDX-License-Identifier: Apache-2.0
// Recurrent networks in plain loops.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/layer_checks.h"

namespace tessera::nn {

enum class RecurrentKind : std::uint8_t { kTanh, kRelu, kLstm, kGru };
using Sequence = std::vector<std::vector<Numbers>>;  // [time][batch][width]
using States = std::vector<std::vector<Numbers>>;    // [layer * directions][batch][hidden]

inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// Weight [rows, x.size()] and bias [rows], which may be empty.
inline Numbers affine(const Numbers& weight, const Numbers& bias, const Numbers& x, std::size_t rows) {
  Numbers out = bias.empty() ? Numbers(rows, 0.0) : bias;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < x.size(); ++i) out[row] += weight[row * x.size() + i] * x[i];
  return out;
}

/// The parameters with this suffix, in PyTorch's order of rows.
struct WeightsByHand {
  Numbers ih, hh, bias_ih, bias_hh;
  WeightsByHand(const Module& module, const std::string& suffix, bool bias)
      : ih(values_of(module.parameter("weight_ih" + suffix))), hh(values_of(module.parameter("weight_hh" + suffix))) {
    if (!bias) return;
    bias_ih = values_of(module.parameter("bias_ih" + suffix));
    bias_hh = values_of(module.parameter("bias_hh" + suffix));
  }
};

/// Changes h, and c of an LSTM, to those after one time step of one sample.
inline void step_by_hand(RecurrentKind kind, const WeightsByHand& weights, const Numbers& x, Numbers& h, Numbers& c) {
  const std::size_t size = h.size(), rows = weights.ih.size() / x.size();
  const Numbers in = affine(weights.ih, weights.bias_ih, x, rows);
  const Numbers recurrent = affine(weights.hh, weights.bias_hh, h, rows);
  for (std::size_t u = 0; u < size; ++u) {
    const auto gate = [&](std::size_t g) { return in[g * size + u] + recurrent[g * size + u]; };
    if (kind == RecurrentKind::kTanh) h[u] = std::tanh(gate(0));
    if (kind == RecurrentKind::kRelu) h[u] = std::max(gate(0), 0.0);
    if (kind == RecurrentKind::kLstm) {
      c[u] = sigmoid_of(gate(1)) * c[u] + sigmoid_of(gate(0)) * std::tanh(gate(2));
      h[u] = sigmoid_of(gate(3)) * std::tanh(c[u]);
    }
    if (kind == RecurrentKind::kGru) {
      const double fresh = std::tanh(in[2 * size + u] + sigmoid_of(gate(0)) * recurrent[2 * size + u]);
      h[u] = (1 - sigmoid_of(gate(1))) * fresh + sigmoid_of(gate(1)) * h[u];
    }
  }
}

struct LayersByHand {
  std::size_t layers = 1;
  bool both = false;  // directions
  bool bias = true;
};

/// Returns the results of the last layer. Changes the states to those after the last time step.
inline Sequence run_by_hand(RecurrentKind kind, const Module& module, const LayersByHand& form, Sequence x, States& h,
                            States& c) {
  std::size_t place = 0;
  for (std::size_t layer = 0; layer < form.layers; ++layer) {
    Sequence out(x.size(), std::vector<Numbers>(h[0].size()));
    for (std::size_t direction = 0; direction < (form.both ? 2U : 1U); ++direction, ++place) {
      const WeightsByHand weights(module, "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : ""), form.bias);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t t = direction == 1 ? x.size() - 1 - i : i;
        for (std::size_t b = 0; b < h[place].size(); ++b) {
          step_by_hand(kind, weights, x[t][b], h[place][b], c[place][b]);
          out[t][b].insert(out[t][b].end(), h[place][b].begin(), h[place][b].end());
        }
      }
    }
    x = out;
  }
  return x;
}

/// [a][b][c] from a tensor [a, b, c].
inline std::vector<std::vector<Numbers>> nested(const Tensor& x) {
  const Numbers flat = values_of(x);
  std::vector<std::vector<Numbers>> out;
  auto next = flat.begin();
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    out.emplace_back();
    for (std::int64_t j = 0; j < x.dim(1); ++j, next += x.dim(2)) out.back().emplace_back(next, next + x.dim(2));
  }
  return out;
}
inline Numbers flat_numbers(const std::vector<std::vector<Numbers>>& x) {
  Numbers out;
  for (const auto& rows : x)
    for (const Numbers& row : rows) out.insert(out.end(), row.begin(), row.end());
  return out;
}

}  // namespace tessera::nn
