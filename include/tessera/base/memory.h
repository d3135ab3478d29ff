// SPDX-License-Identifier: Apache-2.0
// What is said where memory runs out: how much was asked for, for what, what the process holds and what the machine has left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// `this process holds 1.2 GB; the machine has 3.4 GB of 25.0 GB free`, with the limit of the control group and that of ulimit -v where
/// there are such.
std::string memory_state();

/// Throws Error `out of memory: cannot allocate 4.0 GB (4000000000 bytes) for the array f32[1000000000]`, followed by `held` (what
/// the rank holds, where the caller knows more than memory_state() does) and by memory_state().
[[noreturn]] void fail_to_allocate(std::int64_t bytes, std::string_view purpose, std::string_view held = "");

}  // namespace tessera
