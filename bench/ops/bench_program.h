// SPDX-License-Identifier: Apache-2.0
// One small program as a row: compiled once, and run like a step.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera::bench {

using Body = std::function<Value(Builder&, const std::vector<Value>&)>;

/// Arguments are arrays of 0.5, or of 2 for integers. The bytes are those of arguments and results.
void run(benchmark::State& state, const std::vector<Type>& types, const Body& body, bool fuse = true);

/// For rows limited by memory (register them with UseManualTime): alternates each run with a memcpy that reads and
/// writes as many bytes. Counters are medians: `copy_us`, `of_copy` (our time / the copy's; 1 if only memory counts),
/// and `steps`, the number of steps of the program.
void run_beside_copy(benchmark::State& state, const std::vector<Type>& types, const Body& body);

}  // namespace tessera::bench
