// SPDX-License-Identifier: Apache-2.0
// A state in one safetensors file, written by one rank. Checkpoints (checkpoint.h) and model folders (pretrained.h) are
// written by all ranks.
//
//   save(model.state_dict(), "model.safetensors");
//   other.load_state_dict(load("model.safetensors"));      every rank reads its shards at the first use
#pragma once

#include <string>

#include "tessera/frontend/tensor/state_dict.h"

namespace tessera {

struct SaveOptions {
  /// The master of each node writes the file, for disks that the nodes do not share; else rank 0 writes it.
  bool on_each_node = false;
};
/// Writes complete arrays to the file `path`, with the shapes that other frameworks use. Collective: the ranks gather one
/// tensor at a time. The file is written as `path.partial` and renamed when it is on the disk, so readers see the old file
/// or the new one. Error, on all ranks, if it cannot be written; the old file is then unchanged.
void save(const StateDict& state, const std::string& path, const SaveOptions& options = {});

/// The tensors of a safetensors file. Nothing is read yet: load_state_dict() gives their values to variables, of which
/// every rank reads its shards when they are first needed. Not collective. The file may be deleted after this call. Error
/// if it does not exist or is damaged.
StateDict load(const std::string& path);

}  // namespace tessera
