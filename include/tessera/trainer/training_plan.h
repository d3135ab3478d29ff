// SPDX-License-Identifier: Apache-2.0
// Plans a training step of GPT-2 of any size for any mesh: parameters, memory, FLOPs, collectives and modelled time. A
// plan needs no devices and no storage for the model, and takes seconds.
//
//   const TrainingPlan plan = plan_gpt2_training({.config = nn::gpt2_config(nn::gpt2_preset("128b")),
//                                                 .mesh = Mesh({{"fsdp", 512}}), .rows = 1024});
//
// Only models of two and three layers are traced, partitioned, lowered and scheduled, as in a training run. The layers
// are equal, so each further layer adds the difference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/fsdp/options.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/sharding/mesh.h"

namespace tessera::trainer {

struct TrainingPlanOptions {
  nn::GPT2Config config;
  Mesh mesh;
  std::int64_t rows = 8;            // of a step, over all devices
  std::int64_t sequence = 0;        // tokens of a row; 0: n_positions
  bool bf16 = true;                 // compute in bf16, with f32 weights
  bool checkpoint_blocks = true;    // compute the values of a block again in the backward pass
  std::int64_t loss_chunks = 8;     // of linear_cross_entropy
  FsdpOptions fsdp{};               // its mesh and compute_dtype are replaced by those above
  double peak_flops = 137.5e12;     // of a device: half a chip of TPU v4
  double bytes_per_second = 100e9;  // that a device receives
};

/// The collectives of one op.
struct PlannedCollective {
  std::string opcode;
  std::int64_t values = 0;  // that they carry in a step; each round of a loop counts
  std::int64_t bytes = 0;   // that each device receives in a step
};

/// The figures of a planned step.
struct TrainingPlan {
  std::int64_t parameters = 0;
  std::int64_t tokens = 0;           // of a step
  std::int64_t parameter_bytes = 0;  // the following on one device
  std::int64_t state_bytes = 0;
  std::int64_t largest_unit_bytes = 0;  // gathered
  std::int64_t arena_bytes = 0;         // activations, gathered parameters, gradients, scratch
  std::int64_t peak_bytes = 0;
  double flops_per_device = 0;
  std::int64_t traffic_bytes = 0;  // that a device reads and writes in memory, with elementwise ops in fused groups
  std::vector<PlannedCollective> collectives;
  double compute_seconds = 0;        // at the peak
  double communication_seconds = 0;  // without overlap
  /// 6 * parameters * tokens over all devices, in PFLOP.
  [[nodiscard]] double nominal_pflop() const;
  /// The time of a step if all communication is hidden (fastest), or if none is hidden (slowest).
  [[nodiscard]] double fastest_seconds() const { return std::max(compute_seconds, communication_seconds); }
  [[nodiscard]] double slowest_seconds() const { return compute_seconds + communication_seconds; }
  /// The MFU: nominal FLOPs / fastest_seconds() / peak of all devices.
  [[nodiscard]] double utilization(std::int64_t devices, double peak_flops) const;
  [[nodiscard]] std::string str() const;
};

/// Plans a training step. Afterwards this rank can only plan, for the devices of the mesh (plan_for_devices). Errors:
/// those of fully_shard(); a configuration that is not valid.
TrainingPlan plan_gpt2_training(const TrainingPlanOptions& options);
/// The same, with all layers in one program. Its time and memory are proportional to the number of layers.
TrainingPlan plan_all_layers(const TrainingPlanOptions& options);

}  // namespace tessera::trainer
