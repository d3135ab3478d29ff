// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/models/classification_loss.h"

#include <algorithm>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/nn/losses.h"

namespace tessera::nn {
namespace {

constexpr const char* kRegression = "regression";
constexpr const char* kSingleLabel = "single_label_classification";
constexpr const char* kMultiLabel = "multi_label_classification";

std::string chosen_problem(const Tensor& logits, const Tensor& labels) {
  if (logits.dim(1) == 1) return kRegression;
  return is_integer(labels.dtype()) ? kSingleLabel : kMultiLabel;
}

// The labels in the dims and the element type of the loss. A loss that broadcasts [b, 1] and [b] would be that of b * b
// pairs.
Tensor labels_like(const Tensor& logits, const Tensor& labels, const std::string& problem) {
  const bool lacks_dim = logits.dim(1) == 1 && labels.dims() == Dims{logits.dim(0)};
  const bool is_number = is_float(labels.dtype()) || (problem == kRegression && is_integer(labels.dtype()));
  require(is_number && (lacks_dim || labels.dims() == logits.dims()),
          "{} of logits {} needs {} labels of these dims, got {}", problem, logits.type(),
          problem == kRegression ? "real" : "floating-point", labels.type());
  const Tensor given = lacks_dim ? labels.unsqueeze(1) : labels;
  return given.to(logits.dtype() == DType::kF64 ? DType::kF64 : DType::kF32);
}

// The labels as [b].
Tensor class_labels(const Tensor& logits, const Tensor& labels) {
  const std::int64_t rows = logits.dim(0);
  require(is_integer(labels.dtype()) && (labels.dims() == Dims{rows} || labels.dims() == Dims{rows, 1}),
          "{} of logits {} needs integer labels [{}], got {}", kSingleLabel, logits.type(), rows, labels.type());
  return labels.ndim() == 2 ? labels.squeeze(1) : labels;
}

}  // namespace

void check_problem_type(const std::string& origin, const std::string& problem_type) {
  const std::vector<std::string> known{kRegression, kSingleLabel, kMultiLabel};
  require(problem_type.empty() || std::find(known.begin(), known.end(), problem_type) != known.end(),
          "{}: unknown problem_type \"{}\"{}", origin, problem_type, [&] { return suggest_name(problem_type, known); });
}

Tensor classification_loss(const Tensor& logits, const Tensor& labels, const std::string& problem_type) {
  check_problem_type("classification_loss", problem_type);
  require(logits.ndim() == 2, "classification_loss needs logits [b, labels], got {}", logits.type());
  const std::string problem = problem_type.empty() ? chosen_problem(logits, labels) : problem_type;
  if (problem == kSingleLabel) return cross_entropy(logits, class_labels(logits, labels));
  const Tensor targets = labels_like(logits, labels, problem);
  return problem == kRegression ? mse_loss(logits, targets) : binary_cross_entropy_with_logits(logits, targets);
}

}  // namespace tessera::nn
