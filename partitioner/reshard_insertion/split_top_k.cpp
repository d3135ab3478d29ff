// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/split_top_k.h"

#include <cmath>
#include <limits>
#include <optional>

#include "propagation/propagate.h"
#include "reshard_insertion/instruction_splitter.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/linear_algebra.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

/// The first k of the last dim, which is sharded into `tiles` tiles.
struct Selection {
  std::int64_t k = 0;
  bool largest = true;
  std::int64_t tiles = 0;
};

std::optional<Selection> split_of(const Program& program, const Computation& computation,
                                  const Instruction& instruction) {
  // Almost all instructions end here.
  if (!instruction.type.is_tuple() || instruction.operands.size() != 1) return std::nullopt;
  const auto top = top_k_of(view_of(program, computation, instruction));
  if (!top || top->k == 0) return std::nullopt;
  const Instruction& array = computation[instruction.operands[0]];
  const Sharding& sharding = array.sharding->front();
  const DType dtype = array.type.dtype();
  if (!sharding.is_tiled() || sharding.is_partial() || !sharding.manual.empty() || is_narrow(dtype))
    return std::nullopt;
  const std::int64_t size = array.type.dims().back();
  const std::int64_t tiles = sharding.tiles(array.type.ndim() - 1);
  if (tiles < 2 || ceil_div(size, tiles) < top->k) return std::nullopt;
  const std::int64_t gathered = top->k * tiles * (dtype_size(dtype) + dtype_size(DType::kS32));
  // Resharding to other dims may cost less than a gather.
  if (2 * gathered > size * dtype_size(dtype)) return std::nullopt;
  return Selection{top->k, top->largest, tiles};
}

// The value that is ordered last; for floats the NaN at that end of their order.
Literal last_of_all(DType dtype, bool largest) {
  return visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float(kDTypeOf<T>)) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      return Literal::scalar<T>(static_cast<T>(largest ? -nan : nan));
    } else {
      return Literal::scalar<T>(largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
    }
  });
}

class TopKSplitter : Splitter {
 public:
  using Splitter::Splitter;
  Computation run() {
    return Splitter::run([&](const Instruction& i) { return split_of(program_, old_, i); },
                         [&](const Instruction& top, const Selection& how) { return split(top, how); });
  }

 private:
  Value marked(Value value, const Instruction& top, const Sharding& sharding) {
    builder_.set_sharding(value, make_sharding(sharding));
    builder_.set_notes(value, for_another_op(top.notes));
    return value;
  }

  // The same selection on another array: its values and positions.
  std::pair<Value, Value> selected(const Instruction& top, Value array, std::int64_t k, const Sharding& sharding) {
    Dims dims = array.type().dims();
    dims.back() = k;
    Instruction made = top;
    made.operands = {array.id};
    made.type = Type::tuple({Type::array(array.type().dtype(), dims), Type::array(DType::kS32, dims)});
    made.sharding = make_shardings({sharding, sharding});
    made.notes = for_another_op(top.notes);
    const Value both = builder_.append(std::move(made));
    return {marked(ops::get_tuple_element(both, 0), top, sharding),
            marked(ops::get_tuple_element(both, 1), top, sharding)};
  }

  Value filled_up(const Instruction& top, const Selection& how) {
    const Value array = builder_.value(top.operands[0]);
    const std::int64_t size = array.type().dims().back();
    const std::int64_t more = ceil_div(size, how.tiles) * how.tiles - size;
    if (more == 0) return array;
    const Sharding sharding = array.instruction().sharding->front();
    const Value last = marked(ops::constant(builder_, last_of_all(array.type().dtype(), how.largest)), top,
                              Sharding::replicated(sharding.mesh, 0));
    std::vector<PaddingDim> padding(static_cast<std::size_t>(array.type().ndim()));
    padding.back().high = more;
    return marked(ops::pad(array, last, padding), top, sharding);
  }

  // places[.., i] = candidates[.., chosen[.., i]]
  Value looked_up(const Instruction& top, Value candidates, Value chosen, const Sharding& sharding) {
    const int last = candidates.type().ndim() - 1;
    Dims rows;
    for (int d = 0; d < last; ++d) rows.push_back(d);
    Dims index_dims = chosen.type().dims();
    index_dims.push_back(1);
    Sharding of_index = sharding;
    of_index.dims.push_back(DimSharding{{}, true, {}});
    const Value index = marked(ops::reshape(chosen, index_dims), top, of_index);
    GatherAttributes attributes;
    attributes.collapsed_slice_dims = {last};
    attributes.start_index_map = {last};
    attributes.operand_batching_dims = rows;
    attributes.start_indices_batching_dims = rows;
    attributes.index_vector_dim = last + 1;
    attributes.slice_sizes = Dims(candidates.type().dims().size(), 1);
    return marked(ops::gather(candidates, index, std::move(attributes)), top, sharding);
  }

  Id split(const Instruction& top, const Selection& how) {
    const Value array = filled_up(top, how);
    const int last = array.type().ndim() - 1;
    Sharding cut = array.instruction().sharding->front();
    for (auto& dim : cut.dims) dim.open = true;
    Sharding whole = cut;
    whole.dims.back().axes.clear();
    cut.dims.push_back(DimSharding{{}, true, {}});
    const std::int64_t length = array.type().dims().back() / how.tiles;
    Dims dims = array.type().dims();
    dims.back() = how.tiles;
    dims.push_back(length);

    const Value parts = marked(ops::reshape(array, dims), top, cut);
    const auto [values, places] = selected(top, parts, how.k, cut);
    dims.back() = how.k;
    const Value part = marked(ops::iota(builder_, Type::array(DType::kS32, dims), last), top, cut);
    const Value size = marked(ops::constant(builder_, Literal::scalar<std::int32_t>(static_cast<std::int32_t>(length))),
                              top, Sharding::replicated(cut.mesh, 0));
    const Value lengths = marked(ops::broadcast(size, dims, {}), top, cut);
    const Value begins = marked(ops::multiply(part, lengths), top, cut);
    const Value absolute = marked(ops::add(places, begins), top, cut);

    Dims flat = array.type().dims();
    flat.back() = how.tiles * how.k;
    const auto [first, chosen] = selected(top, marked(ops::reshape(values, flat), top, whole), how.k, whole);
    const Value found = looked_up(top, marked(ops::reshape(absolute, flat), top, whole), chosen, whole);
    const Value out = ops::tuple(builder_, {first, found});
    builder_.set_sharding(out, top.sharding);
    builder_.set_notes(out, for_another_op(top.notes));
    builder_.set_name(out, top.name);
    return out.id;
  }
};

}  // namespace

Program split_top_k(const Program& program) {
  ProgramBuilder names("");
  return with_rewritten(
      program,
      [&](const Computation& computation, const Instruction& i) {
        return split_of(program, computation, i).has_value();
      },
      [&](ComputationId c) { return TopKSplitter(program, c, names).run(); });
}

}  // namespace tessera
