// SPDX-License-Identifier: Apache-2.0
#include "normalize/outfeed_shards.h"

#include <algorithm>
#include <map>
#include <optional>

#include "collective_passes/collective_match.h"
#include "normalize/manual.h"
#include "normalize/manual_regions.h"
#include "normalize/tiles_on_mesh.h"
#include "pipeline/leaves.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/passes/rewriter.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

const std::string* sharding_text(const Instruction& instruction) {
  return instruction.frontend_attribute(kOutfeedShardingAttribute);
}
bool has_sharded_outfeed(const Computation& computation) {
  return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                     [](const Instruction& i) { return sharding_text(i) != nullptr; });
}

// The shardings of the sent arrays over `meshes`, to which it may add meshes; null if every device sends the complete
// arrays.
std::optional<Shardings> sent_shardings(const Instruction& outfeed, const Type& data, std::int64_t devices,
                                        std::vector<Mesh>& meshes) {
  const std::string& text = *sharding_text(outfeed);
  if (is_named_sharding(text)) return std::nullopt;
  std::vector<HloSharding> leaves = parse_hlo_sharding(text);
  const auto types = data.leaves();
  if (leaves.size() == types.size() + 1) leaves.pop_back();  // of the token
  if (leaves.size() == 1) leaves.assign(types.size(), leaves.front());
  require(leaves.size() == types.size(), "outfeed %{}: {} shardings for the {} leaves of {}", outfeed.name,
          leaves.size(), types.size(), data);
  std::vector<std::pair<HloSharding, int>> pairs;
  for (std::size_t i = 0; i < leaves.size(); ++i) pairs.emplace_back(leaves[i], types[i].ndim());
  Shardings out = to_axes(pairs, devices, meshes);
  const bool is_sharded = std::any_of(out.begin(), out.end(), [](const Sharding& sharding) {
    return sharding.kind == Sharding::Kind::kMaximal || (sharding.is_tiled() && !sharding.is_replicated());
  });
  const bool is_manual = std::any_of(out.begin(), out.end(), [](const Sharding& sharding) {
    return sharding.kind == Sharding::Kind::kManual || !sharding.manual.empty();
  });
  if (!is_sharded || is_manual) return std::nullopt;
  return out;
}

// The mesh for the regions of all outfeeds, since a program has one mesh for its regions: that of the regions it has
// already, else the first of those that express the most of the sent shardings.
Mesh mesh_of_outfeeds(const Program& program, const Shardings& sent) {
  const auto is_manual = [](const ComputationRef& computation) {
    return std::any_of(computation->instructions.begin(), computation->instructions.end(), is_annotated_manual);
  };
  if (has_manual_regions(program) || std::any_of(program.computations.begin(), program.computations.end(), is_manual))
    return RegionMesh(program).mesh();
  const auto expressed = [&](const Mesh& mesh) {
    return std::count_if(sent.begin(), sent.end(), [&](const Sharding& sharding) {
      return !sharding.is_tiled() || sharding.mesh == mesh ||
             to_axes(to_hlo(sharding), mesh, sharding.ndim()).has_value();
    });
  };
  return *std::max_element(program.meshes.begin(), program.meshes.end(),
                           [&](const Mesh& a, const Mesh& b) { return expressed(a) < expressed(b); });
}

NotesRef sending(const NotesRef& notes, const Type& data) {
  Notes out = *with_frontend_attribute(notes, kOutfeedShardingAttribute, std::nullopt);
  for (TextAttribute& attribute : out.other)
    if (attribute.name == "outfeed_shape") attribute.text = data.str(true);
  return std::make_shared<const Notes>(std::move(out));
}

/// Emits the replacement of one outfeed.
class ShardSender {
 public:
  ShardSender(ComputationRewriter& r, Id id, Shardings shardings, const Mesh& mesh, std::int64_t& next_channel)
      : builder_(r.builder()),
        mesh_(mesh),
        next_channel_(next_channel),
        old_(r.from()[id]),
        shardings_(std::move(shardings)),
        data_(r.mapped(old_.operands[0])),
        token_(r.mapped(old_.operands[1])),
        control_(r.translated(id).control_predecessors) {
    const auto first = std::find_if(shardings_.begin(), shardings_.end(),
                                    [](const Sharding& s) { return s.kind == Sharding::Kind::kMaximal; });
    if (first != shardings_.end()) sender_ = first->device;
    for (std::int64_t device = 0; device < mesh.device_count(); ++device) {
      const auto [branch, is_new] = branches_.try_emplace(sizes_of(device), isize(branches_));
      branch_of_.push_back(static_cast<std::int32_t>(branch->second));
    }
  }

  Value emit() {
    const Value local = local_data();
    const ShardingRef manual = make_sharding(Sharding::manual_everywhere(mesh_));
    EmitOptions options{.type = Type::token(), .sharding = manual, .name = old_.name, .control_predecessors = control_};
    if (branches_.size() == 1) {
      options.notes = sending(old_.notes, local.type());
      return builder_.emit(*old_.op, {local, token_}, old_.attributes, std::move(options));
    }
    const Value device = ops::partition_id(builder_);
    builder_.set_sharding(device, manual);
    const Value table = ops::constant(builder_, Literal::from<std::int32_t>({isize(branch_of_)}, branch_of_));
    const Value branch = ops::reshape(ops::dynamic_slice(table, {ops::convert(device, DType::kS32)}, {1}), {});
    const Value both = ops::tuple(builder_, {local, token_});
    std::vector<ComputationId> called(branches_.size());
    for (const auto& [sizes, k] : branches_) at(called, k) = sending_branch(both.type(), sizes);
    std::vector<Value> operands(1 + called.size(), both);
    operands.front() = branch;
    options.called = std::move(called);
    return builder_.emit(rows::kConditional, operands, nullptr, std::move(options));
  }

