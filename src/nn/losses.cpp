// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/losses.h"

#include <fmt/format.h>

#include "losses/loss_parts.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/frontend/tracing/known_ids.h"

namespace tessera::nn {
namespace {

// A loss of classes: its name and that of its first argument, which are literals.
struct ClassLoss {
  std::string_view name;
  std::string_view scores;
};
constexpr ClassLoss kCrossEntropy{"cross_entropy", "logits"};
constexpr ClassLoss kNll{"nll_loss", "log probabilities"};

void check_class_loss(const ClassLoss& loss, const Tensor& scores, const CrossEntropyOptions& options) {
  require(!scores.is_null() && scores.ndim() >= 1 && is_float(scores.dtype()), "{} needs float {} [..., classes]{}",
          loss.name, loss.scores,
          [&] { return scores.is_null() ? std::string() : fmt::format(", got {}", scores.type().str()); });
  require(options.label_smoothing >= 0 && options.label_smoothing <= 1, "{}: label_smoothing must be in [0, 1], got {}",
          loss.name, options.label_smoothing);
  require(options.reduction != LossReduction::kBatchMean, "{} has no reduction kBatchMean; use kMean", loss.name);
  require(options.weight.is_null() || options.weight.dims() == Dims{scores.dim(-1)},
          "{}: the weight needs one number for each of {} classes, got {}", loss.name, scores.dim(-1),
          [&] { return options.weight.type().str(); });
}

Tensor class_weights(const CrossEntropyOptions& options, const Tensor& like) {
  return options.weight.is_null() ? Tensor() : options.weight.to(like.dtype());
}

Tensor over_rows(const Tensor& losses, const Tensor& weights, LossReduction reduction) {
  if (reduction == LossReduction::kNone) return losses;
  if (reduction == LossReduction::kSum) return sum(losses);
  const Tensor total = sum(weights);
  return where(total == 0.0, 0.0, sum(losses) / where(total == 0.0, 1.0, total));
}

Tensor cross_entropy_of_probabilities(const Tensor& log_p, const Tensor& labels, const CrossEntropyOptions& options) {
  const double e = options.label_smoothing;
  Tensor target = labels.to(log_p.dtype());
  if (e > 0) target = target * (1 - e) + e / static_cast<double>(log_p.dim(-1));
  const Tensor weights = class_weights(options, log_p);
  const Tensor terms = weights.is_null() ? target * log_p : target * log_p * weights;
  return reduced_loss(-sum(terms, {.dims = {-1}}), options.reduction);
}

// -weight log p at the label, and smoothed with that of all classes. `scores` is the argument of the user.
Tensor loss_of_labels(const ClassLoss& loss, const Tensor& scores, const Tensor& log_p, const Tensor& labels,
                      const CrossEntropyOptions& options, const std::source_location& where) {
  Dims rows = log_p.dims();
  rows.pop_back();
  require(labels.dims() == rows, "{}: {} {} need labels [{}], got {}", loss.name, loss.scores, scores.type(),
          fmt::join(rows, ","), labels.type());
  tessera::detail::check_ids(
      labels, {.function = loss.name, .what = "label", .count = log_p.dim(-1), .ignored = options.ignore_index},
      {&scores, &labels}, where);
  // The class dim may be sharded. Therefore a comparison of positions selects the label instead of a gather.
  const Tensor ids = labels.dtype() == DType::kS64 ? labels : labels.to(DType::kS32);
  const Tensor classes = Tensor::iota(log_p.type().with_dtype(ids.dtype()), log_p.ndim() - 1);
  const Tensor is_label = classes == ids.unsqueeze(-1);
  const Tensor counts = ids != static_cast<double>(options.ignore_index);
  const Tensor weights = class_weights(options, log_p);
  const auto at_label = [&](const Tensor& values) {
    return sum(tessera::where(is_label, values, 0.0), {.dims = {-1}});
  };
  const Tensor weighted = weights.is_null() ? log_p : log_p * weights;
  Tensor losses = -at_label(weighted);
  const double e = options.label_smoothing;
  if (e > 0) losses = losses * (1 - e) - mean(weighted, {.dims = {-1}}) * e;
  const Tensor label_weights = weights.is_null()
                                   ? counts.to(log_p.dtype())
                                   : tessera::where(counts, at_label(weights.broadcast_to(log_p.dims())), 0.0);
  return over_rows(tessera::where(counts, losses, 0.0), label_weights, options.reduction);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options,
                     std::source_location where) {
  return library_call({&logits, &labels}, where, [&]() -> Tensor {
    check_class_loss(kCrossEntropy, logits, options);
    require(!is_float(labels.dtype()) || labels.dims() == logits.dims(),
            "cross_entropy: probabilities {} need the shape of the logits {}", labels.type(), logits.type());
    const bool is_plain = options.label_smoothing == 0 && options.weight.is_null() && !is_float(labels.dtype());
    if (is_plain && options.reduction == LossReduction::kMean)
      return tessera::cross_entropy(logits, labels, options.ignore_index);
    const Tensor log_p = log_softmax(wide_float(logits), -1);
    if (is_float(labels.dtype())) return cross_entropy_of_probabilities(log_p, labels, options);
    return loss_of_labels(kCrossEntropy, logits, log_p, labels, options, where);
  });
}

Tensor nll_loss(const Tensor& log_p, const Tensor& labels, const NllOptions& options, std::source_location where) {
  return library_call({&log_p, &labels}, where, [&]() -> Tensor {
    const CrossEntropyOptions all{
        .ignore_index = options.ignore_index, .weight = options.weight, .reduction = options.reduction};
    check_class_loss(kNll, log_p, all);
    require(!labels.is_null() && is_integer(labels.dtype()), "nll_loss needs integer labels{}",
            [&] { return labels.is_null() ? std::string() : fmt::format(", got {}", labels.type().str()); });
    return loss_of_labels(kNll, log_p, wide_float(log_p), labels, all, where);
  });
}

Tensor mse_loss(const Tensor& x, const Tensor& y, LossReduction reduction, std::source_location where) {
  return library_call({&x, &y}, where, [&]() -> Tensor {
    check_pair("mse_loss", x, y);
    return reduced_loss(square(wide_float(x) - wide_float(y)), reduction);
  });
}

Tensor l1_loss(const Tensor& x, const Tensor& y, LossReduction reduction, std::source_location where) {
  return library_call({&x, &y}, where, [&]() -> Tensor {
    check_pair("l1_loss", x, y);
    return reduced_loss(abs(wide_float(x) - wide_float(y)), reduction);
  });
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta, LossReduction reduction,
                      std::source_location where) {
  return library_call({&x, &y}, where, [&]() -> Tensor {
    check_pair("smooth_l1_loss", x, y);
    require(beta >= 0, "smooth_l1_loss: beta must not be negative, got {}", beta);
    const Tensor difference = wide_float(x) - wide_float(y);
    const Tensor distance = abs(difference);
    if (beta == 0) return reduced_loss(distance, reduction);
    return reduced_loss(tessera::where(distance < beta, square(difference) * (0.5 / beta), distance - 0.5 * beta),
                        reduction);
  });
}

Tensor huber_loss(const Tensor& x, const Tensor& y, double delta, LossReduction reduction, std::source_location where) {
  return library_call({&x, &y}, where, [&]() -> Tensor {
    check_pair("huber_loss", x, y);
    require(delta > 0, "huber_loss: delta must be above 0, got {}", delta);
    const Tensor difference = wide_float(x) - wide_float(y);
    const Tensor distance = abs(difference);
    return reduced_loss(
        tessera::where(distance < delta, square(difference) * 0.5, distance * delta - 0.5 * delta * delta), reduction);
  });
}

Tensor binary_cross_entropy(const Tensor& p, const Tensor& y, LossReduction reduction, std::source_location where) {
  return library_call({&p, &y}, where, [&]() -> Tensor {
    check_pair("binary_cross_entropy", p, y);
    constexpr double kLeastLogarithm = -100;
    constexpr double kLeastProduct = 1e-12;
    const Tensor probability = wide_float(p);
    const Tensor fixed = probability.detach();
    const Tensor target = wide_float(y);
    const Tensor yes = maximum(log(fixed), kLeastLogarithm);
    const Tensor no = maximum(log1p(-fixed), kLeastLogarithm);
    // At 0 and 1, the gradient of a bounded logarithm is 0 * inf. Therefore the values are constants in p, and a
    // difference that is 0 has PyTorch's gradient.
    const Tensor slope = ((fixed - target) / maximum(fixed * (1.0 - fixed), kLeastProduct)).detach();
    return reduced_loss(slope * (probability - fixed) - (target * yes + (1.0 - target) * no), reduction);
  });
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& y, const BceWithLogitsOptions& options,
                                        std::source_location where) {
  return library_call({&logits, &y}, where, [&]() -> Tensor {
    check_pair("binary_cross_entropy_with_logits", logits, y);
    const Tensor x = wide_float(logits);
    const Tensor target = wide_float(y);
    // -log sigmoid(x) = softplus(-x), and -log(1 - sigmoid(x)) = softplus(x) = softplus(-x) + x.
    const Tensor positive = softplus(-x);
    const Tensor rest = (1.0 - target) * x;
    if (options.pos_weight.is_null()) return reduced_loss(rest + positive, options.reduction);
    const Tensor factor = 1.0 + (options.pos_weight.to(x.dtype()) - 1.0) * target;
    return reduced_loss(rest + factor * positive, options.reduction);
  });
}

Tensor kl_div(const Tensor& log_q, const Tensor& target, const KlDivOptions& options, std::source_location where) {
  return library_call({&log_q, &target}, where, [&]() -> Tensor {
    check_pair("kl_div", log_q, target);
    const Tensor q = wide_float(log_q);
    const Tensor p = wide_float(target);
    if (options.log_target) return reduced_loss(exp(p) * (p - q), options.reduction);
    const Tensor is_positive = p > 0.0;
    const Tensor terms = tessera::where(is_positive, p * (log(tessera::where(is_positive, p, 1.0)) - q), 0.0);
    return reduced_loss(terms, options.reduction);
  });
}

Tensor contrastive_loss(const Tensor& queries, const Tensor& keys, const ContrastiveOptions& options,
                        std::source_location where) {
  return library_call({&queries, &keys}, where, [&]() -> Tensor {
    check_pair("contrastive_loss", queries, keys);
    require(queries.ndim() == 2, "contrastive_loss needs rows [n, d], got {}", queries.type());
    require(options.temperature > 0, "contrastive_loss: the temperature must be above 0, got {}", options.temperature);
    const auto unit = [](const Tensor& given) {
      const Tensor x = wide_float(given);
      return x / sqrt(sum(square(x), {.dims = {-1}, .keep_dims = true}) + 1e-24);
    };
    const Tensor similarity =
        dot(unit(queries), unit(keys), {.lhs_contracting = {1}, .rhs_contracting = {1}}) * (1 / options.temperature);
    const Tensor labels = Tensor::iota(Type::array(DType::kS32, {queries.dim(0)}), 0);
    const CrossEntropyOptions per_row{.reduction = LossReduction::kNone};
    const Tensor forward = cross_entropy(similarity, labels, per_row);
    if (!options.symmetric) return reduced_loss(forward, options.reduction);
    const Tensor both = (forward + cross_entropy(similarity.transpose({1, 0}), labels, per_row)) * 0.5;
    return reduced_loss(both, options.reduction);
  });
}

}  // namespace tessera::nn
