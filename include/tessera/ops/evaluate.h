// SPDX-License-Identifier: Apache-2.0
// The reference evaluation of programs: simple rather than fast. All other results are compared with it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// An instruction that some devices run together. operands[k] belongs to devices[k].
struct EvaluatedStep {
  const Computation& computation;
  Id id;
  const std::vector<std::int64_t>& devices;
  const std::vector<std::vector<Literal>>& operands;
};

struct EvaluateOptions {
  std::int64_t partition = 0;
  /// For evaluate() on one device of a program whose other devices are evaluated elsewhere at the same time: called
  /// with each collective and the operands of this device. Returns the operands of the devices of its group, by device;
  /// devices of other groups have none.
  std::function<std::vector<std::vector<Literal>>(const Instruction& collective, const std::vector<Literal>& operands)>
      exchange{};
  /// Loops stop with an Error after this number of rounds (0: no limit).
  std::int64_t trip_limit = 0;
  /// If set, loops stop at the limit without an Error, as if their condition had become false, and their names are
  /// added here.
  std::set<std::string>* stopped_loops = nullptr;
  /// Called with every result before it is used. It may change the result: `tessera check` poisons padding in this way.
  std::function<void(std::int64_t device, const Computation&, Id, Literal&)> observe;
  /// Called before `observe` with the results of all devices that run the instruction. It may change them. If it is
  /// set, the devices also run calls, loops and branches together.
  std::function<void(const EvaluatedStep&, std::vector<Literal>& results)> observe_step;
};

/// Evaluates the entry on one device. Error (op, operands, source line) if an argument does not fit its parameter.
Literal evaluate(const Program& program, const std::vector<Literal>& arguments, const EvaluateOptions& options = {});

/// Evaluates a per-device program on all its devices in lockstep: each instruction on every device before the next one,
/// so a collective has all operands. arguments[device][k] is parameter k. A loop runs while its predicate holds; the
/// predicate must be equal on the devices of each collective in the loop.
std::vector<Literal> evaluate_lockstep(const Program& program, const std::vector<std::vector<Literal>>& arguments,
                                       const EvaluateOptions& options = {});

}  // namespace tessera
