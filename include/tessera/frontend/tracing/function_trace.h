// SPDX-License-Identifier: Apache-2.0
// Traces a function of the user into a computation of its own: the body of a loop, a branch, a function with its own
// gradient. Ops are traced into it from construction to close(). Tensors of enclosing computations that the function
// uses become parameters after the arguments, in the order of captured().
//
//   FunctionTrace f("branch");
//   const Tensor x = trace().wrap(f.argument(type, "x"));
//   const Tensor y = user_function(x);
//   f.close({trace().use(y)});
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/frontend/tracing/trace.h"
#include "tessera/ir/program.h"

namespace tessera::detail {

/// A function that is being traced into its own computation.
class FunctionTrace {
 public:
  explicit FunctionTrace(const std::string& name);
  ~FunctionTrace();
  FunctionTrace(const FunctionTrace&) = delete;
  FunctionTrace& operator=(const FunctionTrace&) = delete;

  /// The next argument. All arguments come before the first op.
  Value argument(const Type& type, const std::string& name);
  /// If the function is the body of a loop, sets the loop counter, so that random numbers differ between iterations.
  void set_iteration(Value iteration);
  /// Ends the function. Its results are values of its computation.
  void close(const std::vector<Value>& results);

  /// After close(): the computation, whose root is a tuple of the results.
  [[nodiscard]] Computation computation() const;
  /// After close(): the builder, to append a gradient after the root.
  [[nodiscard]] Builder& builder() { return frame_->builder; }
  [[nodiscard]] Id root() const { return root_; }
  [[nodiscard]] int argument_count() const { return argument_count_; }
  /// Values of the enclosing computation.
  [[nodiscard]] const std::vector<Value>& captured() const { return frame_->captured; }

 private:
  Trace& trace_;
  std::shared_ptr<Trace::Frame> frame_;
  Id root_ = -1;
  int argument_count_ = 0;
  bool is_closed_ = false;
};

}  // namespace tessera::detail
