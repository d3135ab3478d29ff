// SPDX-License-Identifier: Apache-2.0
// Errors for failed allocations. They contain the requested size, its purpose, the memory that the process holds, and
// the free memory of the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// `this process holds 1.2 GB; the machine has 3.4 GB of 25.0 GB free`, with the limits of the control group and of
/// ulimit -v, if there are any.
std::string memory_state();

/// Returns the bytes of memory and swap space of the machine. No process can use more. An allocator may still return a
/// larger block, because Linux overcommits memory. The kernel then ends the process when it writes to the block.
std::int64_t machine_memory();

/// Throws Error `out of memory: cannot allocate 4.0 GB (4000000000 bytes) for the array f32[1000000000]`, followed by
/// `held` (the memory of the rank, if the caller has more details than memory_state()) and by memory_state().
[[noreturn]] void fail_to_allocate(std::int64_t bytes, std::string_view purpose, std::string_view held = "");

}  // namespace tessera
