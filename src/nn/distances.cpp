// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/distances.h"

#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {

Tensor CosineSimilarity::forward(const Tensor& x1, const Tensor& x2) {
  return cosine_similarity(at_call(x1), x2, dim_, epsilon_);
}

Tensor PairwiseDistance::forward(const Tensor& x1, const Tensor& x2) {
  return pairwise_distance(at_call(x1), x2, options_);
}

}  // namespace tessera::nn
