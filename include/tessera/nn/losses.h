// SPDX-License-Identifier: Apache-2.0
// Losses as functions, with PyTorch's definitions. Classes are the last dim. Computed in f32 at least.
//
//   Tensor loss = nn::cross_entropy(logits, labels, {.label_smoothing = 0.1});
//   Tensor each = nn::mse_loss(prediction, target, nn::LossReduction::kNone);
#pragma once

#include <source_location>

#include <cstdint>

#include "tessera/frontend/tensor/functions.h"

namespace tessera::nn {

/// The mean of all elements, their sum, or the elements themselves. kBatchMean: the sum divided by the size of dim 0.
enum class LossReduction : std::uint8_t { kMean, kSum, kNone, kBatchMean };

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;  // in [0, 1]
  Tensor weight{};             // [classes]: the weight of each class; null: 1
  LossReduction reduction = LossReduction::kMean;
};
/// -log softmax(logits)[label] for logits [..., classes] and integer labels [...]; or -sum(p log softmax(logits)) for
/// probabilities p [..., classes]. With label smoothing e, the label has the weight 1 - e, and e is divided equally
/// among all classes. kMean divides the sum of the losses by the sum of the weights of the labels that are not ignored,
/// or by the number of rows for probabilities. It is 0 if all labels are ignored. A sharded class dim stays sharded.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {},
                     std::source_location where = std::source_location::current());

struct NllOptions {
  std::int64_t ignore_index = -100;
  Tensor weight{};  // [classes]: the weight of each class; null: 1
  LossReduction reduction = LossReduction::kMean;
};
/// -log p[label] for logarithms of probabilities [..., classes], such as those of log_softmax(x, -1), and integer
/// labels [...]. kMean divides as in cross_entropy().
Tensor nll_loss(const Tensor& log_p, const Tensor& labels, const NllOptions& options = {},
                std::source_location where = std::source_location::current());

/// (x - y)^2.
Tensor mse_loss(const Tensor& x, const Tensor& y, LossReduction reduction = LossReduction::kMean,
                std::source_location where = std::source_location::current());
/// |x - y|.
Tensor l1_loss(const Tensor& x, const Tensor& y, LossReduction reduction = LossReduction::kMean,
               std::source_location where = std::source_location::current());
/// (x - y)^2 / (2 beta) where |x - y| < beta, else |x - y| - beta / 2. With beta 0, it is l1_loss(). Error if beta is
/// negative.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1, LossReduction reduction = LossReduction::kMean,
                      std::source_location where = std::source_location::current());
/// (x - y)^2 / 2 where |x - y| < delta, else delta (|x - y| - delta / 2). Error unless delta > 0.
Tensor huber_loss(const Tensor& x, const Tensor& y, double delta = 1, LossReduction reduction = LossReduction::kMean,
                  std::source_location where = std::source_location::current());
/// -(y log p + (1 - y) log(1 - p)) for probabilities p. As in PyTorch, logarithms are at least -100.
Tensor binary_cross_entropy(const Tensor& p, const Tensor& y, LossReduction reduction = LossReduction::kMean,
                            std::source_location where = std::source_location::current());

struct BceWithLogitsOptions {
  Tensor pos_weight{};  // broadcasts to the logits: the weight of the term with y; null: 1
  LossReduction reduction = LossReduction::kMean;
};
/// binary_cross_entropy(sigmoid(logits), y), without overflow.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& y, const BceWithLogitsOptions& options = {},
                                        std::source_location where = std::source_location::current());

struct KlDivOptions {
  bool log_target = false;  // the target is log p
  LossReduction reduction = LossReduction::kMean;
};
/// p (log p - log q), where p is the target. Elements with p = 0 are 0. kBatchMean gives the mathematical divergence of
/// a batch of distributions.
Tensor kl_div(const Tensor& log_q, const Tensor& target, const KlDivOptions& options = {},
              std::source_location where = std::source_location::current());

struct ContrastiveOptions {
  double temperature = 0.07;
  bool symmetric = false;  // the mean of both directions, as in CLIP
  LossReduction reduction = LossReduction::kMean;
};
/// InfoNCE (van den Oord et al., 2018): row i of queries [n, d] should be most similar to row i of keys [n, d] among
/// all rows, by the cosine divided by the temperature. Rows may be sharded. Error unless the temperature is above 0.
Tensor contrastive_loss(const Tensor& queries, const Tensor& keys, const ContrastiveOptions& options = {},
                        std::source_location where = std::source_location::current());

struct GaussianNllOptions {
  bool full = false;  // adds the constant term log(2 pi) / 2
  double epsilon = 1e-6;
  LossReduction reduction = LossReduction::kMean;
};
/// (log v + (x - y)^2 / v) / 2 for means x, values y and variances v [...], v [..., 1] or v without the last dim.
/// Variances below epsilon are replaced by epsilon; as in PyTorch, the gradient of v ignores this. Error unless epsilon
/// > 0.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options = {},
                         std::source_location where = std::source_location::current());

struct PoissonNllOptions {
  bool log_input = true;  // x is the logarithm of the rate; false: the rate
  bool full = false;      // adds Stirling's approximation of log(y!) where y > 1
  double epsilon = 1e-8;  // added to a rate in its logarithm
  LossReduction reduction = LossReduction::kMean;
};
/// exp(x) - y x for counts y, or x - y log(x + epsilon).
Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNllOptions& options = {},
                        std::source_location where = std::source_location::current());

// In the losses below, an element of a target is 1 or -1. For other targets, the losses have no meaning.

struct MarginRankingOptions {
  double margin = 0;
  LossReduction reduction = LossReduction::kMean;
};
/// max(0, margin - target (x1 - x2)), for three tensors of the same shape: if the target is 1, x1 should be larger.
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                           const MarginRankingOptions& options = {},
                           std::source_location where = std::source_location::current());

struct HingeEmbeddingOptions {
  double margin = 1;
  LossReduction reduction = LossReduction::kMean;
};
/// The distance x if the target is 1, and max(0, margin - x) if it is -1.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, const HingeEmbeddingOptions& options = {},
                            std::source_location where = std::source_location::current());

struct CosineEmbeddingOptions {
  double margin = 0;
  LossReduction reduction = LossReduction::kMean;
};
/// 1 - cos(x1, x2) if the target is 1, and max(0, cos(x1, x2) - margin) if it is -1, for vectors x1, x2 [..., d] and a
/// target [...]. Error unless the margin is in [-1, 1].
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             const CosineEmbeddingOptions& options = {},
                             std::source_location where = std::source_location::current());

struct TripletMarginOptions {
  double margin = 1;
  double p = 2;  // the order of the norm
  double epsilon = 1e-6;
  bool swap = false;  // the negative is compared with the nearer one of anchor and positive
  LossReduction reduction = LossReduction::kMean;
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin) for vectors [..., d], with d of pairwise_distance().
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {},
                           std::source_location where = std::source_location::current());

}  // namespace tessera::nn
