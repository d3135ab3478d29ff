// SPDX-License-Identifier: Apache-2.0
// Divides a gather among the dots that read it, or a scatter into the dot that produces its operand. The result is a
// chain of g steps, one per member of the group. Every step except the first hides a permute along the group's ring.
// Member p starts with its own shard and has the shard of member p-t after t permutes:
//
//   %g = all-gather(%x)        ->  x1 = permute(%x);  out = update(0, dot(%x, %w), at p)
//   %d = dot(%g, %w)               x2 = permute(x1);  out = update(out, dot(x1, %w), at p-1)   (or add)
//
//   %d = dot(%a, %w)           ->  s = dot(slice(%a, at p-1), %w)
//   %s = reduce-scatter(%d)        s = permute(s) + dot(slice(%a, at p-2), %w); …              ends with the own slice
//
// A dot can be in one chain only: of two collectives next to it, the one with the larger gain becomes a chain.
#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "collective_passes/collective_match.h"
#include "collective_passes/collective_matmul.h"
#include "localize/device_numbers.h"
#include "localize/emit_reshard.h"
#include "localize/localize.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/explanations.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// Writes the chains of one computation.
class Emitter {
 public:
  Emitter(ComputationRewriter& r, const Program& program, const std::vector<Chain>& chains, std::int64_t& next_channel)
      : r_(r), b_(r.builder()), program_(program), chains_(chains), next_channel_(next_channel) {}

  void run() {
    std::vector<bool> is_replaced(r_.from().instructions.size(), false);
    std::unordered_map<Id, const Chain*> places;
    for (const Chain& chain : chains_) {
      places[chain.gathers ? chain.dots.front().id : chain.collective] = &chain;
      for (const Id id : chain.replaced) is_replaced[static_cast<std::size_t>(id)] = true;
    }
    for (Id id = 0; id < r_.from().size(); ++id) {
      if (!at(is_replaced, id)) r_.keep(id);
      const auto place = places.find(id);
      if (place == places.end()) continue;
      if (place->second->gathers)
        gather(*place->second);
      else
        scatter(*place->second);
    }
  }

 private:
  void gather(const Chain& chain) {
    Value held = r_.mapped(r_.from()[chain.collective].operands[0]);
    const Value own = position(chain);
    const auto sums = [](const ChainDot& dot) { return dot.dim.at(kResult) < 0; };
    if (chain.is_uneven() && std::any_of(chain.dots.begin(), chain.dots.end(), sums))
      held = without_padding(held, chain, own);
    std::vector<Value> out(chain.dots.size());
    for (std::int64_t step = 0; step < chain.size(); ++step) {
      const Value next = step + 1 < chain.size() ? hop(held, chain) : Value{};
      const Value start = start_of(chain, own, step);
      for (std::size_t k = 0; k < out.size(); ++k) out[k] = joined(chain, chain.dots[k], out[k], held, start);
      held = next;
    }
    for (std::size_t k = 0; k < out.size(); ++k) {
      const ChainDot& dot = chain.dots[k];
      Value result = out[k];
      if (const int d = dot.dim.at(kResult); d >= 0) result = reshard::trim_to(result, d, chain.length);
      const DType dtype = r_.from()[dot.id].type.dtype();
      if (result.type().dtype() != dtype) result = ops::convert(result, dtype);
      finish(dot.id, result);
    }
  }

  void scatter(const Chain& chain) {
    const Value own = position(chain);
    Value sum{};
    for (std::int64_t step = 0; step < chain.size(); ++step) {
      const Value arrived = step > 0 ? hop(sum, chain) : Value{};
      const Value part = part_of(chain, chain.dots.front(), {}, start_of(chain, own, step + 1));
      sum = step > 0 ? ops::add(arrived, part) : part;
    }
    if (chain.is_uneven()) sum = without_padding(sum, chain, own);
    finish(chain.collective, sum);
  }

  // Replaces an old value.
  void finish(Id old, Value now) {
    const Instruction& was = r_.from()[old];
    b_.set_name(now, was.name);
    b_.set_sharding(now, was.sharding);
    const auto* dims = was.frontend_attribute(kGlobalDimsAttribute);
    if (was.op->role != Role::kCollective)
      b_.set_notes(now, was.notes);
    else if (dims != nullptr)
      b_.set_notes(now, with_frontend_attribute(nullptr, kGlobalDimsAttribute, *dims));
    r_.replace(old, now);
  }

  Value known(std::int64_t value) {
    const auto [entry, is_new] = numbers_.try_emplace(value);
    if (is_new) entry->second = number(b_, value);
    return entry->second;
  }
  // This device's position in its group.
  Value position(const Chain& chain) {
    DeviceColumn column(static_cast<std::size_t>(program_.num_partitions));
    for (const auto& group : chain.groups)
      for (std::int64_t k = 0; k < isize(group); ++k) at(column, at(group, k)) = k;
    const auto& meshes = program_.meshes;
    const bool has_mesh = !meshes.empty() && meshes.front().device_count() == program_.num_partitions;
    return emit_by_device(b_, has_mesh ? meshes.front() : Mesh({{"devices", program_.num_partitions}}), column);
  }
  // The start of the tile of the member `distance` positions before this device's own.
  Value start_of(const Chain& chain, Value own, std::int64_t distance) {
    const auto size = chain.size();
    if (distance % size != 0) own = ops::remainder(ops::add(own, known(size - distance % size)), known(size));
    return chain.tile == 1 ? own : ops::multiply(own, known(chain.tile));
  }
  std::vector<Value> starts(int ndim, int dim, Value start) {
    std::vector<Value> out(static_cast<std::size_t>(ndim), known(0));
    at(out, dim) = start;
    return out;
  }
  // Replaces the padding of this device's tile by zeros.
  Value without_padding(Value x, const Chain& chain, Value own) {
    const Dims sizes = x.type().dims();
    const Value left = ops::subtract(known(chain.length), start_of(chain, own, 0));
    const Value index = ops::iota(b_, Type::array(DType::kS32, sizes), chain.dim);
    const Value inside = ops::compare(index, ops::splat(left, sizes), CompareDirection::kLt);
    return ops::select(inside, x, zeros(x.type().dtype(), sizes));
  }
  Value zeros(DType dtype, const Dims& sizes) {
    return ops::splat(ops::constant(b_, Literal(Type::scalar(dtype))), sizes);
  }

