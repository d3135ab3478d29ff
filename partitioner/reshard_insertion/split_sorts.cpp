// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/split_sorts.h"

#include <algorithm>
#include <optional>

#include "propagation/propagate.h"
#include "reshard_insertion/instruction_splitter.h"
#include "reshard_insertion/split_top_k.h"
#include "tessera/base/text.h"
#include "tessera/ir/op_def.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

/// The first k elements along a sharded dim.
struct Prefix {
  int dim = 0;
  std::int64_t k = 0;
  std::int64_t tiles = 0;
  Sharding sharding;                // of the operands
  std::optional<SortOrder> padded;  // the order in which the padding of an uneven dim is last
};

using Readers = std::vector<std::vector<Id>>;

Readers readers_of(const Computation& computation) {
  Readers out(computation.instructions.size());
  for (Id id = 0; id < computation.size(); ++id)
    for (const Id operand : computation[id].operands) at(out, operand).push_back(id);
  return out;
}

// The number of first elements along the dim that are read; nullopt if others than slices read the value.
std::optional<std::int64_t> elements_read(const Computation& computation, const Readers& readers, Id value, int dim) {
  if (value == computation.root) return std::nullopt;
  std::int64_t out = 0;
  for (const Id reader : at(readers, value)) {
    const Instruction& instruction = computation[reader];
    std::optional<std::int64_t> limit;
    if (instruction.op == &rows::kSlice)
      limit = at(attributes_as<SliceAttributes>(instruction.attributes).slice, dim).limit;
    else if (instruction.op->role == Role::kGetTupleElement)
      limit = elements_read(computation, readers, reader, dim);
    if (!limit) return std::nullopt;
    out = std::max(out, *limit);
  }
  return out;
}

// The order, if sort() orders every element before the padding or equal to it.
std::optional<SortOrder> order_with_padding(const OpView& view) {
  const auto order = sort_order(view);
  if (!order) return std::nullopt;
  const DType dtype = at(view.operands, order->operand).dtype();
  const bool is_strict = order->direction == CompareDirection::kLt || order->direction == CompareDirection::kGt;
  const CompareType expected = is_float(dtype) ? CompareType::kTotalOrder : CompareType::kDefault;
  return is_strict && order->type == expected && !is_narrow(dtype) && !is_complex(dtype) ? order : std::nullopt;
}

std::optional<Prefix> prefix_of(const Program& program, const Computation& computation, const Readers& readers, Id id) {
  const Instruction& sort = computation[id];
  if (sort.op != &rows::kSort) return std::nullopt;
  Prefix out;
  out.dim = static_cast<int>(attributes_as<SortAttributes>(sort.attributes).dimensions.front());
  std::int64_t element_bytes = 0;
  std::int64_t sharded_bytes = 0;  // of an element of the operands whose dim is sharded
  for (const Id operand : sort.operands) {
    const Sharding& sharding = computation[operand].sharding->front();
    if (sharding.is_partial() || !sharding.manual.empty()) return std::nullopt;
    const std::int64_t bytes = dtype_size(computation[operand].type.dtype());
    element_bytes += bytes;
    const std::int64_t tiles = sharding.is_tiled() ? sharding.tiles(out.dim) : 1;
    if (tiles < 2) continue;
    sharded_bytes += bytes;
    if (tiles > out.tiles) out.sharding = sharding;
    out.tiles = std::max(out.tiles, tiles);
  }
  if (out.tiles < 2) return std::nullopt;
  const auto read = elements_read(computation, readers, id, out.dim);
  const std::int64_t size = computation[sort.operands.front()].type.dim(out.dim);
  if (!read || *read == 0 || *read > ceil_div(size, out.tiles)) return std::nullopt;
  out.k = *read;
  if (!split_receives_less(computation[sort.operands.front()].type, out.sharding, out.dim, out.k, sharded_bytes,
                           element_bytes))
    return std::nullopt;
  if (size % out.tiles != 0) {
    out.padded = order_with_padding(view_of(program, computation, sort));
    if (!out.padded) return std::nullopt;
  }
  return out;
}

