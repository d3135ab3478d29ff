// SPDX-License-Identifier: Apache-2.0
// What the arena of a program contains when it is fullest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct Program;
struct Schedule;

/// The use of the arena at its peak: at the step where the parts in use have the most bytes.
struct ArenaPeak {
  std::int64_t gathered = 0;  // results of all-gathers
  std::int64_t scratch = 0;   // memory of one step, such as the messages of a collective or the arena of a loop's body
  std::int64_t values = 0;    // all other values: activations and gradients
  struct Part {
    std::int64_t bytes = 0;
    std::string what;  // `f32[4,256,768] %add.7 (add, gpt2.cpp:40)`
  };
  std::vector<Part> largest;  // the ten largest parts, in order of size
};
ArenaPeak arena_peak(const Program& program, const Schedule& schedule);

}  // namespace tessera
