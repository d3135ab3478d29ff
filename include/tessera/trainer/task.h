// SPDX-License-Identifier: Apache-2.0
// Training tasks: a model, its data and its metrics. The training loop, checkpoints, resuming, evaluation and the
// selection of the best model are the same for every task.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/data/loader.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/model.h"
#include "tessera/optim/grad_scaler.h"
#include "tessera/optim/optimizer.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// A model on a mesh, ready to train.
struct TrainingSetup {
  Mesh mesh;
  std::vector<std::string> data_axes;  // the axes that shard the rows of a batch
  std::int64_t data_shards = 1;
  nn::PretrainedModel* network = nullptr;  // the model, which the task owns
  std::vector<FsdpUnit> units;             // empty without FSDP
  std::optional<DType> compute_dtype;      // of products and activations; nullopt: that of the weights
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::GradScaler> scaler;  // scales the losses if compute_dtype is f16; else null
  std::vector<std::string> notes;             // of the FSDP configuration, for the user
};

/// The mesh of --mesh, or else one axis over all devices: `fsdp` if --fsdp is given, `data` if not. In a dry run, the
/// mesh determines the number of devices.
Mesh mesh_of(const TrainingArguments& arguments);
/// Sets the mesh and the data axes of `out`, makes the mesh the default, and seeds the random numbers. Must be called
/// before the model is created.
void begin_setup(const TrainingArguments& arguments, TrainingSetup& out);
/// Shards out.network, makes the optimizer and adds the notes.
void finish_setup(const TrainingArguments& arguments, TrainingSetup& out);
/// The type of the weights: --dtype.
DType weight_dtype(const TrainingArguments& arguments);
/// load_pretrained() for out.network. Adds a note if a new run trains the weights in another type than that of the folder,
/// because it also saves them in its own type.
LoadStateResult load_weights(const TrainingArguments& arguments, const std::string& folder, TrainingSetup& out,
                             const LoadStateOptions& options = {});

/// The sharding of batches: rows over the data axes.
data::InputSharding batch_sharding(const TrainingSetup& setup);
/// The options of the loader of the training batches, which have `rows` rows over all ranks.
data::LoaderOptions train_loader_options(const TrainingArguments& arguments, const TrainingSetup& setup,
                                         std::int64_t rows);
/// Shards the rows of a batch over the data axes, unless it is sharded already.
Tensor place_rows(const TrainingSetup& setup, Tensor batch);
/// The arrays of a batch as tensors, by name.
class BatchTensors {
 public:
  BatchTensors() = default;
  /// The tensors of a batch of a loader. Collective.
  explicit BatchTensors(const data::Batch& batch);
  /// The tensors of abstract_batch(): with types and shardings, without values.
  static BatchTensors abstract(const data::Batch& batch);
  /// The same names, with other tensors in the same order.
  [[nodiscard]] BatchTensors with(const std::vector<Tensor>& tensors) const;
  [[nodiscard]] bool has(std::string_view name) const;
  /// Error, with the nearest name, if there is no such array.
  [[nodiscard]] Tensor tensor(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
};
/// Returns a batch of `rows` rows with types and shardings but without values, for a plan. Its arrays are those that
/// `collator` (null: StackCollator) makes of samples like `sample`.
data::Batch abstract_batch(const TrainingSetup& setup, const data::InputSharding& sharding, const data::Arrays& sample,
                           std::int64_t rows, const data::Collator* collator = nullptr);
/// Returns the array `name` of the batch, with its rows sharded over the data axes, and sets its name in programs.
Tensor input_of(const TrainingSetup& setup, const BatchTensors& batch, std::string_view name);

/// Called on every rank with the completed and the total number of samples or tokens. Returning false ends the work
/// early, on all ranks.
using OnProgress = std::function<bool(std::int64_t done, std::int64_t total)>;

/// The losses of a batch: their sum, and the number of labels. If `count` is null, `sum` is the mean loss of the rows.
struct LossParts {
  Tensor sum;
  Tensor count;
  Tensor correct{};      // in evaluation: the number of correct predictions; null if the task does not count them
  Tensor predictions{};  // in evaluation: of the rows [b], for metrics that are not sums; null: none
};
/// The sums over an evaluation.
struct EvaluationSums {
  double loss = 0;
  double count = 0;
  std::optional<double> correct{};
  std::vector<double> predictions{};  // of the samples, in their order; empty if the task makes none
};
/// The result of an evaluation.
struct Metrics {
  double loss = 0;
  std::vector<std::pair<std::string, double>> others;  // accuracy, perplexity, …
  std::string text;                                    // for the user: loss 2.0812, …
  /// The value of `name`, which may begin with `eval_`; nullopt if there is none. "" is the loss.
  [[nodiscard]] std::optional<double> find(std::string_view name) const;
};
/// True for metrics whose greatest value is the best.
bool greater_is_better(std::string_view metric);
/// True if the best model has the greatest --metric_for_best_model: --greater_is_better if it is given, else the kind
/// of the metric.
bool wants_greater(const TrainingArguments& arguments);
/// The value of --metric_for_best_model. Error, with the existing metrics, if there is no such metric.
double chosen_metric(const TrainingArguments& arguments, const Metrics& metrics);

/// A model, its training data, its loss and its metrics. In a dry run a task has no data: only the functions that plans
/// use may be called (setup, the texts, planned_batch, label_count, record, record_sum, record_evaluation).
class Task {
 public:
  virtual ~Task() = default;
  [[nodiscard]] virtual TrainingSetup& setup() = 0;
  /// The batches to train on.
  [[nodiscard]] virtual data::Loader& loader() = 0;
  /// The first line of the banner: GPT-2, 12 layers, ….
  [[nodiscard]] virtual std::string model_text() const = 0;
  /// The rows of a batch, as text: sequences of 64 tokens.
  [[nodiscard]] virtual std::string rows_text() const = 0;
  /// The unit of speeds: tokens.
  [[nodiscard]] virtual std::string_view unit() const = 0;
  /// The number of these units in a row of a batch.
  [[nodiscard]] virtual std::int64_t units_per_row() const = 0;
  /// The floating-point operations of a training step over `units` units; nullopt: not known.
  [[nodiscard]] virtual std::optional<double> flops(double units) const = 0;
  /// The operations of attention, which flops() does not count: attention_flops(). nullopt: none, or not known.
  [[nodiscard]] virtual std::optional<double> flops_of_attention(double /*units*/) const { return std::nullopt; }

