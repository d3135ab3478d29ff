// SPDX-License-Identifier: Apache-2.0
// A group whose members communicate through MPI. All communication is point to point and non-blocking, in stages, so
// that members can be compared before data is sent, reductions proceed in rank order, and a waiting rank can always
// name the ranks for which it waits.
#pragma once

#include "mpi/operation.h"
#include "shared_memory/node.h"

namespace tessera::collectives {

class MpiGroup final : public GroupBase {
 public:
  MpiGroup(std::shared_ptr<Fabric> fabric, std::shared_ptr<Node> node, std::shared_ptr<Progress> progress,
           MpiCommunicator communicator, Membership membership)
      : GroupBase(std::move(fabric), std::move(membership)),
        node_(std::move(node)),
        progress_(std::move(progress)),
        communicator_(std::make_shared<MpiCommunicator>(std::move(communicator))) {}
  ~MpiGroup() override;
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

 private:
  void run(const Collective& call) override { make(call)->wait(); }
  std::unique_ptr<PendingOperation> start(Collective call) override;
  std::unique_ptr<MpiOperation> make(Collective call);

  std::shared_ptr<Node> node_;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<MpiCommunicator> communicator_;
};

}  // namespace tessera::collectives
