// SPDX-License-Identifier: Apache-2.0
// Reading the shards of all ranks with every block of the files read once. A rank whose shard has other columns than the
// saved parts would read all blocks of its rows to verify them: with N ranks N times the bytes of the tensor.
#pragma once

#include <memory>
#include <string>

#include "files/pieces.h"
#include "tessera/frontend/tensor/state_dict.h"

namespace tessera {

/// A reader for tensor `name` that all ranks of the joined world call at the same time. If ranks that read alone would read
/// blocks several times, they divide the blocks, verify them, and exchange the elements; otherwise each reads its shard.
/// Uses at most 64 MiB beside the shard. If a rank cannot read, all ranks throw the error of the first of them.
ShardReader collective_reader(std::shared_ptr<PieceFiles> files, std::shared_ptr<const CheckpointManifest> manifest,
                              std::string name);

/// A reader that any rank calls at any time: it reads the blocks with elements of its shard.
ShardReader independent_reader(std::shared_ptr<PieceFiles> files, std::string name, DType stored);

}  // namespace tessera
