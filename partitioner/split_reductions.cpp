// SPDX-License-Identifier: Apache-2.0
#include "split_reductions.h"

#include <algorithm>

#include "factor_sharding.h"
#include "origins.h"
#include "propagate.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// The sharded dims of the arrays when the reduction can be split; else none.
Dims split_dims(const Program& program, const Computation& computation, const Instruction& reduce) {
  if (reduce.op->name != "reduce" || factor_map(view_of(program, computation, reduce)).reduction_known) return {};
  const Instruction& array = computation[reduce.operands.front()];
  const Sharding& sharding = array.sharding->front();
  if (!sharding.is_tiled() || sharding.is_partial() || !sharding.manual.empty()) return {};
  Dims out;
  for (const auto d : attributes_as<DimensionsAttributes>(reduce.attributes).dimensions) {
    const auto tiles = sharding.tiles(static_cast<int>(d));
    if (tiles == 1) continue;
    if (array.type.dim(static_cast<int>(d)) % tiles != 0) return {};
    out.push_back(d);
  }
  std::sort(out.begin(), out.end());
  return out.empty() || !absorbs_its_init(program, computation, reduce) ? Dims{} : out;
}

class Splitter {
 public:
  Splitter(const Program& program, ComputationId id, ProgramBuilder& names)
      : program_(program),
        old_(program[id]),
        builder_(names.computation(old_.name)),
        new_ids_(old_.instructions.size()) {}

  Computation run() {
    for (Id id = 0; id < old_.size(); ++id) {
      Instruction copy = old_[id];
      const Dims dims = split_dims(program_, old_, copy);
      for (Id& operand : copy.operands) operand = at(new_ids_, operand);
      for (Id& before : copy.control_predecessors) before = at(new_ids_, before);
      at(new_ids_, id) = dims.empty() ? builder_.append(std::move(copy)).id : split(std::move(copy), dims);
    }
    return std::move(builder_).finish(builder_.value(at(new_ids_, old_.root)));
  }

 private:
  // The arrays with a dim of tiles before each split dim, where its axes go.
  struct Tiled {
    Dims dims;
    Sharding sharding;
    Dims tiles;  // which dims those are
    Dims inner;  // reduced by each device
    Dims kept;   // of dims: what is left after that
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
        size /= out.dims.back();
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

  Id split(Instruction reduce, const Dims& dims) {
    const auto count = reduce.operands.size() / 2;
    const auto& first = builder_[reduce.operands.front()];
    const Tiled to = tiled(first.type, first.sharding->front(),
                           attributes_as<DimensionsAttributes>(reduce.attributes).dimensions, dims);
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
      const Value array = builder_.value(operands[i]);
      const DType dtype = array.type().dtype();
      const Value cut = ops::reshape(array, to.dims);
      builder_.set_sharding(cut, make_sharding(to.sharding));
      builder_.set_notes(cut, for_another_op(reduce.notes));
      operands[i] = cut.id;
      parts.push_back(Type::array(dtype, part_dims));
    }
    const Type part_type = count == 1 ? parts.front() : Type::tuple(parts);
    const Id local = append(reduce, part_type, operands, make_attributes(DimensionsAttributes{to.inner}),
                            make_shardings(Shardings(count, part)));
    const LeafValues leaves = take_apart(builder_.value(local));
    for (std::size_t i = 0; i < count; ++i) {
      operands[i] = leaves[i].id;
      if (count > 1)
        builder_.set_notes(leaves[i], with_frontend_attribute(for_another_op(reduce.notes), kOriginAttribute, ""));
    }
    return append(reduce, reduce.type, operands, make_attributes(DimensionsAttributes{last}), reduce.sharding);
  }

  const Program& program_;
  const Computation& old_;
  Builder builder_;
  std::vector<Id> new_ids_;
};

}  // namespace

bool absorbs_its_init(const Program& program, const Computation& computation, const Instruction& reduce) {
  std::vector<Literal> inits;
  for (auto i = reduce.operands.size() / 2; i < reduce.operands.size(); ++i) {
    const Instruction& init = computation[at(reduce.operands, i)];
    if (init.op->role != Role::kConstant) return false;
    inits.push_back(attributes_as<ConstantAttributes>(init.attributes).value);
  }
  Program combiner = program;
  combiner.entry = reduce.called.front();
  std::vector<Literal> arguments = inits;
  arguments.insert(arguments.end(), inits.begin(), inits.end());
  return evaluate(combiner, arguments).leaves() == inits;
}

Program split_reductions(const Program& program) {
  ProgramBuilder names("");
  return with_rewritten(
      program,
      [&](const Computation& computation, const Instruction& i) {
        return !split_dims(program, computation, i).empty();
      },
      [&](ComputationId c) { return Splitter(program, c, names).run(); });
}

}  // namespace tessera
