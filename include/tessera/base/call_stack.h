// SPDX-License-Identifier: Apache-2.0
// The functions that led to a call, for the analyses of PT_XLA_DEBUG_LEVEL.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// The functions that led to this call, the innermost first: `train_step(Batch const&) (train.cpp:41)`, or only the
/// name if the program has no debug information that Boost.Stacktrace reads. Omits functions without an exported name,
/// such as lambdas.
std::vector<std::string> call_stack();

/// Of a call_stack(), returns the first `most` functions outside of Tessera and the standard library. If there are
/// none, returns the first ones of the stack.
std::vector<std::string> user_frames(const std::vector<std::string>& stack, std::size_t most);

}  // namespace tessera
