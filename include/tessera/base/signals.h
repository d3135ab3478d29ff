// SPDX-License-Identifier: Apache-2.0
// Keeps signal handlers out of the threads that compute.
#pragma once

namespace tessera {

/// Blocks all signals in the calling thread, except those that its own faults raise (SIGSEGV, SIGABRT, ...). Threads
/// that it starts later inherit this. A separate thread of the process only receives signals, so handlers and default
/// actions still run.
///
/// A thread must call this before it runs matrix products of oneDNN. While these run with AVX-512, the stack pointer
/// register holds an address of the heap. The system writes the frame of a handler to the addresses below the stack
/// pointer: a handler in this thread would overwrite other memory of the heap.
///
/// A handler must not depend on the thread in which it runs. Profilers that sample with SIGPROF see only the receiving
/// thread; use one that samples in the kernel (perf).
void leave_signals_to_another_thread();

}  // namespace tessera