  // The result so far, with one more part written or added to it.
  Value joined(const Chain& chain, const ChainDot& dot, Value accumulated, Value held, Value start) {
    const Value part = part_of(chain, dot, held, start);
    const int d = dot.dim.at(kResult);
    if (d < 0) return accumulated.is_null() ? part : ops::add(accumulated, part);
    Dims sizes = part.type().dims();
    at(sizes, d) = chain.tile * chain.size();
    if (accumulated.is_null()) accumulated = zeros(part.type().dtype(), sizes);
    return ops::dynamic_update_slice(accumulated, part, starts(isize(sizes), d, start));
  }

  // The dot of one tile, which is sliced at `start` if necessary. Narrow floats are summed in f32, as a single dot
  // does.
  Value part_of(const Chain& chain, const ChainDot& dot, Value held, Value start) {
    Instruction part = r_.from()[dot.id];
    for (int side = 0; side < 2; ++side) {
      const int d = dot.dim.at(static_cast<std::size_t>(side));
      Value operand = side == dot.moving ? held : r_.mapped(at(part.operands, side));
      if (side != dot.moving && d >= 0) operand = tile_of(chain, operand, d, start);
      at(part.operands, side) = operand.id;
    }
    DType dtype = part.type.dtype();
    Dims sizes = part.type.dims();
    if (const int d = dot.dim.at(kResult); d >= 0)
      at(sizes, d) = chain.tile;
    else if (is_float(dtype) && dtype != DType::kF64)
      dtype = DType::kF32;
    part.type = Type::array(dtype, sizes);
    part.sharding = nullptr;
    part.notes = with_frontend_attribute(part.notes, kGlobalDimsAttribute, std::nullopt);
    part.name = fmt::format("{}.part", part.name);
    return b_.append(std::move(part));
  }
  Value tile_of(const Chain& chain, Value x, int dim, Value start) {
    const std::int64_t length = chain.tile * chain.size();
    const auto [padded, is_new] = padded_.try_emplace({x.id, dim, length});
    if (is_new) padded->second = reshard::pad_to(x, dim, length);
    x = padded->second;
    Dims sizes = x.type().dims();
    at(sizes, dim) = chain.tile;
    return ops::dynamic_slice(x, starts(isize(sizes), dim, start), sizes);
  }

  // Sends the value to the next member of the ring. Permutes of different chains are never combined, because each
  // overlaps with its own dot.
  Value hop(Value x, const Chain& chain) {
    const Instruction& collective = r_.from()[chain.collective];
    const std::string dot = r_.from()[chain.dots.front().id].name;
    const Value out = reshard::emit_ring_permute(x, chain.groups, next_channel_++);
    const std::string why = explanation(collective, kReasonAttribute, 0);
    NotesRef notes = with_frontend_attribute(collective.notes, kGlobalDimsAttribute, std::nullopt);
    notes = with_frontend_attribute(notes, "tessera.overlaps", dot);
    notes = with_frontend_attribute(notes, kReasonAttribute,
                                    fmt::format("collective matmul: a part of %{}, which overlaps with the dot %{}{}{}",
                                                collective.name, dot, why.empty() ? "" : ": ", why));
    b_.set_notes(out, notes);
    b_.set_name(out, fmt::format("{}.hop", collective.name));
    return out;
  }

  ComputationRewriter& r_;
  Builder& b_;
  const Program& program_;
  const std::vector<Chain>& chains_;
  std::int64_t& next_channel_;
  std::map<std::int64_t, Value> numbers_;
  std::map<std::tuple<Id, int, std::int64_t>, Value> padded_;
};

}  // namespace

Program collective_matmul(const Program& program, const MachineModel& machine) {
  if (machine.links().is_uniform()) return program;
  std::unordered_map<const Computation*, std::vector<Chain>> found;
  for (const ComputationRef& computation : program.computations)
    if (auto chains = find_chains(program, *computation, machine); !chains.empty())
      found.emplace(computation.get(), std::move(chains));
  if (found.empty()) return program;
  std::int64_t next_channel = free_channel(program);
  Program out = rewrite_computations(
      program,
      [&](ComputationRewriter& r) {
        const auto chains = found.find(&r.from());
        if (chains != found.end()) return Emitter(r, program, chains->second, next_channel).run();
        for (Id id = 0; id < r.from().size(); ++id) r.keep(id);
      },
      [&](const Computation& computation) { return found.contains(&computation); });
  return remove_dead_code(out);
}

}  // namespace tessera
