// SPDX-License-Identifier: Apache-2.0
// Lowering turns the per-device program of the partitioner into the program that a rank executes. The passes are pure
// functions. The schedule, `tessera stats`, the dry run and the runtime all use the result, so the reported bytes and
// FLOPs are those that are executed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

struct LoweringOptions {
  /// Rewrites the program for speed and memory. False: runs only the passes without which the program cannot be
  /// executed (synchronous collectives, expanded reductions).
  bool rewrite = true;
  /// Products with more bytes are computed in chunks if that lowers the planned memory. 0: never.
  std::int64_t largest_value = 0;
  /// Attention scores with more bytes are computed in chunks if that lowers the planned memory. 0: never.
  std::int64_t largest_scores = 0;
  /// Keep 16-bit floats in f32 inside of fused groups.
  bool excess_precision = false;
  /// The most bytes for parameters, results, constants and intermediate values. If the program needs more, values are
  /// rematerialized. 0: no limit.
  std::int64_t memory_budget = 0;
  /// To keep the budget, values may also be written to a file of the host and read back.
  bool offload = false;
  /// The node of each device, as in ScheduleOptions. Loops gather values that come from other nodes one round early
  /// (prefetch_in_loops()). nullopt: no loop does.
  std::optional<std::vector<int>> prefetch_nodes = {};

  /// The options in TESSERA_FUSE, TESSERA_LARGEST_VALUE, TESSERA_LARGEST_SCORES, TESSERA_EXCESS_PRECISION,
  /// TESSERA_MEMORY_BUDGET and TESSERA_OFFLOAD_DIR.
  static LoweringOptions from_environment();
  /// The hash of all options.
  [[nodiscard]] std::size_t hash() const;
};

/// The program that one of `ranks` ranks executes. A start without a done stays unchanged.
Program lower(const Program& program, int ranks, const LoweringOptions& options);

// ---- the passes, in the order in which they run ---------------------------------------------------------------------

/// Expands all-reduces and reduce-scatters with a computation that process groups do not support. An exchange of as
/// many bytes replaces the collective, and every member then reduces its part. Applies to all computations.
Program expand_reductions(const Program& program, int world_size);

/// In loops with a known trip count, gathers values one round before they are needed, so that the gathers overlap with
/// computation. Applies to all-gathers between nodes whose operands are selected from values that are known a round
/// earlier, such as the weights of layer i. Exchanges as many bytes as before; two rounds' gathered values are in
/// memory at the same time. `nodes` as in ScheduleOptions. nullopt if there is no such gather.
std::optional<Program> prefetch_in_loops(const Program& program, const std::vector<int>& nodes);

/// Sorts by keys that are computed for all elements, instead of calling a comparator for every pair. Applies to
/// comparators that compare a function of the elements of one side with the same function of the other side, as those
/// of JAX for floats, or several such functions one after the other. Compares integers, and floats in the total order.
/// Applies to all computations.
Program sort_by_keys(const Program& program);

/// Computes the same values with fewer reads and writes of memory. In gradients of slices, a sum of padded parts
/// becomes a concatenation. In gradients of lookups, a scatter into zeros that is added to another value becomes a
/// scatter into that value. The sign of a zero and the order of sums may change. Like all passes below, it rewrites
/// only the entry computation.
Program prepare(const Program& program);

/// Splits a reduction over dims on both sides of a kept dim into two reductions. The first one reduces the inner dims,
/// because fused groups can contain reductions of rows.
Program reduce_rows_first(const Program& program);

/// Computes attention in chunks if its scores have more than `most_bytes`. (Scores are products of queries and keys,
/// over batches and heads.) The chunks consist of batches or heads, or of query rows if the scores of one batch and one
/// head are too large. The backward pass rematerializes the scores (FlashAttention, Dao et al., 2022). nullopt if no
/// scores are that large or none can be divided into chunks.
std::optional<Program> chunk_attention(const Program& program, std::int64_t most_bytes);

/// Computes every product of more than `most_bytes` in chunks along one or two dims, together with the values that are
/// computed from it, so that it never exists as one array. The logits of a vocabulary, with their softmax and gradient,
/// are an example. nullopt if there is no such product, if it is a result of the computation, or if no dim can be
/// divided into chunks.
std::optional<Program> chunk_logits(const Program& program, std::int64_t most_bytes);

/// Rematerializes elementwise values in later fused groups if their operands are in memory in any case. Examples are
/// the intermediate values of a GELU, which its gradient reads.
Program rematerialize_elementwise(const Program& program);

/// Keeps 16-bit floats that are computed and read inside of one fused group in f32 (excess precision), if that saves
/// conversions. nullopt if there is no such value.
std::optional<Program> fused_excess_precision(const Program& program);

/// Computes or gathers values of the forward pass again in the backward pass, so that the program needs at most
/// `most_bytes` (Schedule::peak_bytes). With `offload`, it may also write them to a file and read them back. Chooses
/// the values and the ways with the least modelled cost. If the limit cannot be met, uses as little memory as it finds.
/// Loops and ops with side effects run only once. The results do not change.
Program rematerialize(const Program& program, std::int64_t most_bytes, bool offload = false);

}  // namespace tessera
