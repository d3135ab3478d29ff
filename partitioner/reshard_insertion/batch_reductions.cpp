// SPDX-License-Identifier: Apache-2.0
#include "reshard_insertion/batch_reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "pipeline/leaves.h"
#include "propagation/op_signatures.h"
#include "propagation/propagate.h"
#include "reshard_insertion/insert_reshards.h"
#include "reshard_insertion/reshard_notes.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/explain/remedy.h"

namespace tessera {
namespace {

// A sharded dim of an input. The leaf is numbered among all leaves of the entry's parameters.
struct InputDim {
  int leaf = 0;
  int dim = 0;
  auto operator<=>(const InputDim&) const = default;
};
using InputDims = std::set<InputDim>;
constexpr InputDim kElsewhere{
    -1, 0};  // stands for weights and unsharded dims of inputs; values made of constants have an empty set
using LeafDims = std::vector<InputDims>;  // by dim
using ValueDims = std::vector<LeafDims>;  // by leaf

const Sharding* sharding_of_leaf(const Instruction& value, int leaf) {
  return value.sharding && leaf < isize(*value.sharding) ? &at(*value.sharding, leaf) : nullptr;
}

// Tracks which dims of inputs correspond to the sharded dims of each value. The state of a loop has the dims of its
// initial value.
class InputDimsOfValues {
 public:
  explicit InputDimsOfValues(const Program& program) : program_(program), begins_(program.computations.size()) {
    const Type result = program.entry_computation().root_type();
    for (const Type& leaf : result.leaves()) returned_.push_back(leaf);
    batch_sums_.resize(program.computations.size());
    const auto used = partitioned_computations(program);
    for (ComputationId c = isize(program.computations) - 1; c >= 0; --c)
      if (at(used, c)) walk(c);
  }

  /// The dims of inputs over which an op sums.
  [[nodiscard]] const InputDims& summed(ComputationId computation, Id op) const {
    return at(at(batch_sums_, computation), op);
  }
  /// The `axes` that shard one of the dims.
  [[nodiscard]] std::vector<AxisRef> sharded_over(const InputDims& dims, const std::vector<AxisRef>& axes) const {
    std::vector<AxisRef> out;
    for (const AxisRef& axis : axes)
      if (std::any_of(dims.begin(), dims.end(), [&](const InputDim& one) { return overlaps_any(axes_.at(one), axis); }))
        out.push_back(axis);
    return out;
  }
  /// Text such as `dim 0 of %x`.
  [[nodiscard]] std::string text(const InputDims& dims) const {
    constexpr std::size_t kMostNamed = 3;
    const bool is_one_dim = std::all_of(dims.begin(), dims.end(), [&](auto d) { return d.dim == dims.begin()->dim; });
    std::vector<std::string> names;
    for (const InputDim& one : dims) {
      if (names.size() == kMostNamed) {
        names.emplace_back("...");
        break;
      }
      const std::string name = "%" + at(input_names_, one.leaf);
      names.push_back(is_one_dim ? name : fmt::format("dim {} of {}", one.dim, name));
    }
    return is_one_dim ? fmt::format("dim {} of {}", dims.begin()->dim, fmt::join(names, ", "))
                      : fmt::format("{}", fmt::join(names, ", "));
  }

 private:
  void walk(ComputationId id) {
    const Computation& computation = program_[id];
    std::vector<ValueDims> values(computation.instructions.size());
    at(batch_sums_, id).resize(computation.instructions.size());
    int parameter = 0;
    for (Id i = 0; i < computation.size(); ++i) {
      const Instruction& instruction = computation[i];
      ValueDims& here = at(values, i);
      const auto operands = operand_leaves_of(instruction, values);
      switch (instruction.op->role) {
        case Role::kParameter: here = parameter_dims(id, instruction, parameter++); break;
        case Role::kGetTupleElement: {
          const int first = computation[instruction.operands[0]].type.leaf_offset(index_of(instruction));
          here.assign(operands.begin() + first, operands.begin() + first + instruction.type.leaf_count());
          break;
        }
        case Role::kTuple:
        case Role::kOptBarrier:
        case Role::kCopy:
        case Role::kShardingMark:
        case Role::kWhile: here = operands; break;
        default: here = computed(id, i, operands);
      }
      if (instruction.op->role == Role::kWhile)
        for (const ComputationId callee : instruction.called) at(begins_, callee) = operands;
      here.resize(static_cast<std::size_t>(instruction.type.leaf_count()));
      keep_sharded_dims(instruction, here);
    }
  }

