// SPDX-License-Identifier: Apache-2.0
// Keeps signal handlers out of the threads that compute.
#pragma once

namespace tessera {

/// Blocks all signals in the calling thread, except those of its own errors (SIGSEGV, SIGABRT, ...). Threads that it
/// starts later inherit this. One more thread of the process does nothing but receive signals, so handlers and default
/// actions still run.
///
/// A thread must call this before it runs matrix products of oneDNN. While these run with AVX-512, the stack pointer
/// register holds an address of the heap. The system writes the frame of a handler to the addresses below the stack
/// pointer: a handler in this thread would overwrite other memory of the heap.
///
/// Handlers may not rely on the thread that they run in. Profilers that sample with SIGPROF see only the receiving
/// thread; use one that samples in the kernel (perf).
void leave_signals_to_another_thread();

}  // namespace tessera
