// SPDX-License-Identifier: Apache-2.0
// The layers of transformers in plain loops, for one sample.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "nn/layer_checks.h"

namespace tessera::nn {

using Rows = std::vector<Numbers>;  // [time][width]

/// The scores' addend for a query and a key; -infinity hides the key.
using Added = std::function<double(std::size_t query, std::size_t key)>;
inline double adds_nothing(std::size_t, std::size_t) { return 0; }

/// A transformer layer whose parameters are those of a module.
class LayerByHand {
 public:
  LayerByHand(const Module& module, std::size_t heads, bool norm_first, double (*activation)(double))
      : heads_(heads), norm_first_(norm_first), activation_(activation) {
    for (const auto& [name, tensor] : module.named_parameters()) parameters_.emplace_back(name, values_of(tensor));
  }

  [[nodiscard]] Rows encode(const Rows& x, const Added& added) const {
    const auto self = [&](const Rows& in) { return attention("self_attn", in, in, added); };
    return residual(residual(x, "norm1", self), "norm2", [&](const Rows& in) { return feed_forward(in); });
  }
  [[nodiscard]] Rows decode(const Rows& x, const Rows& memory, const Added& own, const Added& of_memory) const {
    const Rows first = residual(x, "norm1", [&](const Rows& in) { return attention("self_attn", in, in, own); });
    const Rows second =
        residual(first, "norm2", [&](const Rows& in) { return attention("multihead_attn", in, memory, of_memory); });
    return residual(second, "norm3", [&](const Rows& in) { return feed_forward(in); });
  }

 private:
  [[nodiscard]] Numbers parameter(const std::string& name) const {
    for (const auto& [known, values] : parameters_)
      if (known == name) return values;
    return {};
  }

  // The rows `first` to `first + count - 1` of the weight.
  [[nodiscard]] Rows linear(const Rows& x, const std::string& weight, const std::string& bias, std::size_t first,
                            std::size_t count) const {
    const Numbers w = parameter(weight), b = parameter(bias);
    Rows out;
    for (const Numbers& row : x) {
      out.emplace_back();
      for (std::size_t o = first; o < first + count; ++o) {
        double total = b.empty() ? 0 : b[o];
        for (std::size_t i = 0; i < row.size(); ++i) total += w[o * row.size() + i] * row[i];
        out.back().push_back(total);
      }
    }
    return out;
  }

  [[nodiscard]] Rows attention(const std::string& name, const Rows& query, const Rows& key, const Added& added) const {
    const std::size_t width = query[0].size(), depth = width / heads_;
    const auto projected = [&](const Rows& x, std::size_t which) {
      return linear(x, name + ".in_proj_weight", name + ".in_proj_bias", which * width, width);
    };
    const Rows q = projected(query, 0), k = projected(key, 1), v = projected(key, 2);
    Rows mixed(query.size(), Numbers(width, 0.0));
    for (std::size_t h = 0; h < heads_; ++h)
      for (std::size_t t = 0; t < q.size(); ++t) {
        Numbers weights;
        double total = 0;
        for (std::size_t s = 0; s < k.size(); ++s) {
          double score = 0;
          for (std::size_t d = h * depth; d < (h + 1) * depth; ++d) score += q[t][d] * k[s][d];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(depth)) + added(t, s)));
          total += weights.back();
        }
        for (std::size_t s = 0; s < k.size() && total > 0; ++s)
          for (std::size_t d = h * depth; d < (h + 1) * depth; ++d) mixed[t][d] += weights[s] / total * v[s][d];
      }
    return linear(mixed, name + ".out_proj.weight", name + ".out_proj.bias", 0, width);
  }

  [[nodiscard]] Rows feed_forward(const Rows& x) const {
    const std::size_t inner = parameter("linear1.weight").size() / x[0].size();
    Rows hidden = linear(x, "linear1.weight", "linear1.bias", 0, inner);
    for (Numbers& row : hidden)
      for (double& value : row) value = activation_(value);
    return linear(hidden, "linear2.weight", "linear2.bias", 0, x[0].size());
  }

  [[nodiscard]] Rows normalized(const Rows& x, const std::string& name) const {
    const Numbers weight = parameter(name + ".weight"), bias = parameter(name + ".bias");
    Rows out;
    for (const Numbers& row : x) {
      const auto size = static_cast<double>(row.size());
      double mean = 0, variance = 0;
      for (const double value : row) mean += value / size;
      for (const double value : row) variance += (value - mean) * (value - mean) / size;
      out.emplace_back();
      for (std::size_t i = 0; i < row.size(); ++i)
        out.back().push_back((row[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + (bias.empty() ? 0 : bias[i]));
    }
    return out;
  }

  [[nodiscard]] Rows residual(const Rows& x, const std::string& norm,
                              const std::function<Rows(const Rows&)>& part) const {
    Rows out = part(norm_first_ ? normalized(x, norm) : x);
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].size(); ++i) out[t][i] += x[t][i];
    return norm_first_ ? out : normalized(out, norm);
  }

  std::vector<std::pair<std::string, Numbers>> parameters_;
  std::size_t heads_;
  bool norm_first_;
  double (*activation_)(double);
};

/// Sample b of x [b, t, width].
inline Rows sample_of(const Tensor& x, std::int64_t b) {
  const Numbers flat = values_of(x.select(0, b));
  Rows out;
  for (auto row = flat.begin(); row != flat.end(); row += x.dim(2)) out.emplace_back(row, row + x.dim(2));
  return out;
}

inline double relu_of(double x) { return x > 0 ? x : 0; }
inline double gelu_of(double x) { return x * 0.5 * (1 + std::erf(x / std::numbers::sqrt2)); }

}  // namespace tessera::nn