 private:
  using Sizes = std::vector<Dims>;  // of a device's shards, leaf by leaf; empty if it sends nothing

  // The sharding of the sent array, over any mesh.
  [[nodiscard]] Sharding placed(int leaf) const {
    if (sender_ < 0 && at(shardings_, leaf).is_tiled()) return at(shardings_, leaf);
    return Sharding::replicated(mesh_, at(data_.type().leaves(), leaf).ndim());
  }
  [[nodiscard]] Sizes sizes_of(std::int64_t device) const {
    if (sender_ >= 0 && device != sender_) return {};
    Sizes out;
    const auto types = data_.type().leaves();
    for (int i = 0; i < isize(types); ++i) {
      const Placement placement = placement_of(at(types, i), placed(i));
      Dims& sizes = out.emplace_back();
      for (int d = 0; d < at(types, i).ndim(); ++d) sizes.push_back(placement.interval(device, d).size());
    }
    return out;
  }

  // This device's shards, in a manual region.
  Value local_data() {
    LeafValues locals = take_apart(data_);
    Shardings all;
    for (int i = 0; i < isize(locals); ++i) {
      all.push_back(placed(i));
      at(locals, i) = local_array(at(locals, i), all.back());
    }
    return put_together(builder_, shard_type(data_.type(), all), locals);
  }

  Value local_array(Value global, const Sharding& sharding) {
    const ShardingRef manual = make_sharding(Sharding::manual_everywhere(mesh_));
    const TilesOnMesh tiles = tiles_on_mesh(global.type(), sharding, mesh_);
    const Value mark = ops::sharding_mark(global, tiles.sharding);
    Value out = ops::custom_call(builder_, "SPMDFullToShardShape", {mark}, shard_type(global.type(), sharding));
    builder_.set_sharding(out, manual);
    if (tiles.moves.pairs.empty()) return out;
    out = ops::collective_permute(out, tiles.moves, next_channel_++);
    builder_.set_sharding(out, manual);
    return out;
  }

  // A computation of (shards, token) that sends the part of the shards given by `sizes`.
  ComputationId sending_branch(const Type& both, const Sizes& sizes) {
    ProgramBuilder& program = builder_.program();
    Builder branch = program.computation(fmt::format("{}_branch", old_.name));
    const Value parameter = ops::parameter(branch, 0, both);
    const Value token = ops::get_tuple_element(parameter, 1);
    if (sizes.empty()) return program.add(std::move(branch), token);
    LeafValues leaves = take_apart(ops::get_tuple_element(parameter, 0));
    std::vector<Type> types;
    for (int i = 0; i < isize(leaves); ++i) {
      std::vector<SliceRange> ranges;
      for (const auto size : at(sizes, i)) ranges.push_back({0, size, 1});
      if (at(leaves, i).type().dims() != at(sizes, i)) at(leaves, i) = ops::slice(at(leaves, i), std::move(ranges));
      types.push_back(at(leaves, i).type());
    }
    const bool is_tuple = both.elements()[0].is_tuple();
    const Value data = is_tuple ? ops::tuple(branch, leaves) : leaves.front();
    const Value sent = branch.emit(*old_.op, {data, token}, old_.attributes,
                                   {.type = Type::token(), .notes = sending(old_.notes, data.type())});
    return program.add(std::move(branch), sent);
  }

  Builder& builder_;
  const Mesh& mesh_;
  std::int64_t& next_channel_;
  const Instruction& old_;
  Shardings shardings_;
  Value data_;
  Value token_;
  std::vector<Id> control_;
  std::int64_t sender_ = -1;  // the only device that sends, or -1
  std::map<Sizes, int> branches_;
  std::vector<std::int32_t> branch_of_;  // by device
};

}  // namespace

Program with_outfeeds_of_shards(const Program& program) {
  if (program.num_partitions == 1) return program;
  Program with_meshes = program;
  Shardings sent;
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions) {
      if (sharding_text(instruction) == nullptr) continue;
      const Type& data = (*computation)[instruction.operands[0]].type;
      if (const auto own = sent_shardings(instruction, data, program.num_partitions, with_meshes.meshes))
        sent.insert(sent.end(), own->begin(), own->end());
    }
  if (sent.empty()) return program;
  const Mesh mesh = mesh_of_outfeeds(with_meshes, sent);
  std::int64_t next_channel = free_channel(program);
  const auto rule = [&](ComputationRewriter& r, Id id) -> Value {
    const Instruction& old = r.from()[id];
    if (sharding_text(old) == nullptr) return {};
    const Type& data = r.from()[old.operands[0]].type;
    auto shardings = sent_shardings(old, data, program.num_partitions, with_meshes.meshes);
    if (!shardings) return {};
    return ShardSender(r, id, *std::move(shardings), mesh, next_channel).emit();
  };
  return rewrite(with_meshes, rule, has_sharded_outfeed);
}

}  // namespace tessera
