// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "tessera/ir/program.h"

namespace tessera {

/// The per-device program as it is scheduled: the same values by fewer passes over memory. What gradients of slices and of lookups
/// leave behind (sums of padded parts, a scatter into zeros that is then added) becomes a concatenation, a scatter into the
/// other summand. x + 0 may turn a negative zero positive or leave it, and sums may be taken in another order.
/// These passes touch the entry computation only.
Program prepare(const Program& program);

/// All-reduces and reduce-scatters by computations that no process group knows become exchanges after which every member computes its part,
/// of as many bytes. In all computations.
Program expand_reductions(const Program& program, int world_size);

/// Reductions of dims on both sides of one that stays, inner dims first: those are of rows and join groups.
Program reduce_rows_first(const Program& program);

/// Every product of more than `most_bytes` and what is made of it (the logits of a vocabulary, their softmax and gradient) in parts along
/// one dim or two, so that it is never whole in memory. Nothing where there is none, what is large leaves, or no dim can be cut.
std::optional<Program> split_large(const Program& program, std::int64_t most_bytes);

/// Attention whose scores (products of queries and keys over batches and heads, larger than both) have more than `most_bytes`: computed in
/// parts of batches or heads, and of rows of queries where a batch and a head alone are too large, forward and backward, which makes them
/// again instead of keeping them. Nothing where no scores are as large, or none can be cut.
std::optional<Program> split_scores(const Program& program, std::int64_t most_bytes);

/// Elementwise values that were kept for later groups (a GELU's inner values for its gradient) are made there again, where what they
/// are made of lies in memory anyway.
Program recompute_cheap(const Program& program);

/// 16-bit floats that are made and read within a fused group are kept in f32 there (excess precision), where that saves conversions.
Program widen_groups(const Program& program);

}  // namespace tessera
