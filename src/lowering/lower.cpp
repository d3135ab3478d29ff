// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/passes/passes.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

bool needs_less_memory(const Program& one, const Program& other) {
  return make_schedule(one)->arena_bytes < make_schedule(other)->arena_bytes;
}

Program with_chunked_logits(Program program, const LoweringOptions& options) {
  if (options.largest_value > 0)
    if (auto chunked = chunk_logits(program, options.largest_value))
      if (needs_less_memory(*chunked, program)) program = *std::move(chunked);
  program = rematerialize_elementwise(program);
  if (options.excess_precision)
    if (auto widened = fused_excess_precision(program)) program = rematerialize_elementwise(*widened);
  return program;
}

// Chunked attention costs time, so it is used only if it reduces the planned memory.
Program with_chunked_attention(const Program& program, const LoweringOptions& options) {
  const auto chunked = options.largest_scores > 0 ? chunk_attention(program, options.largest_scores) : std::nullopt;
  Program without = with_chunked_logits(program, options);
  if (!chunked) return without;
  Program with = with_chunked_logits(*chunked, options);
  return needs_less_memory(with, without) ? with : without;
}

bool calls_computations(const Program& program) {
  return std::any_of(program.computations.begin(), program.computations.end(), [](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(), [](const Instruction& i) {
      return i.op->role == Role::kCall || i.op->role == Role::kWhile || i.op->role == Role::kConditional;
    });
  });
}

// The partitioner has simplified a partitioned program. In a program for one device, calls hide the values that loops
// and branches do not need.
Program with_simple_control_flow(const Program& program) {
  if (program.partitioned || !calls_computations(program)) return program;
  // Then simplifies again, because bodies now compute constants of the state and may need only a slice of them.
  return simplify(simplify_loops(simplify_branches(simplify(inline_calls(program)))));
}

}  // namespace

LoweringOptions LoweringOptions::from_environment() {
  const Options& given = tessera::options();
  const std::string& budget = given.text("TESSERA_MEMORY_BUDGET");
  return {.rewrite = given.flag("TESSERA_FUSE"),
          .largest_value = given.integer("TESSERA_LARGEST_VALUE"),
          .largest_scores = given.integer("TESSERA_LARGEST_SCORES"),
          .excess_precision = given.flag("TESSERA_EXCESS_PRECISION"),
          .memory_budget = budget.empty() ? 0 : parse_bytes(budget, "TESSERA_MEMORY_BUDGET"),
          .offload = !given.text("TESSERA_OFFLOAD_DIR").empty()};
}

std::size_t LoweringOptions::hash() const {
  std::size_t out = hash_mix(rewrite ? 1U : 0U, excess_precision ? 1U : 0U);
  out = hash_mix(out, static_cast<std::size_t>(largest_value));
  out = hash_mix(out, static_cast<std::size_t>(memory_budget));
  out = hash_mix(out, (prefetch_nodes ? 1U : 0U) + (offload ? 2U : 0U));
  return hash_mix(out, static_cast<std::size_t>(largest_scores));
}

Program lower(const Program& program, int ranks, const LoweringOptions& options) {
  if (program.lowered) return program;
  Program out = expand_reductions(with_groups_of_devices(make_synchronous(with_simple_control_flow(program))), ranks);
  if (options.prefetch_nodes)
    if (auto ahead = prefetch_in_loops(out, *options.prefetch_nodes)) out = *std::move(ahead);
  if (options.rewrite) out = with_chunked_attention(reduce_rows_first(prepare(sort_by_keys(out))), options);
  if (options.memory_budget > 0) out = rematerialize(out, options.memory_budget, options.offload);
  out.lowered = true;
  verify(out, "invalid program after lowering");
  return out;
}

}  // namespace tessera
