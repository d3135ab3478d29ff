// SPDX-License-Identifier: Apache-2.0
// Training of a causal language model from the command line: what examples/run_clm runs as each rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/batches.h"
#include "tessera/data/text_dataset.h"
#include "tessera/data/tokenizer.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/gpt2.h"
#include "tessera/optim/optimizer.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// The text as blocks.
struct ClmData {
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::optional<data::BlockDataset> train;
  std::optional<data::BlockDataset> validation;  // none when nothing is held out, or less than a block
  double validation_tokens_per_byte = 1;
};
/// Reads what the arguments name. Errors name rank and path.
ClmData load_clm_data(const TrainingArguments& arguments, std::int64_t block_size);

/// The mesh that --mesh says, else one axis over all devices: `fsdp` with --fsdp, `data` without. A dry run takes the mesh's own size.
Mesh mesh_of(const TrainingArguments& arguments);

/// A model on a mesh, ready to train.
struct ClmModel {
  Mesh mesh;
  std::vector<std::string> data_axes;  // over which rows of a batch are split
  std::int64_t data_shards = 1;
  std::int64_t block_size = 0;
  std::unique_ptr<nn::GPT2LMHeadModel> model;
  std::vector<FsdpUnit> units;         // empty without FSDP
  std::optional<DType> compute_dtype;  // of products and activations where it is not the weights'
  std::unique_ptr<optim::Optimizer> optimizer;
  std::vector<std::string> notes;  // of the FSDP configuration, for the user
};
ClmModel make_clm_model(const TrainingArguments& arguments);

/// Marks a batch's rows as split over the data axes.
Tensor place_rows(const ClmModel& setup, Tensor batch);

/// Records a micro-batch in the trace with its gradients, and adds its part of the mean loss over so many labels to `loss_sum`. A dry run
/// records by the same functions, so that it plans the programs that training executes.
void record_micro_batch(ClmModel& setup, const Tensor& tokens, const Tensor& labels, double label_count,
                        Tensor& loss_sum);
/// Records clipping and the update of the parameters; the norm of the gradients.
Tensor record_update(const TrainingArguments& arguments, ClmModel& setup);

/// The whole run; returns the program's exit status.
int run_clm(const TrainingArguments& arguments);
/// Plans a step and prints memory and collectives.
int dry_run_clm(const TrainingArguments& arguments);

/// Mean loss over held-out text.
struct Evaluation {
  double loss = 0;  // nats per token
  double bits_per_byte = 0;
  std::int64_t tokens = 0;
};
/// Called on every rank with what is done and what there is to do: samples, or tokens. False ends the work early, on all ranks.
using OnProgress = std::function<bool(std::int64_t done, std::int64_t total)>;
/// Over the first `samples` held-out blocks, `rows` at once; none when on_progress ended it.
std::optional<Evaluation> evaluate_clm(ClmModel& setup, const ClmData& data, std::int64_t rows, std::int64_t samples,
                                       const OnProgress& on_progress = {});

/// Text that the model writes behind `prompt`: from the 40 likeliest tokens at temperature 0.8, by a seeded draw. Each token
/// follows from the last block_size - 1 at most: positions that training reaches.
std::string sample_text(ClmModel& setup, const data::Tokenizer& tokenizer, const std::string& prompt,
                        std::int64_t tokens, std::uint64_t seed, const OnProgress& on_progress = {});

/// Lines for a user, printed by one rank.
std::string banner(const TrainingArguments& arguments, const ClmModel& setup);
/// The sharding of the parameters: a table, and pictures of one block's matrices.
std::string sharding_report(const ClmModel& setup);
/// What a device holds while it executes a program.
std::string memory_report(const ClmModel& setup, const ExecutableMemory& memory);
/// The collectives of a program by op, axes and cause.
std::string collective_report(const std::vector<CollectiveNote>& notes);

}  // namespace tessera::trainer
