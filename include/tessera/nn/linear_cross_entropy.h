// SPDX-License-Identifier: Apache-2.0
// Linear layer and cross entropy in one: the logits, the largest values of a language model, are never in memory
// together.
//
//   Tensor loss = nn::linear_cross_entropy(hidden, head.weight(), labels, {.chunks = 8});
#pragma once

#include <cstdint>

#include "tessera/nn/losses.h"

namespace tessera::nn {

struct LinearCrossEntropyOptions {
  /// The number of chunks of positions. The logits of one chunk exist at a time, in the forward pass and, computed again,
  /// in the backward pass. 1: the lowering divides the logits if they exceed TESSERA_LARGEST_VALUE.
  std::int64_t chunks = 1;
  std::int64_t ignore_index = -100;
  Tensor bias{};  // [classes]; null: none
  LossReduction reduction = LossReduction::kMean;
};
/// The cross entropy of the logits hidden weight^T + bias and integer labels: hidden [..., d], weight [classes, d],
/// labels [...]. Chunks divide the last dim before d (the positions of a sequence), whose size need not be a multiple.
/// The classes may be sharded: the devices then exchange the maxima and sums of rows, never logits. kMean: the mean over
/// labels that are not ignored; kSum: their sum. Errors: shapes that do not fit, another reduction, chunks below 1.
Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                            const LinearCrossEntropyOptions& options = {});

/// The same as the sum of losses and the number of labels.
CrossEntropyParts linear_cross_entropy_parts(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                                             const LinearCrossEntropyOptions& options = {});

}  // namespace tessera::nn
