// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "collective_passes/collective_match.h"
#include "collective_passes/compress_coding.h"
#include "explain/explain.h"
#include "reshard_insertion/insert_reshards.h"
#include "tessera/base/text.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

// Smaller collectives are dominated by latency, and often carry values that users read, such as losses and norms.
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
  Compressor(const Program& program, const std::vector<std::string>& axes, const Coding& coding)
      : program_(program), axes_(axes), coding_(coding), next_channel_(free_channel(program)) {}

  [[nodiscard]] bool concerns(const Computation& computation, const Instruction& collective) const {
    const CollectiveKind kind = collective.op->collective;
    if (kind == CollectiveKind::kNone || collective.operands.size() != 1 || !collective.type.is_array()) return false;
    const Type& operand = computation[collective.operands[0]].type;
    if (operand.dtype() != DType::kF32 || operand.byte_size() < kLeastBytes) return false;
    const auto over = axes_of(program_, collective);
    const bool asked = std::any_of(over.begin(), over.end(), [&](const std::string& axis) {
      return std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
    });
    if (!asked) return false;
    const bool sums = kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllReduce;
    if (sums && reduction_by(program_, collective) != Reduction::kSum) return false;
    const bool has_parts = sums || kind == CollectiveKind::kAllGather || is_exchange(collective);
    return !has_parts || size_of_groups(program_, collective).value_or(1) > 1;
  }

  Value compressed(ComputationRewriter& r, Id id) {
    const Instruction& old = r.from()[id];
    const Value x = r.mapped(old.operands[0]);
    switch (old.op->collective) {
      case CollectiveKind::kReduceScatter: return sum(exchanged(r, old, parts_along(x, old)), old);
      case CollectiveKind::kAllReduce: return reduced(r, old, x);
      default: break;
    }
    if (coding_.keeps_shape()) return moved(r, id, x);
    if (old.op->collective == CollectiveKind::kAllGather) return joined(gathered(r, old, x), old);
    return is_exchange(old) ? joined(exchanged(r, old, parts_along(x, old)), old) : moved(r, id, with_parts(x));
  }

 private:
  // Whether this is an all-to-all in which each member sends one part along a dim to each member.
  static bool is_exchange(const Instruction& collective) {
    const auto* attributes = attributes_if<CollectiveAttributes>(collective.attributes);
    return collective.op->collective == CollectiveKind::kAllToAll && attributes != nullptr &&
           attributes->dimensions.size() == 1;
  }
  static int dim_of(const Instruction& collective) {
    return static_cast<int>(attributes_as<CollectiveAttributes>(collective.attributes).dimensions.at(0));
  }
  static Value sum(Value parts, const Instruction& old) {
    return ops::reshape(ops::reduce(parts, Reduction::kSum, {0}), old.type.dims());
  }

  // x [.., n*s, ..] -> [n, .., s, ..]: the parts along the collective's dim.
  Value parts_along(Value x, const Instruction& old) const {
    const int dim = dim_of(old);
    const std::int64_t n = *size_of_groups(program_, old);
    Dims split_dims = x.type().dims();
    at(split_dims, dim) /= n;
    split_dims.insert(split_dims.begin() + dim, n);
    const Value parts = ops::reshape(x, std::move(split_dims));
    if (dim == 0) return parts;
    Dims order(static_cast<std::size_t>(parts.type().ndim()));
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + dim, order.begin() + dim + 1);
    return ops::transpose(parts, std::move(order));
  }
  // parts [n, .., s, ..] -> [.., n*s, ..].
  static Value joined(Value parts, const Instruction& old) {
    const int dim = dim_of(old);
    if (dim > 0) {
      Dims order(static_cast<std::size_t>(parts.type().ndim()));
      std::iota(order.begin(), order.end(), 0);
      std::rotate(order.begin(), order.begin() + 1, order.begin() + dim + 1);
      parts = ops::transpose(parts, std::move(order));
    }
    return ops::reshape(parts, old.type.dims());
  }

  // The same collective on the encoded x.
  Value moved(ComputationRewriter& r, Id id, Value x) {
    const Instruction& old = r.from()[id];
    std::vector<Value> arrived;
    for (const Value& piece : coding_.encode(x)) {
      Instruction out = r.translated(id);
      if (!arrived.empty()) set_channel(out);
      out.operands = {piece.id};
      out.type = coding_.keeps_shape() ? old.type.with_dtype(piece.type().dtype()) : piece.type();
      out.notes = with_reason(out.notes);
      arrived.push_back(r.builder().append(std::move(out)));
    }
    return ops::reshape(coding_.decode(arrived, old.type.dims()), old.type.dims());
  }
  // The x of all members: [n, ..].
  Value gathered(ComputationRewriter& r, const Instruction& old, Value x) {
    std::vector<Value> arrived;
    for (const Value& piece : coding_.encode(with_parts(x)))
      arrived.push_back(noted(r, old, ops::all_gather(piece, 0, groups(old), next_channel_++)));
    return coding_.decode(arrived, x.type().dims());
  }
  // parts [n, ..]: member k receives part k from each member.
  Value exchanged(ComputationRewriter& r, const Instruction& old, Value parts) {
    std::vector<Value> arrived;
    for (const Value& piece : coding_.encode(parts))
      arrived.push_back(noted(r, old, ops::all_to_all(piece, 0, groups(old), next_channel_++)));
    return coding_.decode(arrived, {parts.type().dims().begin() + 1, parts.type().dims().end()});
  }
  // Flattens x and pads it to equal parts. Each member sums one part, and an all-gather combines the sums.
  Value reduced(ComputationRewriter& r, const Instruction& old, Value x) {
    const std::int64_t n = *size_of_groups(program_, old);
    const std::int64_t count = x.type().element_count();
    const std::int64_t part = ceil_div(count, n);
    Value flat = ops::reshape(x, {count});
    if (part * n > count) flat = ops::pad(flat, ops::scalar(r.builder(), DType::kF32, 0), {{0, part * n - count}});
    const Value mine = ops::reduce(exchanged(r, old, ops::reshape(flat, {n, part})), Reduction::kSum, {0});
    Value all = ops::reshape(gathered(r, old, mine), {part * n});
    if (part * n > count) all = ops::slice(all, {{0, count}});
    return ops::reshape(all, old.type.dims());
  }

  static Value with_parts(Value x) {  // a single part
    Dims dims = x.type().dims();
    dims.insert(dims.begin(), 1);
    return ops::reshape(x, std::move(dims));
  }
  // Gives the collective a new channel.
  void set_channel(Instruction& collective) {
    const auto set = [&](auto attributes) {
      attributes.channel_id = next_channel_++;
      collective.attributes = make_attributes(std::move(attributes));
    };
    if (const auto* permute = attributes_if<PermuteAttributes>(collective.attributes)) return set(*permute);
    set(attributes_as<CollectiveAttributes>(collective.attributes));
  }
  Value noted(ComputationRewriter& r, const Instruction& old, Value sent) const {
    r.builder().set_notes(sent, with_reason(old.notes));
    return sent;
  }
  [[nodiscard]] ReplicaGroups groups(const Instruction& old) const { return {groups_of(program_, old)}; }

  [[nodiscard]] NotesRef with_reason(const NotesRef& notes) const {
    Instruction holder;
    holder.notes = notes;
    const std::string* reason = holder.frontend_attribute(kReasonAttribute);
    return with_frontend_attribute(notes, kReasonAttribute,
                                   fmt::format("{}f32 as {}", reason == nullptr ? "" : *reason + "; ", coding_.name()));
  }

  const Program& program_;
  const std::vector<std::string>& axes_;
  const Coding& coding_;
  std::int64_t next_channel_;
};

}  // namespace

Program compress_collectives(const Program& program, const std::vector<std::string>& axes, Compression compression) {
  check_axes(program, axes);
  const auto coding = compression == Compression::kInt8 ? int8_coding() : bf16_coding();
  Compressor compressor(program, axes, *coding);
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
