// SPDX-License-Identifier: Apache-2.0
// Eager mode: every op runs when it is traced, for debugging. The line of the program that traced an op is then also
// the line at which it runs, fails, or first gives a wrong value.
//
//   experimental::EagerModeContext eager(true);
//   const Tensor y = tanh(x);                          // y is data now
//   sum(y).backward();                                 // each op of the backward pass has run
#pragma once

namespace tessera::experimental {

/// Switches eager mode on or off on this rank. All ranks must call it at the same place of the program.
/// XLA_USE_EAGER_DEBUG_MODE=1 is the mode at the start. If `on`, ops that were traced before run now.
///
/// In eager mode, each op is a program of its own. Gradients and updates work as in lazy mode: mark_step() ends the
/// step, and frees the values that the backward pass may need. A function that is traced runs as one op: the functions
/// of compile(), cond, loops and shard_map. Error if such a function calls eager_mode().
void eager_mode(bool on);

/// True if eager mode is on.
[[nodiscard]] bool is_eager_mode();

/// Eager mode, or lazy mode, within a scope. The end of the scope restores the former mode.
class EagerModeContext {
 public:
  explicit EagerModeContext(bool on);
  ~EagerModeContext();
  EagerModeContext(const EagerModeContext&) = delete;
  EagerModeContext& operator=(const EagerModeContext&) = delete;

 private:
  bool before_;
};

}  // namespace tessera::experimental
