// SPDX-License-Identifier: Apache-2.0
#include "mpi/mpi_group.h"

#include "mpi/operation.h"

namespace tessera::collectives {

std::unique_ptr<PendingOperation> MpiGroup::start(Collective call) {
  auto operation = std::make_unique<MpiOperation>(members(), communicator_, node_, std::move(call));
  count_mpi(operation->payload());
  return operation;
}

}  // namespace tessera::collectives