  /// A batch of `rows` rows as training reads it, made by abstract_batch(). If the lengths of the samples differ, it
  /// has the greatest length.
  [[nodiscard]] virtual data::Batch planned_batch(std::int64_t rows) const = 0;
  /// The labels of a batch, if the host knows them.
  [[nodiscard]] virtual std::optional<double> label_count(const data::Batch& batch) const = 0;
  /// Records a micro-batch with its gradients in the trace. Returns an f64 scalar: the sum of its losses divided by
  /// `labels`, the number of labels of the update (an f64 scalar). If `labels` is null, returns the mean loss of this
  /// micro-batch divided by `micro_batches`.
  virtual Tensor record(const BatchTensors& batch, const Tensor& labels, std::int64_t micro_batches) = 0;
  /// For updates of several micro-batches whose labels only the device counts: records a micro-batch with the gradients
  /// of the sum of its losses. After the last one, MicroBatchLosses divides the gradients by the number of all labels.
  /// Nullopt if the task has only mean losses; record() then gives equal weights to the micro-batches.
  virtual std::optional<LossParts> record_sum(const BatchTensors& /*batch*/) { return std::nullopt; }

  /// The number of held-out samples.
  [[nodiscard]] virtual std::int64_t held_out() const = 0;
  /// The batches of the first `samples` held-out samples, once.
  [[nodiscard]] virtual std::unique_ptr<data::Loader> held_out_batches(std::int64_t samples, std::int64_t rows) = 0;
  /// Records the losses of a batch of held-out samples in the trace. The model is in evaluation mode.
  virtual LossParts record_evaluation(const BatchTensors& batch) = 0;
  /// The metrics of an evaluation with these sums.
  [[nodiscard]] virtual Metrics metrics(const EvaluationSums& sums) const = 0;

