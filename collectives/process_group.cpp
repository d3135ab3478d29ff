// SPDX-License-Identifier: Apache-2.0
#include "tessera/collectives/process_group.h"

#include <exception>

#include "tessera/base/error.h"

namespace tessera {
namespace {

class FinishedOperation final : public PendingOperation {
 public:
  void wait() override {}
  bool test() override { return true; }
};

}  // namespace

void wait_unseen(std::unique_ptr<PendingOperation> operation) noexcept {
  if (!operation) return;
  const bool is_unwinding = std::uncaught_exceptions() > 0;
  try {
    operation->wait();
  } catch (...) {
    if (!is_unwinding) std::terminate();  // called here, so that its handler finds the error
  }
}

std::int64_t TrafficCounters::total() const {
  return all_gather + reduce_scatter + all_reduce + all_to_all + permute + broadcast;
}

TrafficCounters& TrafficCounters::operator+=(const TrafficCounters& other) {
  all_gather += other.all_gather;
  reduce_scatter += other.reduce_scatter;
  all_reduce += other.all_reduce;
  all_to_all += other.all_to_all;
  permute += other.permute;
  broadcast += other.broadcast;
  mpi_payload += other.mpi_payload;
  calls += other.calls;
  return *this;
}

void ProcessGroup::await_progress(std::uint64_t /*progress*/) { ensure(false, "{}: no node memory", name()); }

std::unique_ptr<PendingOperation> ProcessGroup::start_all_gather(std::span<const std::byte> in,
                                                                 std::span<std::byte> out,
                                                                 const CollectiveLabel& label) {
  all_gather(in, out, label);
  return std::make_unique<FinishedOperation>();
}

std::unique_ptr<PendingOperation> ProcessGroup::start_reduce_scatter(std::span<const std::byte> in,
                                                                     std::span<std::byte> out, DType dtype,
                                                                     Reduction op, const CollectiveLabel& label) {
  reduce_scatter(in, out, dtype, op, label);
  return std::make_unique<FinishedOperation>();
}

std::unique_ptr<PendingOperation> ProcessGroup::start_all_reduce(std::span<const std::byte> in,
                                                                 std::span<std::byte> out, DType dtype, Reduction op,
                                                                 const CollectiveLabel& label) {
  all_reduce(in, out, dtype, op, label);
  return std::make_unique<FinishedOperation>();
}

}  // namespace tessera
