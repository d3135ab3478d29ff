// SPDX-License-Identifier: Apache-2.0
// Training of a causal language model from the command line, as in examples/run_clm. Each rank calls these functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/batches.h"
#include "tessera/data/loader.h"
#include "tessera/data/text_dataset.h"
#include "tessera/data/tokenizer.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/registry.h"
#include "tessera/optim/optimizer.h"
#include "tessera/trainer/arguments.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

/// The training text and the held-out text, as blocks of tokens.
struct ClmData {
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::optional<data::BlockDataset> train;       // nullopt only with --do_train false
  std::optional<data::BlockDataset> validation;  // nullopt if less than a block is held out
  double validation_tokens_per_byte = 1;
};
/// Reads the files that the arguments name: texts, JSON Lines, folders of both, or token files. Errors name rank and
/// path: there is less than a block to train on (with --do_train false: neither to train on nor to evaluate);
/// --validation_file has less than a block; a token file was written with another tokenizer than that of the training.
ClmData load_clm_data(const TrainingArguments& arguments, std::int64_t block_size);

/// A causal language model on a mesh, ready to train.
struct ClmModel : TrainingSetup {
  std::int64_t block_size = 0;
  double label_smoothing = 0;  // --label_smoothing_factor
  std::unique_ptr<nn::CausalLM> model;
};
/// Makes the model and its optimizer on the mesh. Errors: those of the configuration and of the mesh.
ClmModel make_clm_model(const TrainingArguments& arguments);

/// Records a micro-batch with its gradients in the trace. Returns the sum of its losses divided by `label_count`, the
/// number of labels of the update (an f64 scalar).
Tensor record_micro_batch(ClmModel& setup, const Tensor& tokens, const Tensor& labels, const Tensor& label_count);

/// The task of run_clm. `arguments` must outlive it. Errors: those of the model's configuration and of the data.
std::unique_ptr<Task> make_clm_task(const TrainingArguments& arguments);
/// Runs the complete training, or with --dry_run plans a step. Returns the exit status of the program.
int run_clm(const TrainingArguments& arguments);

/// Continues `prompt` with the model. Samples, with a seed, from the 40 most probable tokens at temperature 0.8. The
/// model reads at most the last block_size - 1 tokens, because training does not reach later positions.
std::string sample_text(ClmModel& setup, const data::Tokenizer& tokenizer, const std::string& prompt,
                        std::int64_t tokens, std::uint64_t seed, const OnProgress& on_progress = {});

/// Task::model_text() and Task::rows_text() of run_clm.
std::string clm_model_text(const ClmModel& setup);
std::string clm_rows_text(const ClmModel& setup);

}  // namespace tessera::trainer
