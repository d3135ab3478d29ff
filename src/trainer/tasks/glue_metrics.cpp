// SPDX-License-Identifier: Apache-2.0
#include "tasks/glue_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "tessera/base/error.h"

namespace tessera::trainer {
namespace {

using Values = std::vector<double>;

// How often each pair of a prediction and a label occurs.
struct Confusion {
  double true_positive = 0;
  double false_positive = 0;
  double false_negative = 0;
  double true_negative = 0;
};

Confusion confusion_of(const Values& predictions, const Values& labels) {
  Confusion out;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (predictions[i] == 1)
      ++(labels[i] == 1 ? out.true_positive : out.false_positive);
    else
      ++(labels[i] == 1 ? out.false_negative : out.true_negative);
  }
  return out;
}

double mean_of(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Values ranks_of(const Values& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  Values out(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + end + 1) / 2;  // the mean of begin + 1 … end
    for (; begin < end; ++begin) out[order[begin]] = rank;
  }
  return out;
}

double metric_of(const std::string& name, const Values& predictions, const Values& labels) {
  if (name == "accuracy") return accuracy_of(predictions, labels);
  if (name == "f1") return f1_of(predictions, labels);
  if (name == "matthews_correlation") return matthews_correlation_of(predictions, labels);
  if (name == "pearson") return pearson_of(predictions, labels);
  ensure(name == "spearmanr", "there is no metric {}", name);
  return spearman_of(predictions, labels);
}

}  // namespace

double accuracy_of(const Values& predictions, const Values& labels) {
  double equal = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) equal += predictions[i] == labels[i] ? 1 : 0;
  return equal / static_cast<double>(labels.size());
}

double f1_of(const Values& predictions, const Values& labels) {
  const Confusion c = confusion_of(predictions, labels);
  const double all = 2 * c.true_positive + c.false_positive + c.false_negative;
  return all == 0 ? 0 : 2 * c.true_positive / all;
}

double matthews_correlation_of(const Values& predictions, const Values& labels) {
  const Confusion c = confusion_of(predictions, labels);
  const double scale = std::sqrt((c.true_positive + c.false_positive) * (c.true_positive + c.false_negative) *
                                 (c.true_negative + c.false_positive) * (c.true_negative + c.false_negative));
  return scale == 0 ? 0 : (c.true_positive * c.true_negative - c.false_positive * c.false_negative) / scale;
}

double pearson_of(const Values& predictions, const Values& labels) {
  const double x_mean = mean_of(predictions);
  const double y_mean = mean_of(labels);
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double x = predictions[i] - x_mean;
    const double y = labels[i] - y_mean;
    xx += x * x;
    yy += y * y;
    xy += x * y;
  }
  return xx == 0 || yy == 0 ? std::nan("") : std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0);
}

double spearman_of(const Values& predictions, const Values& labels) {
  return pearson_of(ranks_of(predictions), ranks_of(labels));
}

std::vector<std::pair<std::string, double>> glue_metrics(const std::vector<std::string>& names,
                                                         const Values& predictions, const Values& labels) {
  ensure(predictions.size() == labels.size() && !labels.empty(), "glue_metrics: {} predictions for {} labels",
         predictions.size(), labels.size());
  std::vector<std::pair<std::string, double>> out;
  double sum = 0;
  for (const std::string& name : names) {
    out.emplace_back(name, metric_of(name, predictions, labels));
    sum += out.back().second;
  }
  if (names.size() > 1) out.emplace_back("combined_score", sum / static_cast<double>(names.size()));
  return out;
}

std::vector<std::string> evaluation_names(const data::GlueTask* task) {
  if (task == nullptr) return {"loss", "accuracy"};
  std::vector<std::string> out = {"loss"};
  out.insert(out.end(), task->metrics.begin(), task->metrics.end());
  if (task->metrics.size() > 1) out.emplace_back("combined_score");
  return out;
}

}  // namespace tessera::trainer
