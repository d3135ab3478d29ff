// SPDX-License-Identifier: Apache-2.0
// Errors for missing memory: the requested size and its purpose, how much the process holds, and how much the
// machine has left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// `this process holds 1.2 GB; the machine has 3.4 GB of 25.0 GB free`, with the limits of the control group and of
/// ulimit -v, if there are any.
std::string memory_state();

/// The memory of the machine and its swap space: no process can fill more. Allocators may still promise more, and the
/// kernel then ends the process when it writes there.
std::int64_t machine_memory();

/// Throws Error `out of memory: cannot allocate 4.0 GB (4000000000 bytes) for the array f32[1000000000]`, followed by
/// `held` (the memory of the rank, if the caller has more details than memory_state()) and by memory_state().
[[noreturn]] void fail_to_allocate(std::int64_t bytes, std::string_view purpose, std::string_view held = "");

}  // namespace tessera
