// SPDX-License-Identifier: Apache-2.0
// A group whose members talk through MPI. Everything is point to point and non-blocking, in stages, so that members can be
// compared before data moves, reductions run in rank order, and a wait can always say whom it waits for.
#pragma once

#include "mpi/session.h"
#include "shared_memory/node.h"

namespace tessera::collectives {

class MpiGroup final : public GroupBase {
 public:
  MpiGroup(std::shared_ptr<Fabric> fabric, std::shared_ptr<Node> node, MpiCommunicator communicator,
           Membership membership)
      : GroupBase(std::move(fabric), std::move(membership)),
        node_(std::move(node)),
        communicator_(std::make_shared<MpiCommunicator>(std::move(communicator))) {}

 private:
  void run(const Collective& call) override { start(call)->wait(); }
  std::unique_ptr<PendingOperation> start(Collective call) override;

  std::shared_ptr<Node> node_;
  std::shared_ptr<MpiCommunicator> communicator_;
};

}  // namespace tessera::collectives
