// SPDX-License-Identifier: Apache-2.0
// Lowering: from the per-device program of the partitioner to the program that a rank executes. Pure passes Program
// -> Program. The schedule, `stats`, the dry run and the runtime all start from the result, so the bytes and FLOPs
// that they report are those executed.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/ir/program.h"

namespace tessera {

struct LoweringOptions {
  /// Rewrite for speed and memory. False: only the passes that every backend needs (synchronous collectives, expanded
  /// reductions).
  bool rewrite = true;
  /// Products with more bytes are computed in chunks if that lowers the planned memory. 0: never.
  std::int64_t largest_value = 0;
  /// Attention scores with more bytes are computed in chunks if that lowers the planned memory. 0: never.
  std::int64_t largest_scores = 0;
  /// Keep 16-bit floats in f32 inside of fused groups.
  bool excess_precision = false;

  /// The options in TESSERA_FUSE, TESSERA_LARGEST_VALUE, TESSERA_LARGEST_SCORES and TESSERA_EXCESS_PRECISION.
  static LoweringOptions from_environment();
  [[nodiscard]] std::size_t hash() const;
};

/// The program that one of `ranks` ranks executes. A start without a done stays unchanged.
Program lower(const Program& program, int ranks, const LoweringOptions& options);

// ---- the passes, in the order in which they run ---------------------------------------------------------------------

/// Replaces all-reduces and reduce-scatters whose computation process groups do not support by exchanges of equally
/// many bytes, after which every member computes its part. In all computations.
Program expand_reductions(const Program& program, int world_size);

/// Computes the same values with fewer passes over memory. Gradients of slices and lookups contain sums of padded
/// parts, and scatters into zeros that are then added: they become a concatenation, or a scatter into the other
/// summand. x + 0 may turn a negative zero positive or leave it, and sums may be taken in another order. Entry
/// computation only, as all passes below.
Program prepare(const Program& program);

/// Divides reductions of dims on both sides of a kept dim: inner dims first, because fused groups can contain
/// reductions of rows.
Program reduce_rows_first(const Program& program);

/// Computes attention in chunks if its scores (products of queries and keys over batches and heads, larger than both)
/// have more than `most_bytes`: chunks of batches or heads, or of query rows if one batch and one head is still too
/// large. The backward pass rematerializes the scores (FlashAttention, Dao et al., 2022). nullopt if no scores are
/// that large or none can be chunked.
std::optional<Program> chunk_attention(const Program& program, std::int64_t most_bytes);

/// Computes every product of more than `most_bytes`, and the values computed from it (the logits of a vocabulary,
/// their softmax and gradient), in chunks along one dim or two, so that it never exists as one array. nullopt if
/// there is no such product, if it leaves the computation, or if no dim can be chunked.
std::optional<Program> chunk_logits(const Program& program, std::int64_t most_bytes);

/// Rematerializes elementwise values for later groups (the inner values of a GELU for its gradient) if their operands
/// are in memory anyway.
Program rematerialize_elementwise(const Program& program);

/// Keeps 16-bit floats that are computed and read inside of one fused group in f32 there (excess precision), if that
/// saves conversions.
Program fused_excess_precision(const Program& program);

}  // namespace tessera
