// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "collective_match.h"
#include "explain.h"
#include "insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

// Smaller ones cost their latency, and are what users read: losses, norms.
constexpr std::int64_t kLeastBytes = std::int64_t{16} << 10;

void check_axes(const Program& program, const std::vector<std::string>& axes) {
  std::vector<std::string> known;
  for (const Mesh& mesh : program.meshes)
    for (const MeshAxis& axis : mesh.axes()) known.push_back(axis.name);
  for (const std::string& axis : axes)
    require(std::find(known.begin(), known.end(), axis) != known.end(), "no mesh has an axis \"{}\" to compress over{}",
            axis, suggest_name(axis, known));
}

class Compressor {
 public:
  Compressor(const Program& program, const std::vector<std::string>& axes)
      : program_(program), axes_(axes), next_channel_(free_channel(program)) {}

  [[nodiscard]] bool concerns(const Computation& computation, const Instruction& collective) const {
    const CollectiveKind kind = collective_kind(collective);
    if (kind == CollectiveKind::kNone || collective.operands.size() != 1 || !collective.type.is_array()) return false;
    const Type& operand = computation[collective.operands[0]].type;
    if (operand.dtype() != DType::kF32 || operand.byte_size() < kLeastBytes) return false;
    const auto over = axes_of(program_, collective);
    const bool asked = std::any_of(over.begin(), over.end(), [&](const std::string& axis) {
      return std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
    });
    return asked && (is_movement(kind) || can_sum(collective));
  }

  Value compressed(ComputationRewriter& r, Id id) {
    const Instruction& old = r.from()[id];
    const Value x = r.mapped(old.operands[0]);
    switch (collective_kind(old)) {
      case CollectiveKind::kReduceScatter: return scattered(r, id, x);
      case CollectiveKind::kAllReduce: return reduced(r, id, x);
      default: return moved(r, id, x);
    }
  }

 private:
  static bool is_movement(CollectiveKind kind) {
    return kind != CollectiveKind::kReduceScatter && kind != CollectiveKind::kAllReduce;
  }
  // A sum, over groups of one size.
  [[nodiscard]] bool can_sum(const Instruction& collective) const {
    return reduction_by(program_, collective) == Reduction::kSum &&
           size_of_groups(program_, collective).value_or(1) > 1;
  }

  // The same collective of the rounded operand.
  Value moved(ComputationRewriter& r, Id id, Value x) {
    Instruction out = r.translated(id);
    out.operands = {ops::convert(x, DType::kBF16).id};
    out.type = Type::array(DType::kBF16, out.type.dims());
    out.notes = with_reason(out.notes);
    return ops::convert(r.builder().append(std::move(out)), DType::kF32);
  }

  // x [.., n*s, ..] -> [n, .., s, ..], part k to member k; their sum [.., s, ..].
  Value scattered(ComputationRewriter& r, Id id, Value x) {
    const Instruction& old = r.from()[id];
    const int dim = static_cast<int>(attributes_as<CollectiveAttributes>(old.attributes).dimensions.at(0));
    Dims parted = old.type.dims();
    parted.insert(parted.begin() + dim, *size_of_groups(program_, old));
    Value parts = ops::reshape(x, std::move(parted));
    if (dim > 0) {
      Dims order(static_cast<std::size_t>(parts.type().ndim()));
      std::iota(order.begin(), order.end(), 0);
      std::rotate(order.begin(), order.begin() + dim, order.begin() + dim + 1);
      parts = ops::transpose(parts, std::move(order));
    }
    return sum_of_parts(r, old, parts);
  }

  // Flat, padded to equal parts; each member sums one, and all gather them.
  Value reduced(ComputationRewriter& r, Id id, Value x) {
    const Instruction& old = r.from()[id];
    const std::int64_t n = *size_of_groups(program_, old);
    const std::int64_t count = x.type().element_count();
    const std::int64_t part = ceil_div(count, n);
    Value flat = ops::reshape(x, {count});
    if (part * n > count) flat = ops::pad(flat, ops::scalar(r.builder(), DType::kF32, 0), {{0, part * n - count}});
    const Value sum = sum_of_parts(r, old, ops::reshape(flat, {n, part}));
    Value all = ops::all_gather(ops::convert(sum, DType::kBF16), 0, groups(old), next_channel_++);
    r.builder().set_notes(all, with_reason(old.notes));
    all = ops::convert(all, DType::kF32);
    if (part * n > count) all = ops::slice(all, {{0, count}});
    return ops::reshape(all, old.type.dims());
  }

  // parts [n, ..]: of member k part k from each, added up [..].
  Value sum_of_parts(ComputationRewriter& r, const Instruction& old, Value parts) {
    const Value sent = ops::all_to_all(ops::convert(parts, DType::kBF16), 0, groups(old), next_channel_++);
    r.builder().set_notes(sent, with_reason(old.notes));
    return ops::reduce(ops::convert(sent, DType::kF32), Reduction::kSum, {0});
  }

  [[nodiscard]] ReplicaGroups groups(const Instruction& old) const { return {groups_of(program_, old)}; }

  static NotesRef with_reason(const NotesRef& notes) {
    Instruction said;
    said.notes = notes;
    const std::string* reason = said.frontend_attribute(kReasonAttribute);
    return with_frontend_attribute(notes, kReasonAttribute,
                                   fmt::format("{}f32 as bf16", reason == nullptr ? "" : *reason + "; "));
  }

  const Program& program_;
  const std::vector<std::string>& axes_;
  std::int64_t next_channel_;
};

}  // namespace

Program compress_collectives(const Program& program, const std::vector<std::string>& axes) {
  check_axes(program, axes);
  Compressor compressor(program, axes);
  bool any = false;
  for (const ComputationRef& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      any = any || compressor.concerns(*computation, instruction);
  if (!any) return program;
  return rewrite(program, [&](ComputationRewriter& r, Id id) -> Value {
    return compressor.concerns(r.from(), r.from()[id]) ? compressor.compressed(r, id) : Value{};
  });
}

}  // namespace tessera
