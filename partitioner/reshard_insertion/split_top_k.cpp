// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/split_top_k.h"

#include <algorithm>
#include <array>
#include <bit>
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
  const std::int64_t bytes = dtype_size(dtype);
  if (!split_receives_less(array.type, sharding, array.type.ndim() - 1, top->k, bytes, bytes + dtype_size(DType::kS32)))
    return std::nullopt;
  return Selection{top->k, top->largest, tiles};
}

class TopKSplitter : Splitter {
 public:
  using Splitter::Splitter;
  Computation run() {
    return Splitter::run([&](Id id) { return split_of(program_, old_, old_[id]); },
                         [&](const Instruction& top, const Selection& how) { return split(top, how); });
  }

 private:
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
    const Value last = marked(ops::constant(builder_, last_in_order(array.type().dtype(), how.largest)), top,
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
    const std::int64_t length = array.type().dims().back() / how.tiles;
    auto [dims, tiled] = tiled_dim(array.type(), array.instruction().sharding->front(), last, how.tiles);
    Sharding gathered = tiled;
    gathered.dims.pop_back();
    gathered.dims.back().axes.clear();

    const Value parts = marked(ops::reshape(array, dims), top, tiled);
    const auto [values, places] = selected(top, parts, how.k, tiled);
    dims.back() = how.k;
    const Value part = marked(ops::iota(builder_, Type::array(DType::kS32, dims), last), top, tiled);
    const Value size = marked(ops::constant(builder_, Literal::scalar<std::int32_t>(static_cast<std::int32_t>(length))),
                              top, Sharding::replicated(tiled.mesh, 0));
    const Value lengths = marked(ops::broadcast(size, dims, {}), top, tiled);
    const Value begins = marked(ops::multiply(part, lengths), top, tiled);
    const Value absolute = marked(ops::add(places, begins), top, tiled);

    Dims flat = array.type().dims();
    flat.back() = how.tiles * how.k;
    const auto [first, chosen] = selected(top, marked(ops::reshape(values, flat), top, gathered), how.k, gathered);
    const Value found = looked_up(top, marked(ops::reshape(absolute, flat), top, gathered), chosen, gathered);
    const Value out = ops::tuple(builder_, {first, found});
    builder_.set_sharding(out, top.sharding);
    builder_.set_notes(out, for_another_op(top.notes));
    builder_.set_name(out, top.name);
    return out.id;
  }
};

}  // namespace

bool split_receives_less(const Type& array, const Sharding& sharding, int dim, std::int64_t k,
                         std::int64_t operand_bytes, std::int64_t result_bytes) {
  const std::int64_t tiles = sharding.tiles(dim);
  const std::int64_t others = (tiles - 1) * ceil_div(array.dim(dim), tiles);  // elements of a line on other devices
  std::int64_t lines = 1;                                                     // on a device
  for (int d = 0; d < array.ndim(); ++d)
    if (d != dim) lines *= ceil_div(array.dim(d), sharding.tiles(d));
  std::int64_t least = lines * others * operand_bytes;  // a gather of the dim
  for (int d = 0; d < array.ndim(); ++d) {
    const std::int64_t size = ceil_div(array.dim(d), sharding.tiles(d));
    if (d == dim || size < 2) continue;
    const std::int64_t moved = lines / size * ceil_div(size, tiles);  // lines that the device has after an all-to-all
    least = std::min(least, moved * others * (operand_bytes + result_bytes));
  }
  return lines * (tiles - 1) * k * result_bytes < least;
}

Literal last_in_order(DType dtype, bool descending) {
  return visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float(kDTypeOf<T>)) {
      std::array<unsigned char, sizeof(T)> bits{};
      bits.fill(0xff);  // of all NaNs, the one at the end of the order
      if (!descending) bits.back() = 0x7f;
      return Literal::scalar<T>(std::bit_cast<T>(bits));
    } else {
      return Literal::scalar<T>(descending ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
    }
  });
}

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
