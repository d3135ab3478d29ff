// SPDX-License-Identifier: Apache-2.0
// The loss of models that classify texts or images.
#pragma once

#include <string>

#include "tessera/frontend/tensor/functions.h"

namespace tessera::nn {

/// The loss of logits [b, num_labels], as Hugging Face's ForSequenceClassificationLoss:
///
///   problem_type                    labels                         loss
///   "regression"                    numbers [b, num_labels]        mean squared error
///   "single_label_classification"   integers [b] or [b, 1]         mean cross entropy; labels of -100 are ignored
///   "multi_label_classification"    floats [b, num_labels]         mean binary cross entropy of each label
///
/// If `problem_type` is "", it is "regression" for one label, else "single_label_classification" for integers, else
/// "multi_label_classification". With one label, labels may be [b]. Errors: an unknown problem_type; labels of other
/// dims or of another kind of numbers.
Tensor classification_loss(const Tensor& logits, const Tensor& labels, const std::string& problem_type);
/// Error, which begins with `origin`, unless the loss knows this problem_type, or it is "".
void check_problem_type(const std::string& origin, const std::string& problem_type);

}  // namespace tessera::nn
