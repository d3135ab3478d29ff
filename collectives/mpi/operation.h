// SPDX-License-Identifier: Apache-2.0
// One collective in flight over MPI: a list of stages. Each stage starts messages or processes received data. The next
// stage begins when all messages of the previous one are complete.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <functional>

#include "mpi/progress.h"
#include "mpi/session.h"
#include "shared_memory/node.h"
#include "tessera/collectives/node_links.h"

namespace tessera::collectives {

class MpiOperation final : public PendingOperation {
 public:
  /// `links` determine the number of steps and are equal on all members.
  MpiOperation(Membership members, std::shared_ptr<MpiCommunicator> communicator, std::shared_ptr<Node> node,
               std::shared_ptr<Progress> progress, const NodeLinks& links, Collective call);
  ~MpiOperation() override;
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;

  void wait() override;
  bool test() override;
  /// Called by the owner of the claim of its Progress. Errors are thrown to the rank that waits for this operation.
  void go_on() noexcept;
  [[nodiscard]] bool has_ended() const { return !in_progress_ || error_ != nullptr; }
  /// The bytes that this rank will receive.
  [[nodiscard]] std::int64_t payload() const { return payload_; }

 private:
  using Stage = std::function<void()>;
  // The start of a slice; that of the slice after the last is the end.
  using Begin = std::function<std::size_t(std::size_t)>;
  void plan();
  void plan_compare();
  void plan_gather();
  void plan_exchange();
  void plan_permute();
  void plan_broadcast();
  void plan_broadcast_tree();
  void plan_broadcast_slices();
  void plan_reduce_scatter(const Begin& begin_of, std::byte* out);
  void plan_all_reduce();
  void plan_all_reduce_in_one_round();
  void plan_collect(const std::byte* mine, std::byte* gathered, const Begin& begin_of);
  void plan_collect_by_doubling(std::byte* gathered, const Begin& begin_of);
  void then(Stage stage) { stages_.push_back(std::move(stage)); }

  void send(const std::byte* from, std::size_t bytes, std::size_t member);
  void receive(std::byte* to, std::size_t bytes, std::size_t member);
  void compare();
  bool advance();
  bool messages_done();
  [[nodiscard]] std::vector<int> absent();
  [[nodiscard]] std::size_t count() const { return members_.world_ranks.size(); }
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(members_.rank); }

  Membership members_;
  std::shared_ptr<MpiCommunicator> communicator_;
  std::shared_ptr<Node> node_;
  std::shared_ptr<Progress> progress_;
  NodeLinks links_;
  Collective call_;
  std::deque<Stage> stages_;
  std::vector<MPI_Request> requests_;
  std::vector<std::size_t> peers_;  // per request: the member that it receives from or sends to
  std::vector<Post> posts_;
  std::vector<std::byte> scratch_;
  std::int64_t payload_ = 0;
  int tag_ = 0;
  std::atomic<bool> in_progress_{true};  // also read without the claim
  std::exception_ptr error_;             // occurred while waiting for another operation
  std::exception_ptr given_up_;          // why this rank no longer waits
};

}  // namespace tessera::collectives
