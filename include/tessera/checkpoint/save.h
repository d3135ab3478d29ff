// SPDX-License-Identifier: Apache-2.0
// A state in one safetensors file, which one rank writes. In contrast, all ranks write checkpoints (checkpoint.h) and
// model folders (pretrained.h).
//
//   save(model.state_dict(), "model.safetensors");
//   other.load_state_dict(load("model.safetensors"));      every rank reads its shards at the first use
#pragma once

#include <string>

#include "tessera/frontend/tensor/state_dict.h"

namespace tessera {

struct SaveOptions {
  /// True: the lowest rank of each node writes the file, for disks that nodes do not share. False: rank 0 writes it.
  bool on_each_node = false;
};
/// Writes complete arrays to the file `path`, with the shapes that other frameworks use. Collective: the ranks gather
/// one tensor at a time. The file is written as `path.partial-HOST-PROCESS-NUMBER` and renamed when it is on the disk,
/// so readers see the old file or the new one. Temporary files that killed processes of this host have left for `path`
/// are deleted. If `path` is a symbolic link, its target is written. Error, on all ranks, if the file cannot be
/// written, or if the ranks save other names or types; an old file is then unchanged.
void save(const StateDict& state, const std::string& path, const SaveOptions& options = {});

/// Returns the tensors of a safetensors file without reading their values. load_state_dict() gives these values to
/// variables, and every rank then reads its shards when they are first needed. Not collective. The file may be deleted
/// after this call. Error if it does not exist or is damaged.
StateDict load(const std::string& path);

}  // namespace tessera
