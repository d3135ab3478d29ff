// SPDX-License-Identifier: Apache-2.0
// Similarities and distances of two tensors as modules.
#pragma once

#include <string_view>

#include "tessera/frontend/tensor/reductions.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

/// cosine_similarity() along a dim.
class CosineSimilarity : public Callable<CosineSimilarity> {
 public:
  explicit CosineSimilarity(int dim = 1, double epsilon = 1e-8) : dim_(dim), epsilon_(epsilon) {}
  Tensor forward(const Tensor& x1, const Tensor& x2);
  [[nodiscard]] std::string_view class_name() const override { return "CosineSimilarity"; }

 private:
  int dim_;
  double epsilon_;
};

/// pairwise_distance() along the last dim.
class PairwiseDistance : public Callable<PairwiseDistance> {
 public:
  explicit PairwiseDistance(const PairwiseDistanceOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x1, const Tensor& x2);
  [[nodiscard]] std::string_view class_name() const override { return "PairwiseDistance"; }

 private:
  PairwiseDistanceOptions options_;
};

}  // namespace tessera::nn
