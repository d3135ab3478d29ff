// SPDX-License-Identifier: Apache-2.0
// Losses of distances and rankings.
#include "losses/loss_parts.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::nn {
namespace {

constexpr double kLeastSquare = 1e-12;  // added to squared lengths, as in PyTorch

Dims without_last_dim(std::string_view name, const Tensor& x) {
  require(x.ndim() >= 1, "{} needs vectors [..., d], got {}", name, x.type());
  return {x.dims().begin(), x.dims().end() - 1};
}

// `positive` where the target is 1, and `negative` where it is -1.
Tensor by_target(const Tensor& target, const Tensor& positive, const Tensor& negative) {
  return tessera::where(target == 1.0, positive, negative);
}

}  // namespace

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                           const MarginRankingOptions& options, std::source_location where) {
  return library_call({&x1, &x2, &target}, where, [&]() -> Tensor {
    check_pair("margin_ranking_loss", x1, x2);
    check_loss_dims("margin_ranking_loss", "the target", target, x1.dims());
    const Tensor difference = wide_float(x1) - wide_float(x2);
    return reduced_loss(relu(options.margin - target.to(difference.dtype()) * difference), options.reduction);
  });
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, const HingeEmbeddingOptions& options,
                            std::source_location where) {
  return library_call({&x, &target}, where, [&]() -> Tensor {
    check_pair("hinge_embedding_loss", x, target);
    const Tensor distance = wide_float(x);
    return reduced_loss(by_target(target, distance, relu(options.margin - distance)), options.reduction);
  });
}

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             const CosineEmbeddingOptions& options, std::source_location where) {
  return library_call({&x1, &x2, &target}, where, [&]() -> Tensor {
    check_pair("cosine_embedding_loss", x1, x2);
    check_loss_dims("cosine_embedding_loss", "the target", target, without_last_dim("cosine_embedding_loss", x1));
    require(options.margin >= -1 && options.margin <= 1, "cosine_embedding_loss: the margin must be in [-1, 1], got {}",
            options.margin);
    const Tensor a = wide_float(x1);
    const Tensor b = wide_float(x2);
    const auto over_last = [](const Tensor& x) { return sum(x, {.dims = {-1}}); };
    const Tensor lengths = sqrt((over_last(square(a)) + kLeastSquare) * (over_last(square(b)) + kLeastSquare));
    const Tensor cosine = over_last(a * b) / lengths;
    return reduced_loss(by_target(target, 1.0 - cosine, relu(cosine - options.margin)), options.reduction);
  });
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options, std::source_location where) {
  return library_call({&anchor, &positive, &negative}, where, [&]() -> Tensor {
    check_pair("triplet_margin_loss", anchor, positive);
    check_pair("triplet_margin_loss", anchor, negative);
    (void)without_last_dim("triplet_margin_loss", anchor);
    const auto distance = [&](const Tensor& x, const Tensor& y) {
      return pairwise_distance(wide_float(x), wide_float(y), {.p = options.p, .epsilon = options.epsilon});
    };
    Tensor far = distance(anchor, negative);
    if (options.swap) far = minimum(far, distance(positive, negative));
    return reduced_loss(relu(distance(anchor, positive) - far + options.margin), options.reduction);
  });
}

}  // namespace tessera::nn
