// SPDX-License-Identifier: Apache-2.0
// Steps: the end of a trace, and the random numbers of a step.
#pragma once

#include <cstdint>
#include <functional>
#include <source_location>

namespace tessera {

/// Ends the step: one program computes the new values of all variables and live tensors, which then are in memory. If a
/// core is available (TESSERA_ASYNC), the program runs while the next step is traced. Code that reads one of its values
/// waits for the program. The next mark_step() or read throws an error of the program.
void mark_step(std::source_location where = std::source_location::current());

struct StepOptions {
  bool wait = false;  // return when the step has ended
};
void mark_step(StepOptions options, std::source_location where = std::source_location::current());

/// Waits until every step that mark_step() began has ended. Throws its error, if any.
void wait_device_ops();

/// Calls `evaluate`. `tessera doctor` counts neither the steps nor the reads of this call as those of the training.
/// Trainer::evaluate() uses this function.
void run_evaluation(const std::function<void()>& evaluate);

/// Sets the random seed for dropout and initial values, 42 by default. All ranks must set the same seed.
void manual_seed(std::uint64_t seed);

/// The state of the random numbers of this rank's trace: the seed and the number of steps so far. A run that is resumed
/// with this state draws the same numbers as an uninterrupted run. The steps of an evaluation count, too: set the state
/// back afterwards, as the Trainer does, if their number depends on the number of ranks.
struct RandomState {
  std::uint64_t seed = 42;
  std::uint64_t step = 0;
};
/// Returns the state of the random numbers.
RandomState random_state();
/// Sets the state of the random numbers.
void set_random_state(const RandomState& state);

/// A scope for the rows of a micro-batch that starts at `first_row` of the complete batch. Random ops in the scope draw
/// the numbers of these rows, and mark_step() does not advance the random state. Dropout masks therefore do not depend
/// on the division into micro-batches. Dim 0 of these ops must be the rows.
class MicroBatch {
 public:
  explicit MicroBatch(std::int64_t first_row);
  ~MicroBatch();
  MicroBatch(const MicroBatch&) = delete;
  MicroBatch& operator=(const MicroBatch&) = delete;
};

}  // namespace tessera
