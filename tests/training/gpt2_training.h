// SPDX-License-Identifier: Apache-2.0
// A GPT-2 training step on a mesh, as tests measure it: tied head, dropout, AdamW, clipping.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/frontend/execution/runtime.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"

namespace tessera::testing {

struct TrainingCase {
  std::string mesh;         // "data=2,model=2"; parameters are sharded over fsdp, and their columns or rows over model
  std::int64_t width = 96;  // 48 leaves model=4 at +5.1 %: see ReplicatedResidualStream
  std::int64_t heads = 12;
  std::int64_t layers = 3;
  std::int64_t vocabulary = 96;
  std::int64_t time = 24;
  std::int64_t rows = 12;  // the global batch
  double dropout = 0.1;
  bool reshard_after_forward = true;
  DType dtype = DType::kF32;
  MixedPrecision mixed_precision{};
};

/// The model and optimizer of one rank. Rows of a batch are sharded over `data` and `fsdp`.
class Training {
 public:
  explicit Training(const TrainingCase& options);
  /// Traces forward and backward on a batch generated from `number`. Returns the loss.
  Tensor gradients(std::int64_t number, std::int64_t rows = 0);
  /// Traces forward, backward, clipping and update on a batch generated from `number`. Returns the loss.
  Tensor record(std::int64_t number, std::int64_t rows = 0);
  /// record() and mark_step().
  Tensor step(std::int64_t number, std::int64_t rows = 0);

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] nn::GPT2LMHeadModel& model() { return *model_; }
  [[nodiscard]] optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  Tensor batch(std::int64_t number, std::int64_t rows, std::int64_t offset) const;
  TrainingCase options_;
  Mesh mesh_;
  std::unique_ptr<nn::GPT2LMHeadModel> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

/// Returns the number of devices in "data=2,model=2".
std::int64_t device_count_of(const std::string& mesh);

/// Figures of one executed step on a rank, from the rank's counters.
struct RankFigures {
  double flops = 0;
  std::vector<ProgramStats::Kind> collectives;  // counted at run time, sorted by opcode
  std::int64_t through_mpi = 0;
  CompiledProgram program;  // of the step
  double loss = 0;
};
/// Trains on virtual ranks and measures the second step.
std::vector<RankFigures> measure_step(const TrainingCase& options);
/// Plans the step for the mesh without executing it.
StepPlan plan_of(const TrainingCase& options);

}  // namespace tessera::testing
