// SPDX-License-Identifier: Apache-2.0
#include "mpi/mpi_group.h"

namespace tessera::collectives {

MpiGroup::~MpiGroup() {
  const auto held = progress_->claim();
  communicator_.reset();
}

std::unique_ptr<MpiOperation> MpiGroup::make(Collective call) {
  auto operation =
      std::make_unique<MpiOperation>(members(), communicator_, node_, progress_, fabric().links(), std::move(call));
  count_mpi(operation->payload());
  return operation;
}

std::unique_ptr<PendingOperation> MpiGroup::start(Collective call) {
  auto operation = make(std::move(call));
  progress_->wake();
  return operation;
}

}  // namespace tessera::collectives
