// SPDX-License-Identifier: Apache-2.0
// The cost of a program in which every value has a sharding, before it becomes the program of one device. One pass over
// its instructions; equal ops with equal shardings are computed once.
#pragma once

#include "propagation/op_signatures.h"
#include "tessera/ir/program.h"
#include "tessera/sharding/machine.h"

namespace tessera {

/// The work and the communication of one device in one run. Each round of a loop counts.
struct ProgramEstimate {
  double moved = 0;             // reshards and halos: bytes received on equal links, else seconds
  double work = 0;              // operations
  double seconds = 0;           // of reshards, halos, work and memory traffic
  std::int64_t peak_bytes = 0;  // of the values that are alive together
};

class ProgramEstimator {
 public:
  /// An op, or a reshard, of one device.
  struct OpCost {
    double moved = 0;
    double work = 0;
    double seconds = 0;
    std::int64_t result = 0;   // bytes of the result on one device
    std::int64_t scratch = 0;  // bytes in use only while the op runs
  };

  explicit ProgramEstimator(const MachineModel& machine) : machine_(machine) {}
  /// The program must have passed insert_reshards(): copies between shardings count as collectives, all other ops as
  /// sharded computation. Values that nothing reads do not count.
  ProgramEstimate of(const Program& program);
  /// An op between values with these shardings, by leaf, without reshards.
  [[nodiscard]] OpCost of_op(const Mesh& mesh, const OpSignature& signature, const Shardings& operands,
                             const Shardings& results) const;

 private:
  class Lives;
  OpCost cost_of(const Program& program, const Computation& computation, const Instruction& instruction);
  [[nodiscard]] OpCost of_copy(const Type& type, const Sharding& from, const Sharding& to) const;
  /// Adds the cost of a computation that runs `times` times to `out`; returns its peak without its parameters.
  std::int64_t add(const Program& program, ComputationId id, double times, const std::vector<std::int64_t>& peaks,
                   ProgramEstimate& out);

  const MachineModel& machine_;
  OpSignatures signatures_;
  SharedShardings shardings_;
  std::vector<int> key_;
  ByIds<OpCost> known_;
};

}  // namespace tessera
