// SPDX-License-Identifier: Apache-2.0
// Process groups only support the named reductions. For any other computation, every member reduces one part, in the
// order of the group:
//
//   %r = f32[8] all-reduce(%x), to_apply=%f      ->  %p = f32[8] all-to-all(%x), dimensions={0}      groups of 2
//                                                    %s = f32[4] f(slice(%p, [0:4]), slice(%p, [4:8]))
//                                                    %r = f32[8] all-gather(%s), dimensions={0}
//   %r = f32[4] reduce-scatter(%x), to_apply=%f  ->  the first two
//
// The number of received bytes is that of a named reduction.
#include <algorithm>
#include <numeric>

#include "apply_to_arrays.h"
#include "tessera/base/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/lowering/rank_groups.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

bool is_expanded(const Program& program, const Instruction& instruction) {
  return instruction.op->role == Role::kCollective && instruction.called.size() == 1 &&
         !reduction_of(program[instruction.called.front()]);
}

// The size of the groups that exchange data; 0 if they differ.
std::int64_t group_size(const Instruction& collective, int world_size) {
  std::int64_t size = 1;
  for (const auto& group : rank_groups(collective, world_size)) {
    if (size > 1 && isize(group) != size) return 0;
    size = std::max<std::int64_t>(size, isize(group));
  }
  return size;
}

class Expander {
 public:
  Expander(ComputationRewriter& r, const Program& program, const Instruction& collective, std::int64_t parts)
      : r_(r), function_(program[collective.called.front()]), collective_(collective), parts_(parts) {}

  Value expanded() {
    std::vector<Value> results;
    for (const Value& operand : r_.mapped(collective_.operands)) results.push_back(reduced(operand));
    return results.size() == 1 && !collective_.type.is_tuple() ? results.front() : ops::tuple(r_.builder(), results);
  }

 private:
  [[nodiscard]] const CollectiveAttributes& attributes() const {
    return attributes_as<CollectiveAttributes>(collective_.attributes);
  }

  Value reduced(Value x) {
    if (parts_ == 1 || x.type().element_count() == 0) return x;
    if (collective_.op->collective == CollectiveKind::kReduceScatter)
      return scattered(x, static_cast<int>(attributes().dimensions.front()));
    const Dims dims = x.type().dims();
    const auto count = x.type().element_count();
    const auto padded_count = ceil_div(count, parts_) * parts_;
    Value flat = ops::reshape(x, {count});
    if (padded_count != count) {
      const Value zero = ops::constant(r_.builder(), Literal(Type::scalar(x.type().dtype())));
      flat = ops::pad(flat, zero, {{0, padded_count - count, 0}});
    }
    const Value all = exchange(rows::kAllGather, scattered(flat, 0), 0, {padded_count});
    return ops::reshape(padded_count != count ? ops::slice_dim(all, 0, 0, count) : all, dims);
  }

  // Each member's part, reduced over the members.
  Value scattered(Value x, int dim) {
    const Value parts = exchange(rows::kAllToAll, x, dim, x.type().dims());
    const auto length = x.type().dim(dim) / parts_;
    Value total = ops::slice_dim(parts, dim, 0, length);
    for (std::int64_t k = 1; k < parts_; ++k)
      total = applied(total, ops::slice_dim(parts, dim, k * length, (k + 1) * length));
    return total;
  }

  Value exchange(const OpDef& op, Value x, int dim, const Dims& result) {
    CollectiveAttributes now = attributes();
    now.dimensions = {dim};
    EmitOptions options;
    options.type = Type::array(x.type().dtype(), result);
    options.notes = collective_.notes;
    return r_.builder().emit(op, {x}, make_attributes(std::move(now)), std::move(options));
  }

  // Applies the computation element by element. If it is for another width of the type, it computes in that type.
  Value applied(Value a, Value b) {
    const DType dtype = a.type().dtype();
    const DType own = function_.root_type().dtype();
    if (dtype != own) return ops::convert(applied(ops::convert(a, own), ops::convert(b, own)), dtype);
    if (is_elementwise())
      return apply_to_arrays(r_.builder(), function_, {function_.root}, {a, b}, a.type().dims()).front();
    Dims dims(static_cast<std::size_t>(a.type().ndim()));
    std::iota(dims.begin(), dims.end(), 0);
    return r_.builder().emit(rows::kMap, {a, b}, make_attributes(DimensionsAttributes{dims}),
                             {.called = {r_.callee(collective_.called.front())}});
  }

  [[nodiscard]] bool is_elementwise() const {
    return std::all_of(function_.instructions.begin(), function_.instructions.end(), [](const Instruction& i) {
      const bool is_plain = i.op->role == Role::kPlain && i.op->elementwise && i.called.empty() && !has_side_effect(i);
      return i.type.is_array() && (i.op->role == Role::kParameter || i.op->role == Role::kConstant || is_plain);
    });
  }

  ComputationRewriter& r_;
  const Computation& function_;
  const Instruction& collective_;
  std::int64_t parts_;
};

}  // namespace

Program expand_reductions(const Program& program, int world_size) {
  const auto expands = [&](const Instruction& i) { return is_expanded(program, i) && group_size(i, world_size) > 0; };
  return rewrite(
      program,
      [&](ComputationRewriter& r, Id id) {
        const Instruction& instruction = r.from()[id];
        if (!expands(instruction)) return Value{};
        return Expander(r, program, instruction, group_size(instruction, world_size)).expanded();
      },
      [&](const Computation& c) { return std::any_of(c.instructions.begin(), c.instructions.end(), expands); });
}

}  // namespace tessera
