// SPDX-License-Identifier: Apache-2.0
// A group of processes on one node. Members read buffers in node memory in place: all arrive, read, and arrive again
// before the owner may change its buffer. Small payload, and payload outside of node memory, is sent in chunks through
// the staging areas of the members (for small payload, this saves one arrival): the owner writes, arrives, and peers
// read. Chunks alternate between two halves, so one arrival per chunk is enough: before a half is overwritten, every
// member has arrived at the chunk in the other half and thus has read this one.
#pragma once

#include "shared_memory/node.h"

namespace tessera::collectives {

class SharedGroup final : public GroupBase {
 public:
  SharedGroup(std::shared_ptr<Fabric> fabric, std::shared_ptr<Node> node, Membership membership);

 private:
  void run(const Collective& call) override;
  void run_staged(const Collective& call);
  void gather(const Collective& call);
  void reduce_scatter(const Collective& call);
  void all_reduce(const Collective& call);
  void all_reduce_small(const Collective& call);
  void exchange(const Collective& call);
  void permute(const Collective& call);
  void broadcast(const Collective& call);

  // The same in place (direct.cpp).
  bool is_direct(const Collective& call);
  void run_direct(const Collective& call);
  void gather_direct(const Collective& call);
  void reduce_scatter_direct(const Collective& call);
  void all_reduce_direct(const Collective& call);
  void exchange_direct(const Collective& call);
  void permute_direct(const Collective& call);
  [[nodiscard]] const std::byte* in_of(std::size_t member) const { return operand_of(member, 0); }
  [[nodiscard]] const std::byte* out_of(std::size_t member) const { return operand_of(member, 1); }
  [[nodiscard]] const std::byte* operand_of(std::size_t member, std::size_t which) const;
  void meet(const Collective& call) {
    arrive();
    await_all(call);
  }

  // Takes the half for the next chunk. Waits for readers of another group that used the staging area last.
  std::byte* claim_half(const Collective& call);
  // A member's half that corresponds to the last claim.
  [[nodiscard]] const std::byte* half_of(std::size_t member) const;
  // Publishes that this rank has reached the next step.
  void arrive();
  // Waits until the member has reached this rank's step. At the first step of a collective, it compares the member's
  // post.
  void await(std::size_t member, const Collective& call);
  void await_all(const Collective& call);
  void compare(std::size_t member) const;
  [[nodiscard]] std::vector<int> absent() const;
  [[nodiscard]] std::size_t count() const { return slots_.size(); }
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(rank()); }

  std::shared_ptr<Node> node_;
  std::vector<GroupSlot*> slots_;  // per member
  std::vector<RankPage*> pages_;   // per member
  std::size_t parity_ = 0;         // of the running collective
  std::uint64_t step_ = 0;
  std::uint64_t first_step_ = 0;  // of the running collective
  std::size_t half_ = 0;
};

}  // namespace tessera::collectives
