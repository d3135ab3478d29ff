// SPDX-License-Identifier: Apache-2.0
// Traces the operand of each all-gather through reshapes and transposes to its origin, together with the gathered dim.
// If several gathers have the same origin, the first one gathers it, and each applies its reshapes and transposes to
// the result:
//
//   %a = all-gather(transpose(%x)), dimensions={1}   ->   %g = all-gather(%x), dimensions={0}; %a = transpose(%g)
//   %b = all-gather(%x), dimensions={0}                   %b = %g
//
// Gathers with FSDP's marks are shared, too, if all their marks are equal: several forms of a parameter in one unit and
// one pass. A gather of the forward pass is never shared with its repetition in the backward pass, nor with that of a
// later forward pass: their marks differ in tessera.phase, and the operands of later ones come from an opt-barrier.
#include <algorithm>
#include <unordered_map>

#include "collective_passes/collective_match.h"
#include "localize/localize.h"
#include "tessera/base/text.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/explanations.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// The origin of a gather's operand.
struct Origin {
  Id value = -1;
  int dim = 0;            // the gathered dim of the value
  std::vector<Id> chain;  // reshapes and transposes from the value to the operand
  std::vector<int> dims;  // the gathered dim after each of them
};

// The dim of `before` along which a gather concatenates the same blocks as along `dim` of its reshape `after`; -1 if
// there is none.
int dim_before(const Dims& before, const Dims& after, int dim) {
  const std::int64_t blocks = product(Dims(after.begin(), after.begin() + dim));
  std::int64_t ahead = 1;
  int found = -1;
  for (int d = 0; d < isize(before) && ahead <= blocks; ++d) {
    if (ahead == blocks) found = d;
    ahead *= at(before, d);
  }
  return found;
}

Origin origin_of(const Computation& c, const Instruction& gather) {
  Origin out;
  out.value = gather.operands[0];
  out.dim = static_cast<int>(attributes_as<CollectiveAttributes>(gather.attributes).dimensions.front());
  while (true) {
    const Instruction& move = c[out.value];
    const bool moves = move.op->movement == Movement::kReshape || move.op->movement == Movement::kTranspose;
    if (!moves || !move.control_predecessors.empty() || move.type.element_count() == 0) break;
    int dim = -1;
    if (move.op->movement == Movement::kTranspose)
      dim = static_cast<int>(at(attributes_as<DimensionsAttributes>(move.attributes).dimensions, out.dim));
    else
      dim = dim_before(c[move.operands[0]].type.dims(), move.type.dims(), out.dim);
    if (dim < 0) break;
    out.chain.push_back(out.value);
    out.dims.push_back(out.dim);
    out.value = move.operands[0];
    out.dim = dim;
  }
  std::reverse(out.chain.begin(), out.chain.end());
  std::reverse(out.dims.begin(), out.dims.end());
  return out;
}

/// The gathers of a computation that have equal gathers of the same origin.
class Shared {
 public:
  Shared(const Program& program, const Computation& computation, const CollectivePassOptions& options)
      : program_(program), computation_(computation) {
    const auto ordered = ordered_by_control(computation);
    std::unordered_multimap<Id, Id> firsts;  // by value of the origin
    for (Id id = 0; id < computation.size(); ++id) {
      const Instruction& gather = computation[id];
      if (!is_single(gather, CollectiveKind::kAllGather) || at(ordered, id)) continue;
      if (gather.type.byte_size() > options.memory_bound || !size_of_groups(program, gather)) continue;
      origins_.emplace(id, origin_of(computation, gather));
      const Id value = origins_.at(id).value;
      const auto [begin, end] = firsts.equal_range(value);
      const auto first = std::find_if(begin, end, [&](const auto& item) { return same(item.second, id); });
      if (first == end) {
        firsts.emplace(value, id);
        continue;
      }
      first_of_[id] = first->second;
      first_of_[first->second] = first->second;
    }
  }
  [[nodiscard]] bool any() const { return !first_of_.empty(); }
  [[nodiscard]] const Origin& origin(Id id) const { return origins_.at(id); }
  /// The first of the equal gathers; -1 if there is none.
  [[nodiscard]] Id first_of(Id id) const {
    const auto found = first_of_.find(id);
    return found == first_of_.end() ? -1 : found->second;
  }

