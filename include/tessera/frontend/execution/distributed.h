// SPDX-License-Identifier: Apache-2.0
// The names of torch.distributed for the ranks of a job. launch() or Runtime have joined the ranks already.
//
//   distributed::init_process_group("xla", "pjrt://");      checks the names
//   const auto even = distributed::new_group({0, 2, 4});    collective; null on the other ranks
//   if (even) even->barrier();
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tessera/collectives/process_group.h"

namespace tessera::distributed {

/// Accepts the names of backends and init methods with which programs for PyTorch/XLA start: the ranks and their
/// addresses come from mpirun, whatever the names. Errors: the backend is not xla, mpi or gloo; the init method is not
/// pjrt://, xla://, env:// or empty.
void init_process_group(std::string_view backend = "xla", std::string_view init_method = "");
/// The number of this rank, from 0 to get_world_size() - 1.
[[nodiscard]] int get_rank();
/// The number of ranks of the job.
[[nodiscard]] int get_world_size();
/// The number of this rank among the ranks of its node, and their number.
[[nodiscard]] int get_node_local_rank();
[[nodiscard]] int get_local_world_size();
/// Returns the group of these ranks of the job, in this order; null on all other ranks. Collective: every rank of the
/// job calls it with the same list. First waits for the steps that mark_step() began. Errors: the list is empty; a rank
/// does not exist or occurs twice.
[[nodiscard]] std::shared_ptr<ProcessGroup> new_group(const std::vector<int>& ranks);
/// Waits for all ranks of the job, and for the steps that mark_step() began. Collective.
void barrier();

}  // namespace tessera::distributed
