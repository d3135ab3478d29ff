// SPDX-License-Identifier: Apache-2.0
// Training of a causal language model from the command line, as in examples/run_clm. Each rank runs it.
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

namespace tessera::trainer {

/// The text as blocks.
struct ClmData {
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::optional<data::BlockDataset> train;
  std::optional<data::BlockDataset> validation;  // nullopt if less than a block is held out
  double validation_tokens_per_byte = 1;
};
/// Reads the files that the arguments name: text, or token files. Errors name rank and path.
ClmData load_clm_data(const TrainingArguments& arguments, std::int64_t block_size);
/// Checks that a file that is a token file on one rank is the same on all: the headers are compared. Collective.
void check_token_files_on_all_ranks(const TrainingArguments& arguments);

/// The mesh of --mesh, else one axis over all devices: `fsdp` with --fsdp, `data` without. A dry run uses the size of
/// the mesh.
Mesh mesh_of(const TrainingArguments& arguments);

/// A model on a mesh, ready to train.
struct ClmModel {
  Mesh mesh;
  std::vector<std::string> data_axes;  // the axes that shard the rows of a batch
  std::int64_t data_shards = 1;
  std::int64_t block_size = 0;
  std::unique_ptr<nn::CausalLM> model;
  std::vector<FsdpUnit> units;         // empty without FSDP
  std::optional<DType> compute_dtype;  // of products and activations, if it differs from that of the weights
  std::unique_ptr<optim::Optimizer> optimizer;
  std::vector<std::string> notes;  // of the FSDP configuration, for the user
};
ClmModel make_clm_model(const TrainingArguments& arguments);

/// The sharding of batches: rows over the data axes.
data::InputSharding batch_sharding(const ClmModel& setup);
/// The loader of the training batches, of `rows` rows over all ranks. Each rank makes its rows. `data` must outlive it.
std::unique_ptr<data::Loader> make_train_loader(const TrainingArguments& arguments, const ClmModel& setup,
                                                const ClmData& data, std::int64_t rows);

/// Shards the rows of a batch over the data axes, unless it is sharded already.
Tensor place_rows(const ClmModel& setup, Tensor batch);

/// Records a micro-batch with its gradients in the trace, and adds its part of the mean loss over `label_count` labels
/// to `loss_sum`. A dry run uses the same functions, so that it plans the programs that training executes.
void record_micro_batch(ClmModel& setup, const Tensor& tokens, const Tensor& labels, double label_count,
                        Tensor& loss_sum);
/// Records gradient clipping and the update of the parameters. Returns the norm of the gradients.
Tensor record_update(const TrainingArguments& arguments, ClmModel& setup);

/// Runs the complete training. Returns the exit status of the program.
int run_clm(const TrainingArguments& arguments);
/// Plans a step and prints memory and collectives.
int dry_run_clm(const TrainingArguments& arguments);

/// Mean loss over held-out text.
struct Evaluation {
  double loss = 0;  // nats per token
  double bits_per_byte = 0;
  std::int64_t tokens = 0;
};
/// Called on every rank with the completed and the total number of samples or tokens. Returning false ends the work
/// early, on all ranks.
using OnProgress = std::function<bool(std::int64_t done, std::int64_t total)>;
/// Evaluates the first `samples` held-out blocks, `rows` at a time; nullopt if on_progress ended it.
std::optional<Evaluation> evaluate_clm(ClmModel& setup, const ClmData& data, std::int64_t rows, std::int64_t samples,
                                       const OnProgress& on_progress = {});

/// Returns text with which the model continues `prompt`: seeded sampling from the 40 most likely tokens at
/// temperature 0.8. Each token follows from the last block_size - 1 at most: positions that training reaches.
std::string sample_text(ClmModel& setup, const data::Tokenizer& tokenizer, const std::string& prompt,
                        std::int64_t tokens, std::uint64_t seed, const OnProgress& on_progress = {});

/// Lines for a user, printed by one rank.
std::string banner(const TrainingArguments& arguments, const ClmModel& setup);
/// The sharding of the parameters: a table, and pictures of one block's matrices.
std::string sharding_report(const ClmModel& setup);
/// The memory of a device while it executes a program.
std::string memory_report(const ClmModel& setup, const ExecutableMemory& memory);
/// The collectives of a program by op, axes and cause.
std::string collective_report(const std::vector<CollectiveNote>& notes);

}  // namespace tessera::trainer