  /// Writes the files of the tokenizer, if the task has one, into a model folder. Called by one rank.
  virtual void save_tokenizer(const std::string& /*folder*/) const {}
  /// The name of the work of finish(), for the progress bar.
  [[nodiscard]] virtual std::string_view final_work() const { return "sample"; }
  /// Called after the last evaluation. Returns text for the user, or "".
  virtual std::string finish(const OnProgress& /*on_progress*/) { return ""; }
};

/// The loader of the training samples: at most --max_train_samples of them, in the order of --train_sampling_strategy.
/// The other options are those of train_loader_options().
std::unique_ptr<data::Loader> make_train_loader(const TrainingArguments& arguments,
                                                std::shared_ptr<const data::Source> samples,
                                                data::LoaderOptions options);
/// The first samples of a source.
class FirstSamples final : public data::Source {
 public:
  FirstSamples(std::shared_ptr<const data::Source> source, std::int64_t count)
      : source_(std::move(source)), count_(std::min(count, source_->size())) {}
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] data::Arrays get(std::int64_t i) const override { return source_->get(i); }
  [[nodiscard]] std::int64_t length(std::int64_t i) const override { return source_->length(i); }
  [[nodiscard]] std::optional<std::int64_t> fixed_length() const override { return source_->fixed_length(); }
  [[nodiscard]] data::Arrays get_part(std::int64_t i, Interval part) const override {
    return source_->get_part(i, part);
  }

 private:
  std::shared_ptr<const data::Source> source_;
  std::int64_t count_;
};

/// Evaluates the first `samples` held-out samples, `rows` at a time. Nullopt if `on_progress` ended the evaluation.
std::optional<Metrics> evaluate(Task& task, std::int64_t rows, std::int64_t samples,
                                const OnProgress& on_progress = {});

/// Returns the predictions for the samples of `batches`, of which there are `samples`, in their order. `record` records
/// those of the rows of a batch [b], with the model in evaluation mode. Nullopt if `on_progress` ended the work.
std::optional<std::vector<double>> predict(nn::PretrainedModel& model, data::Loader& batches, std::int64_t samples,
                                           const std::function<Tensor(const BatchTensors&)>& record,
                                           const OnProgress& on_progress = {});

/// The losses of updates, added up on the device.
struct LossSum {
  Tensor sum;    // f64
  Tensor count;  // f64: how many losses `sum` contains. Null without a loss scale: all

  /// No losses. With a loss scale (`leaves_out`), losses that are not finite are not added.
  static LossSum zero(bool leaves_out);
  /// Records the sum with one more loss.
  [[nodiscard]] LossSum plus(const Tensor& loss) const;
};

/// Records the micro-batches of an update, such that every label has the same weight.
class MicroBatchLosses {
 public:
  /// `labels`: the number of labels of the update; null if only the device knows it. `before`: the earlier losses.
  MicroBatchLosses(Task& task, Tensor labels, std::int64_t micro_batches, LossSum before);
  /// Records the next micro-batch.
  void record(const BatchTensors& batch);
  /// Called after the last micro-batch. Returns the sum with the mean loss of the update; the gradients are those of
  /// this mean.
  LossSum finish();

 private:
  Tensor mean_of_sums();

  Task& task_;
  Tensor labels_;
  std::int64_t micro_batches_;
  LossSum before_;  // null if sum_ contains it
  Tensor sum_;
  Tensor losses_;  // of record_sum()
  Tensor count_;
};

/// Records the gradients of a loss. With a scaler, those of the scaled loss.
void record_gradients(const TrainingSetup& setup, const Tensor& loss);
/// Records gradient clipping and the update of the parameters. Returns the norm of the gradients. With a scaler, an
/// update whose gradients are not finite has no effect.
Tensor record_update(const TrainingArguments& arguments, TrainingSetup& setup);

/// Lines for a user, printed by one rank.
std::string banner(const TrainingArguments& arguments, const TrainingSetup& setup, const std::string& model_text,
                   const std::string& rows_text);
/// The sharding of the parameters: a table, and pictures of one block's matrices.
std::string sharding_report(const TrainingSetup& setup);
/// What a process holds in addition to the arrays of its ranks: libraries, MPI, the allocator, data on the host. It is
/// measured, because no plan contains it.
struct ProcessMemory {
  std::int64_t bytes = 0;  // for one rank
  std::string when;        // it was measured: `at its start`
};
/// Measures the memory of this process without the arrays of its ranks.
ProcessMemory measure_process(std::string when);
/// The memory of a device while it executes a program. The total is that of the plan, without `process`.
std::string memory_report(const TrainingSetup& setup, const ExecutableMemory& memory, const ProcessMemory& process);
/// The largest values that a rank holds at the peak in addition to parameters and optimizer state.
std::string largest_values_report(const ExecutableMemory& memory);
/// The collectives of a program by op, axes and cause.
std::string collective_report(const std::vector<CollectiveNote>& notes);

}  // namespace tessera::trainer
