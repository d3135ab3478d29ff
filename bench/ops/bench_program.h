// SPDX-License-Identifier: Apache-2.0
// One small program as a row: compiled once, run as a step runs it.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <vector>

#include "tessera/ir/builder.h"

namespace tessera::bench {

using Body = std::function<Value(Builder&, const std::vector<Value>&)>;

/// Arguments are arrays of halves, or of twos where integers. Bytes are those of arguments and results.
void run(benchmark::State& state, const std::vector<Type>& types, const Body& body, bool fuse = true);

/// For rows that memory bounds (to be registered with UseManualTime): each run in turn with a memcpy that reads and writes as many bytes.
/// Counters are medians: `copy_us`, `of_copy` (ours / the copy's, 1 where memory alone counts), and `steps` that the program has.
void run_beside_copy(benchmark::State& state, const std::vector<Type>& types, const Body& body);

}  // namespace tessera::bench
