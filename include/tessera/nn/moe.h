// SPDX-License-Identifier: Apache-2.0
// Sparse mixtures of experts: a router selects a few experts for each token.
//
// The weights of all experts are one array. Its dim of experts can be sharded over a mesh axis (shard_experts). Files
// have one tensor for each expert: the parameter `experts.*.w1.weight` is `experts.0.w1.weight`, … in files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn/activation_sharding.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// The decisions of a router for tokens [b, t].
struct Routing {
  Tensor logits;                // [b, t, e]
  Tensor probabilities;         // [b, t, e]: their softmax, in f32 at least
  std::vector<Tensor> choices;  // first, second, … choice of each token: [b, t, e] with a single 1, without gradient
  std::vector<Tensor> weights;  // of the choices: [b, t, 1]
};

/// Selects the `top_k` experts with the largest probabilities. Of equal probabilities, the expert with the lower index
/// comes first.
class TopKRouter : public Callable<TopKRouter> {
 public:
  struct Options {
    std::int64_t top_k = 2;
    /// Divides the weights of a token by their sum, as Mixtral does.
    bool normalize = true;
    double standard_deviation = 0.02;
    DType dtype = DType::kF32;
  };
  TopKRouter(std::int64_t width, std::int64_t experts, const Options& options);
  Routing forward(const Tensor& x);  // [b, t, width]
  /// [experts, width].
  [[nodiscard]] Tensor weight() const { return weight_; }
  [[nodiscard]] std::string_view class_name() const override { return "TopKRouter"; }

 private:
  Options options_;
  Tensor weight_;
};

/// A mixture of gated feed-forward layers (SwiGLU) with Mixtral's parameters: gate.weight, experts.*.w1.weight (gate),
/// w3 (up) and w2 (down).
class SparseMoe : public Callable<SparseMoe> {
 public:
  struct Options {
    std::int64_t experts = 8;
    std::int64_t top_k = 2;
    bool normalize = true;
    /// 0: dropless. Every expert computes every token, with a weight that is 0 for most tokens. The result is exact on
    /// every mesh, but the work is experts / top_k times that of the selected experts. Otherwise, an expert takes at
    /// most capacity(t) tokens of each row of the batch. It takes the tokens whose first choice it is, in the order of
    /// time, then those whose second choice it is. If the capacity is exceeded, the choice is dropped and adds nothing
    /// to the result of the token.
    double capacity_factor = 0;
    /// In training, tokens are multiplied by uniform numbers from 1 - jitter to 1 + jitter.
    double jitter = 0;
    std::string activation = "silu";
    double standard_deviation = 0.02;
    DType dtype = DType::kF32;
  };
  struct Output {
    Tensor output;  // [b, t, width]
    Routing routing;
  };
  /// Errors: top_k is not from 1 to `experts`; a negative capacity_factor; a jitter that is not in [0, 1); an unknown
  /// activation.
  SparseMoe(std::int64_t width, std::int64_t inner, const Options& options);
  Output forward(const Tensor& x);  // [b, t, width]
  [[nodiscard]] TopKRouter& gate() { return gate_; }
  /// [experts, inner, width], [experts, width, inner] and [experts, inner, width].
  [[nodiscard]] Tensor w1() const { return w1_; }
  [[nodiscard]] Tensor w2() const { return w2_; }
  [[nodiscard]] Tensor w3() const { return w3_; }
  /// The tokens of a row of `time` tokens that an expert takes: ceil(capacity_factor * top_k * time / experts), at
  /// least 1 and at most `time`.
  [[nodiscard]] std::int64_t capacity(std::int64_t time) const;
  /// Use the functions shard_experts() and shard_tensor_parallel() below instead. They also shard the weights.
  void shard_experts(const ActivationSharding& split) { split_ = split; }
  void shard_activations(const ActivationSharding& split) { inner_split_ = split; }
  [[nodiscard]] const std::optional<ActivationSharding>& experts_sharding() const { return split_; }
  [[nodiscard]] const std::optional<ActivationSharding>& activations_sharding() const { return inner_split_; }
  [[nodiscard]] std::string_view class_name() const override { return "SparseMoe"; }

 private:
  /// Holds the weights under their names.
  class Experts : public Module {
   public:
    Experts(SparseMoe& owner, std::int64_t width, std::int64_t inner);
    [[nodiscard]] std::string_view class_name() const override { return "Experts"; }
  };
  Tensor dropless(const Tensor& x, const Routing& routing) const;
  Tensor with_capacity(const Tensor& x, const Routing& routing) const;

  Options options_;
  Tensor w1_, w2_, w3_;
  TopKRouter gate_;
  Experts experts_;
  std::optional<ActivationSharding> split_, inner_split_;
};

/// Shards the experts over an axis. If there is a capacity and the batch is sharded over the same axis, all-to-alls
/// send the tokens to the devices of their experts and back.
void shard_experts(SparseMoe& moe, const Mesh& mesh, const std::string& axis);
/// Shards the inner dim of each expert over an axis, and the dim t of the result. The experts may be sharded over
/// another axis.
void shard_tensor_parallel(SparseMoe& moe, const ActivationSharding& split);

/// The load-balancing loss of Switch Transformers (Fedus et al., 2022) in Mixtral's form: experts * sum over choices
/// and experts of (fraction of the tokens with this choice) * (mean probability), both over the tokens of all layers.
/// It is top_k if the tokens are balanced. `mask` [b, t] is 0 for tokens that are ignored; null: none.
Tensor load_balancing_loss(const std::vector<Routing>& layers, const Tensor& mask = {});
/// The router z-loss (Zoph et al., 2022): the mean of logsumexp(logits)^2 over all tokens and layers. It keeps logits
/// small.
Tensor router_z_loss(const std::vector<Routing>& layers);

}  // namespace tessera::nn