  static ValueDims operand_leaves_of(const Instruction& instruction, const std::vector<ValueDims>& values) {
    ValueDims out;
    for (const Id operand : instruction.operands)
      out.insert(out.end(), at(values, operand).begin(), at(values, operand).end());
    return out;
  }

  ValueDims parameter_dims(ComputationId id, const Instruction& parameter, int number) {
    if (id != program_.entry) return number == 0 ? at(begins_, id) : ValueDims();
    ValueDims out;
    for (const Type& leaf : parameter.type.leaves()) {
      const Sharding* sharding = sharding_of_leaf(parameter, isize(out));
      LeafDims& dims = out.emplace_back();
      for (int d = 0; sharding != nullptr && d < sharding->ndim(); ++d)
        axes_[{isize(input_names_), d}] = at(sharding->dims, d).axes;
      const bool is_weight = std::find(returned_.begin(), returned_.end(), leaf) != returned_.end();
      for (int d = 0; leaf.is_array() && d < leaf.ndim(); ++d)
        dims.push_back({is_weight ? kElsewhere : InputDim{isize(input_names_), d}});
      input_names_.push_back(parameter.name);
    }
    return out;
  }

  static void keep_sharded_dims(const Instruction& instruction, ValueDims& dims) {
    const auto types = instruction.type.leaves();
    for (int leaf = 0; leaf < isize(dims); ++leaf) {
      const Sharding* sharding = sharding_of_leaf(instruction, leaf);
      const int ndim = at(types, leaf).is_array() ? at(types, leaf).ndim() : 0;
      at(dims, leaf).resize(static_cast<std::size_t>(ndim));
      for (int d = 0; d < ndim; ++d)
        if (sharding == nullptr || d >= sharding->ndim() || sharding->tiles(d) <= 1)
          if (InputDims& here = at(at(dims, leaf), d); !here.empty()) here = {kElsewhere};
    }
  }

  ValueDims computed(ComputationId id, Id i, const ValueDims& operands) {
    const Computation& computation = program_[id];
    const Instruction& instruction = computation[i];
    const FactorMap& map = *signatures_.of(program_, computation, instruction).map;
    std::vector<std::vector<InputDims>> by_factor(map.factors.size());  // one entry per operand that has the factor
    for (int leaf = 0; leaf < std::min(isize(map.operands), isize(operands)); ++leaf)
      for (int d = 0; d < std::min(isize(at(map.operands, leaf)), isize(at(operands, leaf))); ++d)
        // Axes of a dim of several factors shard the major one.
        if (const DimFactors& factors = at(at(map.operands, leaf), d); !factors.empty())
          at(by_factor, factors.front()).push_back(at(at(operands, leaf), d));
    at(at(batch_sums_, id), i) = summed_over(map, by_factor, instruction);
    ValueDims out;
    for (const TensorFactors& result : map.results) {
      LeafDims& dims = out.emplace_back();
      for (const DimFactors& factors : result) {
        InputDims& all = dims.emplace_back();
        if (!factors.empty())
          for (const InputDims& one : at(by_factor, factors.front())) all.insert(one.begin(), one.end());
      }
    }
    return out;
  }