 private:
  [[nodiscard]] bool same(Id a, Id b) const {
    const Instruction& first = computation_[a];
    const Instruction& second = computation_[b];
    return origins_.at(a).dim == origins_.at(b).dim && groups_of(program_, first) == groups_of(program_, second) &&
           equal_bindings(first, second, {kGlobalDimsAttribute});
  }

  const Program& program_;
  const Computation& computation_;
  std::unordered_map<Id, Origin> origins_;
  std::unordered_map<Id, Id> first_of_;
};

Type gathered(const Type& part, int dim, std::int64_t parts) {
  Dims dims = part.dims();
  at(dims, dim) *= parts;
  return Type::array(part.dtype(), std::move(dims));
}

class Sharer {
 public:
  Sharer(const Program& program, ComputationRewriter& r, const Shared& shared)
      : program_(program), r_(r), shared_(shared) {}

  void run() {
    for (Id id = 0; id < r_.from().size(); ++id) {
      const Id first = shared_.first_of(id);
      if (first < 0)
        r_.keep(id);
      else
        r_.replace(id, moved(id, gather_of(first)));
    }
  }

 private:
  Value gather_of(Id first) {
    if (const auto found = gathers_.find(first); found != gathers_.end()) return found->second;
    const Origin& origin = shared_.origin(first);
    Instruction gather = r_.translated(first);
    CollectiveAttributes attributes = attributes_as<CollectiveAttributes>(gather.attributes);
    attributes.dimensions = {origin.dim};
    const Value part = r_.mapped(origin.value);
    gather.type = gathered(part.type(), origin.dim, parts_of(first));
    gather.operands = {part.id};
    gather.attributes = make_attributes(std::move(attributes));
    if (!origin.chain.empty()) {
      gather.sharding = nullptr;
      gather.notes = with_frontend_attribute(gather.notes, kGlobalDimsAttribute, std::nullopt);
    }
    return gathers_[first] = r_.builder().append(std::move(gather));
  }
  [[nodiscard]] std::int64_t parts_of(Id gather) const { return *size_of_groups(program_, r_.from()[gather]); }

  // Applies the data movement of the operand to the gathered value.
  Value moved(Id id, Value value) {
    const Origin& origin = shared_.origin(id);
    for (std::size_t k = 0; k < origin.chain.size(); ++k) {
      const Instruction& move = r_.from()[origin.chain[k]];
      const Type type = gathered(move.type, origin.dims[k], parts_of(id));
      value = move.op->movement == Movement::kTranspose
                  ? ops::transpose(value, attributes_as<DimensionsAttributes>(move.attributes).dimensions)
                  : ops::reshape(value, type.dims());
    }
    return value;
  }

  const Program& program_;
  ComputationRewriter& r_;
  const Shared& shared_;
  std::unordered_map<Id, Value> gathers_;
};

}  // namespace

Program share_gathers(const Program& program, const CollectivePassOptions& options) {
  std::unordered_map<const Computation*, Shared> found;
  for (const ComputationRef& computation : program.computations) {
    Shared shared(program, *computation, options);
    if (shared.any()) found.emplace(computation.get(), std::move(shared));
  }
  if (found.empty()) return program;
  return remove_dead_code(rewrite_computations(
      program,
      [&](ComputationRewriter& r) {
        const auto shared = found.find(&r.from());
        if (shared != found.end()) return Sharer(program, r, shared->second).run();
        for (Id id = 0; id < r.from().size(); ++id) r.keep(id);
      },
      [&](const Computation& computation) { return found.contains(&computation); }));
}

}  // namespace tessera