class SortSplitter : Splitter {
 public:
  using Splitter::Splitter;
  Computation run() {
    const Readers readers = readers_of(old_);
    std::vector<std::optional<Prefix>> prefixes(old_.instructions.size());
    const auto plan = [&](Id id) {
      auto& own = at(prefixes, id);
      own = old_[id].op->role == Role::kGetTupleElement ? at(prefixes, old_[id].operands[0])
                                                        : prefix_of(program_, old_, readers, id);
      return own;
    };
    return Splitter::run(plan, [&](Instruction instruction, const Prefix& how) {
      return instruction.op == &rows::kSort ? split(instruction, how) : element(std::move(instruction), how);
    });
  }

 private:
  static Sharding gathered(const Prefix& how) {
    Sharding out = how.sharding;
    for (DimSharding& dim : out.dims) dim.open = true;
    at(out.dims, how.dim).axes.clear();
    return out;
  }

  // An element of the shorter results.
  Id element(Instruction get, const Prefix& how) {
    const Type& tuple = builder_[get.operands[0]].type;
    get.type = at(tuple.elements(), attributes_as<IndexAttributes>(get.attributes).index);
    get.sharding = make_sharding(gathered(how));
    return builder_.append(std::move(get)).id;
  }

  Value filled_up(const Instruction& sort, int operand, const Prefix& how) {
    const Value array = builder_.value(at(sort.operands, operand));
    const std::int64_t size = array.type().dim(how.dim);
    const std::int64_t more = ceil_div(size, how.tiles) * how.tiles - size;
    if (more == 0) return array;
    const DType dtype = array.type().dtype();
    const Literal last = how.padded->operand == operand
                             ? last_in_order(dtype, how.padded->direction == CompareDirection::kGt)
                             : Literal(Type::scalar(dtype));
    std::vector<PaddingDim> padding(static_cast<std::size_t>(array.type().ndim()));
    at(padding, how.dim).high = more;
    const Value value = marked(ops::constant(builder_, last), sort, Sharding::replicated(how.sharding.mesh, 0));
    return marked(ops::pad(array, value, padding), sort, how.sharding);
  }

  // The same sort of other arrays along another dim.
  Value sorted(const Instruction& sort, const std::vector<Value>& arrays, int dim, const Sharding& sharding) {
    SortAttributes attributes = attributes_as<SortAttributes>(sort.attributes);
    attributes.dimensions = {dim};
    Instruction made = sort;
    made.attributes = make_attributes(std::move(attributes));
    made.operands.clear();
    std::vector<Type> types;
    for (const Value& array : arrays) {
      made.operands.push_back(array.id);
      types.push_back(array.type());
    }
    made.type = sort.type.is_tuple() ? Type::tuple(types) : types.front();
    made.sharding = make_shardings(Shardings(types.size(), sharding));
    made.notes = for_another_op(sort.notes);
    return builder_.append(std::move(made));
  }

  Id split(Instruction sort, const Prefix& how) {
    std::vector<Value> parts;
    TiledDim tiled;
    for (int i = 0; i < isize(sort.operands); ++i) {
      const Value array = filled_up(sort, i, how);
      tiled = tiled_dim(array.type(), how.sharding, how.dim, how.tiles);
      parts.push_back(marked(ops::reshape(array, tiled.dims), sort, tiled.sharding));
    }
    const std::string name = std::move(sort.name);
    sort.name.clear();
    const Value within = sorted(sort, parts, how.dim + 1, tiled.sharding);
    Dims flat = parts.front().type().dims();
    flat.erase(flat.begin() + how.dim + 1);
    at(flat, how.dim) = how.tiles * how.k;
    std::vector<Value> firsts;
    for (int i = 0; i < isize(parts); ++i) {
      const Value part =
          sort.type.is_tuple() ? marked(ops::get_tuple_element(within, i), sort, tiled.sharding) : within;
      const Value first = marked(ops::slice_dim(part, how.dim + 1, 0, how.k), sort, tiled.sharding);
      firsts.push_back(marked(ops::reshape(first, flat), sort, gathered(how)));
    }
    const Value out = sorted(sort, firsts, how.dim, gathered(how));
    builder_.set_name(out, name);
    return out.id;
  }
};

}  // namespace

Program split_sorts(const Program& program) {
  ProgramBuilder names("");
  return with_rewritten(
      program, [](const Computation&, const Instruction& i) { return i.op == &rows::kSort; },
      [&](ComputationId c) { return SortSplitter(program, c, names).run(); });
}

}  // namespace tessera
