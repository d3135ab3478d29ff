// SPDX-License-Identifier: Apache-2.0
#include "tessera/lowering/lowering.h"

#include <algorithm>
#include <optional>

#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/passes.h"
#include "tessera/passes/plain_forms.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

class Preparer {
 public:
  explicit Preparer(ComputationRewriter& rewriter)
      : rewriter_(rewriter), from_(rewriter.from()), uses_(from_.use_counts()) {}

  void run() {
    for (Id id = 0; id < from_.size(); ++id) {
      if (from_[id].op->role == Role::kParameter) continue;
      if (from_[id].op->role == Role::kCopy && is_free(id)) {
        rewriter_.replace(id, rewriter_.mapped(from_[id].operands[0]));
        continue;
      }
      if (from_[id].op == &rows::kAdd && is_free(id) && (join_parts(id) || add_into(id))) continue;
      rewriter_.keep(id);
    }
  }

 private:
  // Whether the instruction has only its value: no sharding and no control edges.
  [[nodiscard]] bool is_free(Id id) const { return !from_[id].sharding && from_[id].control_predecessors.empty(); }
  [[nodiscard]] bool is_zero(Id id) const {
    const Instruction* instruction = &from_[id];
    if (instruction->op == &rows::kBroadcast) instruction = &from_[instruction->operands[0]];
    const Literal* value = known_constant(*instruction);
    return value != nullptr && instruction->type.is_array() && instruction->type.ndim() == 0 &&
           !is_complex(instruction->type.dtype()) && instruction->type.dtype() != DType::kPred &&
           element_as_double(*value, 0) == 0;
  }

  // ---- sums of padded parts
  // -------------------------------------------------------------------------------------------
  struct Part {
    Id value;
    int dim;
    std::int64_t start;
  };
  // The operand and range of a pad of one dim by zeros.
  [[nodiscard]] std::optional<Part> part_of(Id id) const {
    const Instruction& pad = from_[id];
    if (pad.op != &rows::kPad || !is_zero(pad.operands[1])) return std::nullopt;
    const auto& padding = attributes_as<PadAttributes>(pad.attributes).padding;
    Part out{pad.operands[0], -1, 0};
    for (int d = 0; d < isize(padding); ++d) {
      const PaddingDim& one = at(padding, d);
      if (one == PaddingDim{}) continue;
      if (out.dim >= 0 || one.interior != 0 || one.low < 0 || one.high < 0) return std::nullopt;
      out.dim = d;
      out.start = one.low;
    }
    return out.dim < 0 ? std::nullopt : std::optional(out);
  }
  bool collect(Id id, bool is_root, std::vector<Part>& parts) const {
    if (!is_root && (at(uses_, id) != 1 || !is_free(id))) return false;
    if (from_[id].op == &rows::kAdd)
      return collect(from_[id].operands[0], false, parts) && collect(from_[id].operands[1], false, parts);
    const auto part = part_of(id);
    if (part) parts.push_back(*part);
    return part.has_value();
  }
  bool join_parts(Id id) {
    std::vector<Part> parts;
    if (!collect(id, true, parts)) return false;
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.start < b.start; });
    const int dim = parts.front().dim;
    std::int64_t end = 0;
    for (const Part& part : parts) {
      if (part.dim != dim || part.start != end) return false;
      end += from_[part.value].type.dim(dim);
    }
    if (end != from_[id].type.dim(dim)) return false;
    std::vector<Value> values;
    for (const Part& part : parts) values.push_back(rewriter_.mapped(part.value));
    const Value joined = ops::concatenate(values, dim);
    rewriter_.builder().set_notes(joined, from_[id].notes);
    rewriter_.replace(id, joined);
    return true;
  }

  // ---- scatters into zeros ------------------------------------------------------------------------------------------
  // Small updates, added one by one to large 16-bit floats, would be lost.
  static bool has_16_bits(DType dtype) { return is_float(dtype) && dtype_size(dtype) == 2; }
  bool add_into(Id id) {
    const auto& operands = from_[id].operands;
    return scatter_into(id, operands[0], operands[1]) || scatter_into(id, operands[1], operands[0]);
  }
  bool scatter_into(Id id, Id scattered, Id other) {
    const Instruction& scatter = from_[scattered];
    const bool fits = scatter.op == &rows::kScatter && scatter.operands.size() == 3 && at(uses_, scattered) == 1 &&
                      is_free(scattered) && other != scattered && is_zero(scatter.operands[0]);
    if (!fits || has_16_bits(scatter.type.dtype()) || !adds(scatter)) return false;
    Instruction into = rewriter_.translated(scattered);
    into.operands[0] = rewriter_.mapped(other).id;
    rewriter_.replace(id, rewriter_.builder().append(std::move(into)));
    return true;
  }
  [[nodiscard]] bool adds(const Instruction& scatter) {
    const ComputationId combiner = rewriter_.callee(scatter.called.front());
    return reduction_of(*at(rewriter_.builder().program().program().computations, combiner)) == Reduction::kSum;
  }

  ComputationRewriter& rewriter_;
  const Computation& from_;
  std::vector<int> uses_;
};

}  // namespace

Program prepare(const Program& given) {
  const Program program = plain_forms(given);
  const Computation* entry = &program.entry_computation();
  // Programs for one device are not simplified after tracing, so they may compute values twice.
  return remove_dead_code(merge_duplicates(rewrite_computations(
      program, [](ComputationRewriter& rewriter) { Preparer(rewriter).run(); },
      [&](const Computation& computation) { return &computation == entry; })));
}

}  // namespace tessera
