// SPDX-License-Identifier: Apache-2.0
// Splits the program of a step into several programs that run one after the other: forward, backward and update.
//
//   %h = f32[4,8] tanh(%x), frontend_attributes={tessera.stage="forward"}
//   %d = f32[4,8] multiply(%h, %g), frontend_attributes={tessera.stage="backward"}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// The frontend attribute that names the stage of an instruction.
inline constexpr std::string_view kStageAttribute = "tessera.stage";
/// The names of the stages, in their order.
inline constexpr std::string_view kStageNames[] = {"forward", "backward", "update"};

/// One of these programs. Values that one program passes to another have numbers. The parameters of the original
/// program have the first numbers, from 0.
struct Stage {
  std::string name;
  Program program;             // its root is a tuple
  std::vector<int> arguments;  // the number of the value of each parameter
  std::vector<int> results;    // the value of each element of the root
};
/// The programs of a step.
struct Stages {
  std::vector<Stage> stages;
  int value_count = 0;
  std::vector<int> results;  // the value of each element of the original root
};

/// Splits the entry computation by the stages of its instructions. An instruction without a stage runs in the first
/// stage that needs it. No instruction runs before its operands. Constants, iotas and tuples are copied into every
/// stage that uses them. Returns no stages if fewer than two have instructions. Error unless all parameters and the
/// values between stages are arrays, and the root is a tuple of arrays.
Stages split_stages(const Program& program);

}  // namespace tessera
