// SPDX-License-Identifier: Apache-2.0
#include "tasks/predictions.h"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>

#include "tessera/base/text.h"

namespace tessera::trainer {

std::string predictions_file(const TrainingArguments& arguments) {
  const data::GlueTask* task = glue_task_of(arguments);
  const std::string name = task == nullptr ? "predict_results.txt" : fmt::format("predict_results_{}.txt", task->name);
  return (std::filesystem::path(arguments.output_dir) / name).string();
}

std::string predictions_text(const std::vector<double>& predictions, const TextLabels& labels) {
  std::string out = "index\tprediction\n";
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (labels.is_regression)
      fmt::format_to(std::back_inserter(out), "{}\t{:.3f}\n", i, predictions[i]);
    else
      fmt::format_to(std::back_inserter(out), "{}\t{}\n", i,
                     at(labels.names, static_cast<std::int64_t>(predictions[i])));
  }
  return out;
}

}  // namespace tessera::trainer
