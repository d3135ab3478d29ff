// SPDX-License-Identifier: Apache-2.0
// The reference evaluation of programs: obviously right, not fast. The oracle for everything else.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// An instruction that some devices run together: [k] belongs to devices[k].
struct EvaluatedStep {
  const Computation& computation;
  Id id;
  const std::vector<std::int64_t>& devices;
  const std::vector<std::vector<Literal>>& operands;
};

struct EvaluateOptions {
  std::int64_t partition = 0;
  /// Loops stop with an Error after so many rounds (0 = no limit).
  std::int64_t trip_limit = 0;
  /// When given, loops stop at the limit without an Error, as if their condition had become false; their names go here.
  std::set<std::string>* stopped_loops = nullptr;
  /// Called with every result before it is used (used to poison padding); may change it.
  std::function<void(std::int64_t device, const Computation&, Id, Literal&)> observe;
  /// Called before that with the results of all devices that run the instruction; may change them. When given, the devices run calls,
  /// loops and branches together too.
  std::function<void(const EvaluatedStep&, std::vector<Literal>& results)> observe_step;
};

/// Runs the entry on one device. Error (op, operands, source) when an argument does not fit its parameter.
Literal evaluate(const Program& program, const std::vector<Literal>& arguments, const EvaluateOptions& options = {});

/// Runs a per-device program on all its devices in lockstep: each instruction on every device before the next, so that a
/// collective sees all operands at once. arguments[device][k] is parameter k. Loops run while the predicate holds, which must
/// agree among the devices of a collective inside.
std::vector<Literal> evaluate_lockstep(const Program& program, const std::vector<std::vector<Literal>>& arguments,
                                       const EvaluateOptions& options = {});

}  // namespace tessera
