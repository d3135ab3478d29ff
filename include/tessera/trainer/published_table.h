// SPDX-License-Identifier: Apache-2.0
// Table 1 of "Large scale training of Hugging Face Transformers on TPUs with PyTorch/XLA FSDP" (2022): six trainings of
// GPT-2 under FSDP on TPU v4, as published, and as Tessera plans them.
//
// The modelled time of a step is the sum of three quotients: FLOPs of a chip / speed of computation, bytes that it
// reads and writes in memory / speed of memory, bytes that it receives / speed of links. They are added because
// collectives did not overlap with computation in that version of PyTorch/XLA. The speeds of memory and links are those
// of the data sheet. The speed of computation is fitted to two rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/sharding/machine.h"
#include "tessera/trainer/training_plan.h"

namespace tessera::trainer {

/// A row as it was published. A chip of TPU v4 has two cores and a peak of 275 TFLOP/s in bf16.
struct PublishedTraining {
  std::string preset;  // gpt2_preset()
  std::int64_t cores = 0;
  double seconds = 0;      // of a step
  double pflop = 0;        // of a step
  double utilization = 0;  // MFU
};

/// A row with the plan of its training.
struct ModelledTraining {
  PublishedTraining published;
  TrainingPlan plan;  // one device is a chip
  bool is_fitted = false;
  double seconds = 0;      // of a step, modelled
  double utilization = 0;  // 6 N T FLOPs in this time, divided by the peak
  [[nodiscard]] double ratio() const { return seconds / published.seconds; }
};

/// The table with the modelled times.
struct PublishedTable {
  std::vector<ModelledTraining> rows;
  MachineModel machine;  // with the fitted speed
  /// The table with notes on the fit.
  [[nodiscard]] std::string str() const;
  /// An array with an object for each row.
  [[nodiscard]] std::string json() const;
};

/// Plans the six trainings and fits the speed of computation. The fit makes the relative errors of the rows 16b and
/// 20b, which contradict each other most, equal and opposite. Takes some seconds.
PublishedTable model_published_table();

}  // namespace tessera::trainer
