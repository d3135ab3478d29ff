// SPDX-License-Identifier: Apache-2.0
// Finds the mesh and the shardings with which a causal language model trains fastest on a number of devices.
//
//   LayoutSearchOptions options;
//   options.arguments.config_name = "config.json";
//   options.devices = 8;
//   const std::vector<LayoutPlan> plans = find_layouts(options);   // the best one first
//
// A layout is a mesh over the axes data, fsdp, model and expert, the FSDP mode, and whether blocks are recomputed. Each
// layout is traced, partitioned, lowered and scheduled as in a training run, but only for models of two and three
// layers. The layers are equal, so each further layer adds the difference.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/sharding/machine.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

struct LayoutSearchOptions {
  /// The model, the batch and the optimizer. The search sets the mesh, the sharding and gradient_checkpointing. The
  /// batch over all devices has global_batch_size rows, or one row for each device if it is not set.
  TrainingArguments arguments;
  std::int64_t devices = 1;
  /// The model of work and communication time. Its memory is the limit if `memory` is not set.
  MachineModel machine{};
  std::optional<std::int64_t> memory;  // bytes of a device; nullopt: that of `machine`, or no limit
};

/// A candidate of the search.
struct Layout {
  std::int64_t data = 1;
  std::int64_t fsdp = 1;
  std::int64_t model = 1;
  std::int64_t expert = 1;
  bool reshard_after_forward = true;  // full_shard; false: shard_grad_op. Only if fsdp > 1
  bool recompute = false;             // gradient_checkpointing

  /// `data=2,fsdp=4`: the axes with more than one device, or data=1.
  [[nodiscard]] std::string mesh() const;
  /// The flags of run_clm: `--mesh data=2,fsdp=4 --fsdp full_shard`.
  [[nodiscard]] std::string flags() const;
  /// Sets the fields of `arguments` for these flags.
  void apply_to(TrainingArguments& arguments) const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// A layout with its planned cost.
struct LayoutPlan {
  Layout layout;
  bool fits = true;
  Cost cost;  // of a step, on each device; no communication is hidden
  double work_seconds = 0;
  std::map<std::string, double> communication_seconds;  // by axes in order of their names: `data`, `data+fsdp`
  std::map<std::string, std::int64_t> received_bytes;   // by axes, on each device
};

/// Returns one plan for each mesh: the fastest mode that fits, or else the mode with the least memory. Plans that fit
/// come first, in order of time. The others are in order of memory. Errors: those of the model's configuration; a batch
/// or a number of devices below 1; no layout can be planned.
std::vector<LayoutPlan> find_layouts(const LayoutSearchOptions& options);

/// Returns a table of the best plans, the fastest first, with their times by cause and the flags of run_clm.
std::string layout_table(const std::vector<LayoutPlan>& plans, std::size_t most);
/// The same as a JSON array.
std::string layout_json(const std::vector<LayoutPlan>& plans, std::size_t most);
/// Returns calls of mark_sharding() that give the parameters the shardings of a layout. There is one call for each
/// parameter of the first block and each parameter outside of the blocks.
std::string layout_calls(const LayoutSearchOptions& options, const Layout& layout);

}  // namespace tessera::trainer
