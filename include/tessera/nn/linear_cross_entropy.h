// SPDX-License-Identifier: Apache-2.0
// A linear layer and a cross entropy in one function. The logits, which are the largest array of a language model, are
// never completely in memory.
//
//   Tensor loss = nn::linear_cross_entropy(hidden, head.weight(), labels, {.chunks = 8});
#pragma once

#include <cstdint>

#include "tessera/nn/losses.h"

namespace tessera::nn {

struct LinearCrossEntropyOptions {
  /// The number of chunks of positions. Only the logits of one chunk are in memory at a time. The backward pass
  /// rematerializes them. With 1 chunk, the lowering divides the logits if they exceed TESSERA_LARGEST_VALUE.
  std::int64_t chunks = 1;
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;  // in [0, 1], as in cross_entropy()
  Tensor bias{};               // [classes]; null: none
  LossReduction reduction = LossReduction::kMean;
};
/// The cross entropy of the logits hidden weight^T + bias and integer labels: hidden [..., d], weight [classes, d],
/// labels [...]. Chunks divide the last dim before d (the positions of a sequence); its size need not be a multiple of
/// the chunks. If the classes are sharded, devices exchange only the maxima and sums of rows, not logits. kMean is the
/// mean over the labels that are not ignored, and kSum is their sum. Errors: shapes that do not fit, another reduction,
/// chunks below 1.
Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                            const LinearCrossEntropyOptions& options = {});

/// Returns the sum of these losses and the number of labels that are not ignored.
CrossEntropyParts linear_cross_entropy_parts(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                                             const LinearCrossEntropyOptions& options = {});

}  // namespace tessera::nn
