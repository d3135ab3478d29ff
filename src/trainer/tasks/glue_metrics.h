// SPDX-License-Identifier: Apache-2.0
// The metrics of GLUE, as scikit-learn and SciPy define them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/data/glue.h"

namespace tessera::trainer {

/// The fraction of equal values.
double accuracy_of(const std::vector<double>& predictions, const std::vector<double>& labels);
/// The F1 score of class 1, from predictions and labels that are 0 or 1: the harmonic mean of precision and recall. 0 if
/// no prediction of class 1 is correct.
double f1_of(const std::vector<double>& predictions, const std::vector<double>& labels);
/// Matthews correlation of predictions and labels that are 0 or 1, in -1..1. 0 if one of them has a single class.
double matthews_correlation_of(const std::vector<double>& predictions, const std::vector<double>& labels);
/// Pearson correlation. NaN if one side is constant.
double pearson_of(const std::vector<double>& predictions, const std::vector<double>& labels);
/// Spearman correlation: that of the ranks. Equal values have the mean of their ranks.
double spearman_of(const std::vector<double>& predictions, const std::vector<double>& labels);

/// The metrics of these names (accuracy, f1, matthews_correlation, pearson, spearmanr), and with several of them their
/// mean, combined_score. Requires as many predictions as labels.
std::vector<std::pair<std::string, double>> glue_metrics(const std::vector<std::string>& names,
                                                         const std::vector<double>& predictions,
                                                         const std::vector<double>& labels);
/// The names of all values that an evaluation of the task has: loss, its metrics and combined_score. Without a task (null)
/// loss and accuracy.
std::vector<std::string> evaluation_names(const data::GlueTask* task);

}  // namespace tessera::trainer
