// SPDX-License-Identifier: Apache-2.0
// A trainer for any model and data set, as Hugging Face's Trainer. The training programs use it.
//
//   Trainer trainer({.model = model, .args = arguments, .train_dataset = train, .eval_dataset = held_out,
//                    .callbacks = {std::make_shared<EarlyStoppingCallback>(3)}});
//   trainer.train();
//   fmt::print("loss {}\n", trainer.evaluate()->loss);
//   trainer.save_model("trained");
//
// All functions are collective. A step runs through compile(): it is traced once for each shape of its batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/trainer/callback.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// Returns the sum of the losses of a batch and the number of labels. If it sets `correct`, evaluations have an
/// accuracy.
using LossFunction = std::function<LossParts(nn::PretrainedModel& model, const BatchTensors& batch)>;
/// Returns additional metrics of an evaluation by name.
using MetricFunction = std::function<std::vector<std::pair<std::string, double>>(const EvaluationSums& sums)>;

/// The arguments of a Trainer, with the names of Hugging Face's Trainer.
struct TrainerOptions {
  nn::PretrainedModel& model;
  TrainingArguments args{};
  std::shared_ptr<const data::Source> train_dataset{};    // null: the trainer only evaluates
  std::shared_ptr<const data::Source> eval_dataset{};     // null: no evaluation
  std::shared_ptr<const data::Collator> data_collator{};  // null: arrays are stacked
  /// Null: the mean loss that the model computes from a batch with labels.
  LossFunction compute_loss{};
  MetricFunction compute_metrics{};
  std::vector<std::shared_ptr<TrainerCallback>> callbacks{};
  std::string_view unit = "samples";  // the unit of speeds
};

/// The result of train().
struct TrainOutput {
  std::int64_t global_step = 0;
  double training_loss = 0;  // the mean over the updates of this call
  int stop_signal = 0;       // the signal that ended the training; 0: none
  /// The fraction of the time of training, in 0..1, in which this rank ran no program, or waited for other ranks to
  /// begin it. The time does not include the first update, evaluations and checkpoints. nullopt if there was only one
  /// update.
  std::optional<double> host_share{};
};

/// Trains and evaluates one model.
class Trainer {
 public:
  /// Puts the model on the mesh of the arguments and makes the optimizer. Errors: those of the arguments; a data set
  /// without samples.
  explicit Trainer(TrainerOptions options);
  /// Trains a task. `arguments` and `task` must outlive the trainer.
  Trainer(const TrainingArguments& arguments, Task& task, std::vector<std::shared_ptr<TrainerCallback>> callbacks = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Adds a callback. It is called after the others.
  void add_callback(std::shared_ptr<TrainerCallback> callback);
  /// Trains, with the evaluations, checkpoints and log entries of the arguments. With --resume_from_checkpoint, resumes
  /// from a checkpoint. Locks --output_dir. Errors, on all ranks: the folder already holds a run or a model, and
  /// neither --overwrite_output_dir nor --resume_from_checkpoint is given; another run uses it.
  TrainOutput train();
  /// Evaluates the held-out samples, prints the metrics, adds them to the log, and writes eval_results.json and
  /// all_results.json to --output_dir. Nullopt if a signal ended the evaluation. Error if there are no held-out
  /// samples.
  std::optional<Metrics> evaluate();
  /// Writes a model folder to `folder`; "" means --output_dir.
  void save_model(const std::string& folder = "");
  /// Runs a training program: prints the banner, then calls train(), writes train_results.json and all_results.json,
  /// loads the best model if requested, and calls save_model() and evaluate(). Returns the exit status.
  int run();
  [[nodiscard]] const TrainerState& state() const;
  [[nodiscard]] Task& task() const;

 private:
  class Run;
  struct Owned;  // the objects of a trainer that creates its task
  std::unique_ptr<Owned> owned_;
  std::unique_ptr<Run> run_;
};

}  // namespace tessera::trainer
