// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint that is being saved, and this rank's file.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/manifest.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/runtime/executable/pinned_content.h"

namespace tessera {

/// A tensor, and this rank's shard of it.
struct SavedTensor {
  std::string name;  // GROUP/NAME
  Type type;
  Dims exported_dims;
  Sharding sharding;
  std::shared_ptr<PinnedContent> shard;
};

/// Pins the shards of all states. Collective if a tensor has no value yet.
std::vector<SavedTensor> pin_states(const std::map<std::string, StateDict>& states);
/// Writes the parts that `rank` writes to a file, and releases the shards. May run in another thread. `before_list` is called
/// before the list of checksums, whose existence shows that the file is complete, is written.
StoredFile write_own_parts(const std::string& path, const std::vector<SavedTensor>& tensors, int rank,
                           const std::function<void()>& before_list);
/// The parts that all ranks write, by tensor.
std::map<std::string, StoredTensor> parts_of(const std::vector<SavedTensor>& tensors, int ranks);

}  // namespace tessera