  // For a product: the dims that both sides have. A batch dim also counts if the other side was made of constants, such
  // as the stacks of a loop or a cotangent of ones. For a sum of one array that removes dims: only batch dims, which
  // come first. Rows that are gathered or sliced from a sharded table are no batch.
  static InputDims summed_over(const FactorMap& map, const std::vector<std::vector<InputDims>>& by_factor,
                               const Instruction& instruction) {
    InputDims out;
    const auto arrays =
        std::count_if(map.operands.begin(), map.operands.end(), [](const auto& o) { return !o.empty(); });
    const bool is_reduction = arrays == 1 && map.operands.front().size() > map.results.front().size();
    const Sharding* result = sharding_of_leaf(instruction, 0);
    if (result == nullptr || !result->is_partial()) return out;
    for (int f = 0; f < isize(map.factors); ++f) {
      const auto& sides = at(by_factor, f);
      if (at(map.factors, f).kind != FactorKind::kReduce || sides.empty()) continue;
      InputDims met;
      for (const InputDims& side : sides) met.insert(side.begin(), side.end());
      met.erase(kElsewhere);
      for (const InputDim& one : met) {
        const bool everywhere = std::all_of(sides.begin(), sides.end(), [&](const auto& side) {
          return side.contains(one) || (side.empty() && one.dim == 0);
        });
        if (everywhere && (sides.size() > 1 || (is_reduction && one.dim == 0))) out.insert(one);
      }
    }
    return out;
  }

  const Program& program_;
  OpSignatures signatures_;
  std::vector<ValueDims> begins_;  // the dims of the parameters of loop bodies and conditions
  std::vector<Type> returned_;
  std::vector<std::string> input_names_;
  std::map<InputDim, std::vector<AxisRef>> axes_;
  std::vector<std::vector<InputDims>> batch_sums_;
};

std::string braced_axes(const Mesh& mesh, const std::vector<AxisRef>& axes) {
  Sharding of_one_dim;
  of_one_dim.mesh = mesh;
  of_one_dim.dims.push_back({axes, false, {}});
  return of_one_dim.str();
}

Remedy batch_remedy(const InputDimsOfValues& known, const InputDims& dims, const Sharding& sum, const Instruction& op) {
  const auto of_batch = known.sharded_over(dims, sum.partial);
  const std::string axes = braced_axes(sum.mesh, of_batch);
  std::vector<AxisRef> others;
  std::copy_if(sum.partial.begin(), sum.partial.end(), std::back_inserter(others), [&](const AxisRef& axis) {
    return std::find(of_batch.begin(), of_batch.end(), axis) == of_batch.end();
  });
  const std::string rest = others.empty() ? ""
                                          : fmt::format("; remove {} from the dims that {} %{} sums over",
                                                        braced_axes(sum.mesh, others), op.op->name, shown_name(op));
  const bool is_batch = std::all_of(dims.begin(), dims.end(), [](const InputDim& one) { return one.dim == 0; });
  const char* form = is_batch ? "it is the sum over the batch ({}) that data parallelism over {} needs{}"
                              : "it is the sum over {} that sharding it over {} needs{}";
  return {.kind = Remedy::Kind::kNone,
          .mesh = sum.mesh.str(),
          .detail = fmt::format(fmt::runtime(form), known.text(dims), axes, rest)};
}

}  // namespace

Program with_batch_sums_named(const Program& resharded) {
  const InputDimsOfValues known(resharded);
  Program out = resharded;
  for (ComputationId c = 0; c < isize(out.computations); ++c) {
    const Computation& old = resharded[c];
    std::shared_ptr<Computation> made;
    for (Id i = 0; i < old.size(); ++i) {
      const Instruction& copy = old[i];
      if (copy.op->role != Role::kCopy || copy.frontend_attribute(kRemedyAttribute) == nullptr) continue;
      const Sharding& now = old[copy.operands[0]].sharding->front();
      if (!now.is_partial()) continue;
      const Id op = summing_op(old, copy.operands[0]);
      const InputDims& dims = known.summed(c, op);
      if (known.sharded_over(dims, now.partial).empty()) continue;
      if (!made) made = std::make_shared<Computation>(old);
      made->instructions[static_cast<std::size_t>(i)].notes =
          with_frontend_attribute(copy.notes, kRemedyAttribute, batch_remedy(known, dims, now, old[op]).attribute());
    }
    if (made) at(out.computations, c) = std::move(made);
  }
  return out;
}

}  // namespace tessera
