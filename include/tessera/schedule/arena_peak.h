// SPDX-License-Identifier: Apache-2.0
// The content of the arena of a program at its peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct Program;
struct Schedule;

/// The bytes of the arena that are in use at its peak, which is the step that uses the most bytes.
struct ArenaPeak {
  std::int64_t gathered = 0;   // results of all-gathers
  std::int64_t gradients = 0;  // what the clipping of gradients and the optimizer read, also before its reduction
  std::int64_t messages = 0;   // of a collective, sent and received
  std::int64_t scratch = 0;    // other memory of one step: the arena of a loop's body or of a branch
  std::int64_t values = 0;     // all other values, such as activations
  [[nodiscard]] std::int64_t sum() const { return gathered + gradients + messages + scratch + values; }
  struct Part {
    std::int64_t bytes = 0;
    std::string what;  // `f32[4,256,768] %add.7 (add, transformer.h.0.mlp, gpt2.cpp:40)`
  };
  std::vector<Part> largest;  // the ten largest parts, in order of size
};
/// Finds the peak of the arena of a schedule and lists its content.
ArenaPeak arena_peak(const Program& program, const Schedule& schedule);

}  // namespace tessera
