// SPDX-License-Identifier: Apache-2.0
// The sizes of a mesh in a configuration of FSDP or of Accelerate.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/json_object.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// A size that a configuration gives to an axis.
struct GivenSize {
  std::string axis;
  std::int64_t size = 1;
  GivenKey key{};
};

/// The axes of a mesh in a fixed order: data, fsdp, model. Axes of size 1 are left out.
struct MeshSizes {
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::string what_gave;  // `dp_shard_size 2 and tp_size 2 in f.json`
};

/// All spellings of the sizes.
std::vector<std::string> size_keys();
/// Returns the sizes in an object. Errors: a size below 1 that is not -1; sharded sequences.
std::vector<GivenSize> find_sizes(const JsonObject& json);
/// The same for `parallelism_config` in a file of Accelerate. Error for an unknown key.
std::vector<GivenSize> sizes_of_parallelism(const JsonObject& file);
/// Returns the mesh of these sizes. Errors: different sizes for one axis; several sizes of -1.
MeshSizes mesh_of_sizes(const std::vector<GivenSize>& sizes);
/// Returns the mesh that --fsdp_config or --config_file gives. Errors: those of these files.
MeshSizes mesh_of_files(const TrainingArguments& arguments);

}  // namespace tessera::trainer
