// SPDX-License-Identifier: Apache-2.0
// Lowering: the per-device program that the partitioner writes -> the program that a rank executes. Pure passes Program -> Program. The
// schedule, `stats`, the dry run and the runtime all start from the result, so that the bytes and FLOPs they report are those executed.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/ir/program.h"

namespace tessera {

struct LoweringOptions {
  /// Rewrite for speed and memory. False: only what every backend needs (synchronous collectives, expanded reductions).
  bool rewrite = true;
  /// Products of more bytes are computed in chunks if that lowers the planned memory; 0: never.
  std::int64_t largest_value = 0;
  /// Attention scores of more bytes are computed in chunks if that lowers the planned memory; 0: never.
  std::int64_t largest_scores = 0;
  /// Keep 16-bit floats in f32 inside of fused groups.
  bool excess_precision = false;

  /// As TESSERA_FUSE, TESSERA_LARGEST_VALUE, TESSERA_LARGEST_SCORES and TESSERA_EXCESS_PRECISION say.
  static LoweringOptions from_environment();
  [[nodiscard]] std::size_t hash() const;
};

/// The program that one of `ranks` ranks executes. A start whose done is missing stays as it is.
Program lower(const Program& program, int ranks, const LoweringOptions& options);

// ---- the passes, in the order in which they run ------------------------------------------------------------------------------

/// All-reduces and reduce-scatters by computations that no process group knows become exchanges after which every member computes
/// its part, of as many bytes. In all computations.
Program expand_reductions(const Program& program, int world_size);

/// The same values with fewer passes over memory. What gradients of slices and of lookups leave (sums of padded parts, a scatter
/// into zeros that is then added) becomes a concatenation, or a scatter into the other summand. x + 0 may turn a negative zero
/// positive or leave it, and sums may be taken in another order. Entry computation only, as all passes below.
Program prepare(const Program& program);

/// Reductions of dims on both sides of a kept dim: inner dims first, because reductions of rows can join fused groups.
Program reduce_rows_first(const Program& program);

/// Attention whose scores (products of queries and keys over batches and heads, larger than both) have more than `most_bytes`:
/// computed in chunks of batches or heads, and of rows of queries where one batch and one head are still too large. The backward
/// pass recomputes the scores instead of keeping them. Empty if no scores are as large or none can be chunked.
std::optional<Program> chunk_attention(const Program& program, std::int64_t most_bytes);

/// Every product of more than `most_bytes` and what is computed from it (the logits of a vocabulary, their softmax and gradient) in
/// chunks along one dim or two, so that it never exists as one array. Empty if there is no such product, it leaves the
/// computation, or no dim can be chunked.
std::optional<Program> chunk_logits(const Program& program, std::int64_t most_bytes);

/// Elementwise values that were kept for later groups (a GELU's inner values for its gradient) are computed there again if their
/// operands are in memory anyway.
Program rematerialize_elementwise(const Program& program);

/// 16-bit floats that are computed and read inside of one fused group are kept in f32 there (excess precision), where that saves
/// conversions.
Program fused_excess_precision(const Program& program);

}  // namespace tessera
