// SPDX-License-Identifier: Apache-2.0
// Moves a slice before a reverse, so that the reverse moves less data:
//
//   %r = reverse(%x), dimensions={0}        ->   %r = slice(%x), slice={[0:15:2]}        x f32[16]
//   %s = slice(%r), slice={[1:16:2]}             %s = reverse(%r), dimensions={0}
#include <algorithm>

#include "plain.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

const Dims& reversed_dims(const Instruction& reverse) {
  return attributes_as<DimensionsAttributes>(reverse.attributes).dimensions;
}

// If the slice removes little, the shards hardly shrink, and the slice moves tile borders on either side of the
// reverse.
bool takes_less(const Instruction& slice, const Instruction& reverse) {
  const auto taken = slice.type.element_count();
  return taken > 0 && 4 * taken <= 3 * reverse.type.element_count();
}

// Returns the plain, unannotated reverses whose only consumer is a slice.
std::vector<bool> sliced_reverses(const Computation& computation) {
  std::vector<bool> out(computation.instructions.size(), false);
  const auto uses = computation.use_counts();
  for (const Instruction& slice : computation.instructions) {
    if (slice.op != &rows::kSlice || !is_plain(slice)) continue;
    const Id id = slice.operands.front();
    const Instruction& reverse = computation[id];
    out[static_cast<std::size_t>(id)] = reverse.op == &rows::kReverse && is_plain(reverse) && !reverse.sharding &&
                                        at(uses, id) == 1 && takes_less(slice, reverse);
  }
  return out;
}

// Returns the range of the reverse's operand that the slice takes.
SliceRange mirrored(const SliceRange& range, std::int64_t size, std::int64_t count) {
  const auto first = size - 1 - range.start - (count - 1) * range.stride;
  return {.start = first, .limit = size - range.start, .stride = range.stride};
}

// Replaces a slice of a reverse by a reverse of a slice.
Value sliced_first(ComputationRewriter& r, Id id) {
  const Instruction& slice = r.from()[id];
  const Instruction& reverse = r.from()[slice.operands.front()];
  auto ranges = attributes_as<SliceAttributes>(slice.attributes).slice;
  Dims dims;
  for (const auto dim : reversed_dims(reverse)) {
    const auto d = static_cast<int>(dim);
    at(ranges, d) = mirrored(at(ranges, d), reverse.type.dim(d), slice.type.dim(d));
    if (slice.type.dim(d) > 1) dims.push_back(dim);
  }
  Instruction first = r.translated(id);  // its operand is now that of the reverse
  first.attributes = make_attributes(SliceAttributes{std::move(ranges)});
  if (dims.empty()) return r.builder().append(std::move(first));
  first.name = reverse.name;
  first.notes = for_another_op(reverse.notes);
  first.sharding = nullptr;
  Instruction then = slice;
  then.op = &rows::kReverse;
  then.operands = {r.builder().append(std::move(first)).id};
  then.attributes = make_attributes(DimensionsAttributes{std::move(dims)});
  then.notes = for_another_op(slice.notes);
  return r.builder().append(std::move(then));
}

}  // namespace

Program slice_first(const Program& program) {
  const auto touches = [](const Computation& computation) {
    const auto found = sliced_reverses(computation);
    return std::find(found.begin(), found.end(), true) != found.end();
  };
  const auto rule = [](ComputationRewriter& r) {
    const Computation& from = r.from();
    const auto found = sliced_reverses(from);
    for (Id id = 0; id < from.size(); ++id) {
      const Instruction& instruction = from[id];
      if (instruction.op->role == Role::kParameter) continue;
      if (at(found, id))
        r.replace(id, r.mapped(instruction.operands.front()));
      else if (instruction.op == &rows::kSlice && at(found, instruction.operands.front()))
        r.replace(id, sliced_first(r, id));
      else
        r.keep(id);
    }
  };
  return rewrite_computations(program, rule, touches);
}

}  // namespace tessera
