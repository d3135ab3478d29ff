// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/split_reductions.h"

#include <algorithm>
#include <optional>

#include "normalize/duplicate_cheap_values.h"
#include "pipeline/origins.h"
#include "propagation/factor_sharding.h"
#include "propagation/propagate.h"
#include "reshard_insertion/instruction_splitter.h"
#include "tessera/base/text.h"
#include "tessera/ops/commutes.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elided_constants.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// The init values, if all are constants and the combiner can be evaluated, which requires that it has no elided
// constants.
std::optional<std::vector<Literal>> constant_inits(const Program& program, const Computation& computation,
                                                   const Instruction& reduce) {
  if (has_elided_constants(program, reduce.called.front())) return std::nullopt;
  std::vector<Literal> out;
  for (auto i = reduce.operands.size() / 2; i < reduce.operands.size(); ++i) {
    const Literal* init = known_constant(computation[at(reduce.operands, i)]);
    if (init == nullptr) return std::nullopt;
    out.push_back(*init);
  }
  return out;
}

std::vector<Literal> combined(const Program& program, const Instruction& reduce, std::vector<Literal> a,
                              const std::vector<Literal>& b) {
  Program combiner = program;
  combiner.entry = reduce.called.front();
  a.insert(a.end(), b.begin(), b.end());
  return evaluate(combiner, a).leaves();
}

// Whether init values after other elements change nothing either: f(f(init, x), init) = f(init, f(init, x)) = f(f(init,
// init), x) = f(init, x). This function proves the first step. The second follows from the associativity of f, which
// HLO requires of reductions, and the last is absorbs_its_init().
bool ends_with_its_init(const Program& program, const Computation& computation, const Instruction& reduce) {
  const auto inits = constant_inits(program, computation, reduce);
  return inits && commutes_with_init(program[reduce.called.front()], *inits);
}

// An xor of the two parameters: 0 is its identity, whatever the init is.
bool is_xor(const Computation& function) {
  const Instruction& root = function[function.root];
  if (root.op != &rows::kXor || function.parameters.size() != 2) return false;
  const bool takes_both = root.operands == function.parameters ||
                          root.operands == std::vector<Id>(function.parameters.rbegin(), function.parameters.rend());
  return takes_both && root.type.is_array() && root.type.ndim() == 0;
}

// Whether the partial results, one per device and array, have no more elements than the shards of the arrays that must
// be communicated; fewer, if uneven parts need padding.
bool leaves_less(const Computation& computation, const Instruction& reduce, const Dims& split, bool is_even) {
  const auto count = isize(reduce.operands) / 2;
  if (count == 1) return true;  // in the worst case, the group reduces the elements that it would have gathered
  const Instruction& array = computation[reduce.operands.front()];
  std::int64_t held = 1;
  for (const auto dim : split) {
    const auto d = static_cast<int>(dim);
    held *= ceil_div(array.type.dim(d), array.sharding->front().tiles(d));
  }
  std::int64_t moved = 0;
  for (int i = 0; i < count; ++i)
    if (!is_rematerializable(computation, computation[at(reduce.operands, i)])) ++moved;
  return is_even ? moved * held >= count : moved * held > count;
}

// The sharded dims of the arrays if the reduction can be split; else empty.
Dims split_dims(const Program& program, const Computation& computation, const Instruction& reduce) {
  if (reduce.op != &rows::kReduce || factor_map(view_of(program, computation, reduce)).reduction_known) return {};
  if (!may_reassociate(program[reduce.called.front()])) return {};
  const Instruction& array = computation[reduce.operands.front()];
  const Sharding& sharding = array.sharding->front();
  if (!sharding.is_tiled() || sharding.is_partial() || !sharding.manual.empty()) return {};
  Dims out;
  bool is_even = true;
  for (const auto dim : attributes_as<DimensionsAttributes>(reduce.attributes).dimensions) {
    const auto d = static_cast<int>(dim);
    if (sharding.tiles(d) == 1) continue;
    is_even = is_even && array.type.dim(d) % sharding.tiles(d) == 0;
    out.push_back(dim);
  }
  std::sort(out.begin(), out.end());
  if (!out.empty() && !leaves_less(computation, reduce, out, is_even)) return {};
  if (out.empty() || is_xor(program[reduce.called.front()])) return out;
  const bool can =
      absorbs_its_init(program, computation, reduce) && (is_even || ends_with_its_init(program, computation, reduce));
  return can ? out : Dims{};
}

class ReductionSplitter : Splitter {
 public:
  using Splitter::Splitter;
  Computation run() {
    const auto plan = [&](Id id) {
      Dims dims = split_dims(program_, old_, old_[id]);
      return dims.empty() ? std::nullopt : std::optional(std::move(dims));
    };
    return Splitter::run(plan, [&](Instruction reduce, const Dims& dims) { return split(std::move(reduce), dims); });
  }

 private:
  // The arrays with an additional dim of tiles before each split dim. This dim gets its axes.
  struct Tiled {
    Dims dims;
    Sharding sharding;
    Dims tiles;  // the additional dims
    Dims inner;  // reduced by each device
    Dims kept;   // the dims that remain after that
  };

