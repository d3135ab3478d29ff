// SPDX-License-Identifier: Apache-2.0
// The hook for FSDP: an instruction marked tessera.recompute="true" (the unshard of a parameter) must not stay in
// memory from the forward to the backward pass. If the backward pass needs its value, the instruction is issued again,
// on an operand that an opt-barrier ties to the first gradient that reaches the unit in the backward pass. Values that
// inexpensive ops (a transpose, a cast) compute from such values only are also issued again. All values of a checkpoint
// region (kCheckpointAttribute) are issued again in the same way.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera::autodiff {

inline constexpr std::string_view kUnit = "tessera.unit";

/// Returns true for an unshard: an instruction marked with tessera.recompute, whether "true" or "false" (gathered once
/// for both passes).
bool is_unshard(const Instruction& instruction);

class Recompute {
 public:
  /// Looks at the first `size` instructions.
  Recompute(Builder& builder, Id size);
  /// Called for every instruction that a gradient reaches, last first.
  void gradient_arrived(const Instruction& instruction, Value gradient);
  /// Returns the value itself, or the copy that the backward pass issues again.
  Value value_for_backward(Id id);

 private:
  void tie_to_gradient(Instruction& unshard);
  Value issue_again(Id id);
  Value issue_region_again(Instruction instruction, const std::string& region);
  Value tied_to(const std::string& region, Id id);

  Builder& builder_;
  std::vector<bool> again_;
  std::vector<bool> constant_;  // inexpensive and computed from constants only
  std::unordered_map<Id, Value> issued_;
  std::unordered_map<std::string, Value> first_gradient_;  // by unit
  std::unordered_map<std::string, Value> first_in_region_;
  std::unordered_map<std::string, std::unordered_map<Id, Value>> tied_;  // by region: values that enter it
  Value latest_gradient_;
};

}  // namespace tessera::autodiff