  static Tiled tiled(const Type& array, const Sharding& sharding, const Dims& reduced, const Dims& split) {
    Tiled out{{}, sharding, {}, {}, {}};
    out.sharding.dims.clear();
    const auto has = [](const Dims& dims, int d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); };
    for (int d = 0; d < array.ndim(); ++d) {
      std::int64_t size = array.dim(d);
      DimSharding axes = at(sharding.dims, d);
      axes.open = true;
      if (has(split, d)) {
        out.tiles.push_back(isize(out.dims));
        out.kept.push_back(isize(out.dims));
        out.dims.push_back(sharding.tiles(d));
        out.sharding.dims.push_back(std::exchange(axes, {{}, true, {}}));
        size = ceil_div(size, out.dims.back());
      }
      (has(reduced, d) ? out.inner : out.kept).push_back(isize(out.dims));
      out.dims.push_back(size);
      out.sharding.dims.push_back(axes);
    }
    return out;
  }

  Id append(const Instruction& like, Type type, std::vector<Id> operands, Attributes attributes, ShardingRef sharding) {
    Instruction made = like;
    made.type = std::move(type);
    made.operands = std::move(operands);
    made.attributes = std::move(attributes);
    made.sharding = std::move(sharding);
    return builder_.append(std::move(made)).id;
  }

  // The init value of each device's reduction.
  Value neutral_init(const Instruction& reduce, std::size_t operand, DType dtype) {
    const Value init = builder_.value(at(reduce.operands, operand));
    if (absorbs_its_init(program_, builder_.computation(), reduce)) return init;
    const Value zero = ops::constant(builder_, scalar_of(dtype, 0));
    builder_.set_sharding(zero, init.instruction().sharding);
    return zero;
  }

  // Pads shards to equal sizes with the neutral value.
  Value evened(Value array, Value neutral, const Sharding& sharding, const Dims& dims, const NotesRef& notes) {
    std::vector<PaddingDim> padding(static_cast<std::size_t>(array.type().ndim()));
    bool is_even = true;
    for (const auto dim : dims) {
      const auto d = static_cast<int>(dim);
      const auto tiles = sharding.tiles(d);
      at(padding, d).high = ceil_div(array.type().dim(d), tiles) * tiles - array.type().dim(d);
      is_even = is_even && at(padding, d).high == 0;
    }
    if (is_even) return array;
    const Value out = ops::pad(array, neutral, std::move(padding));
    builder_.set_sharding(out, make_sharding(sharding));
    builder_.set_notes(out, for_another_op(notes));
    return out;
  }

  Id split(Instruction reduce, const Dims& dims) {
    const auto count = reduce.operands.size() / 2;
    const Type first = builder_.value(reduce.operands.front()).type();
    const Sharding given = builder_[reduce.operands.front()].sharding->front();
    const Tiled to = tiled(first, given, attributes_as<DimensionsAttributes>(reduce.attributes).dimensions, dims);
    Dims part_dims;
    Sharding part = to.sharding;
    part.dims.clear();
    Dims last;
    for (const auto d : to.kept) {
      if (std::find(to.tiles.begin(), to.tiles.end(), d) != to.tiles.end()) last.push_back(isize(part_dims));
      part_dims.push_back(at(to.dims, d));
      part.dims.push_back(at(to.sharding.dims, d));
    }
    std::vector<Id> operands(reduce.operands);
    std::vector<Type> parts;
    for (std::size_t i = 0; i < count; ++i) {
      const DType dtype = builder_.value(operands[i]).type().dtype();
      operands[count + i] = neutral_init(reduce, count + i, dtype).id;
      const Value array =
          evened(builder_.value(operands[i]), builder_.value(operands[count + i]), given, dims, reduce.notes);
      operands[i] = marked(ops::reshape(array, to.dims), reduce, to.sharding).id;
      parts.push_back(Type::array(dtype, part_dims));
    }
    const Type part_type = count == 1 ? parts.front() : Type::tuple(parts);
    const Id local = append(reduce, part_type, operands, make_attributes(DimensionsAttributes{to.inner}),
                            make_shardings(Shardings(count, part)));
    const LeafValues leaves = take_apart(builder_.value(local));
    for (std::size_t i = 0; i < count; ++i) {
      operands[i] = leaves[i].id;
      operands[count + i] = reduce.operands[count + i];
      if (count > 1)
        builder_.set_notes(leaves[i], with_frontend_attribute(for_another_op(reduce.notes), kOriginAttribute, ""));
    }
    return append(reduce, reduce.type, operands, make_attributes(DimensionsAttributes{last}), reduce.sharding);
  }
};

}  // namespace

bool absorbs_its_init(const Program& program, const Computation& computation, const Instruction& reduce) {
  const auto inits = constant_inits(program, computation, reduce);
  return inits && combined(program, reduce, *inits, *inits) == *inits;
}

Program split_reductions(const Program& program) {
  ProgramBuilder names("");
  return with_rewritten(
      program,
      [&](const Computation& computation, const Instruction& i) {
        return !split_dims(program, computation, i).empty();
      },
      [&](ComputationId c) { return ReductionSplitter(program, c, names).run(); });
}

}  // namespace tessera
