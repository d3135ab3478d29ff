// SPDX-License-Identifier: Apache-2.0
// Converts the sharding texts of a module, all together, to axes of as few meshes as possible.
#include <algorithm>
#include <type_traits>

#include "emit_checks.h"
#include "tessera/base/text.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/sharding/placement.h"
#include "text/maximal_meshes.h"
#include "text/text_reader.h"

namespace tessera {
namespace {

class ShardingAttacher {
 public:
  ShardingAttacher(ModuleState& state, const ModuleHeader& header) : state_(state), header_(header) {}

  void run(const std::vector<Mesh>& known) {
    Program& program = state_.program;
    program.meshes = known;
    if (!header_.meshes.empty()) read_meshes();
    std::erase_if(state_.shardings, [&](const auto& item) { return specifies_nothing(item); });
    if (state_.shardings.empty() && program.meshes.empty()) return;
    read_named();
    find_device_count();
    for (const auto& item : state_.shardings) collect(item);
    if (!leaves_.empty()) {
      try {
        converted_ = to_axes(leaves_, program.num_partitions, program.meshes);
      } catch (const Error&) {
        explain_failure();
        throw;
      }
    }
    attach_all();
  }

 private:
  // Reads Shardy's meshes. A sharding on a mesh without axes is fully replicated on the devices of any other mesh.
  void read_meshes() {
    sdy_meshes_ = with_place(state_.in, header_.meshes_position, [&] { return parse_sdy_meshes(header_.meshes); });
    name_maximal_meshes();
    auto& meshes = state_.program.meshes;
    std::copy_if(sdy_meshes_.begin(), sdy_meshes_.end(), std::back_inserter(meshes),
                 [](const Mesh& mesh) { return !mesh.axes().empty(); });
    if (meshes.empty()) {
      meshes.push_back(mesh_of_all_devices());
      sdy_meshes_.insert(sdy_meshes_.begin(),
                         meshes.front());  // the mesh that contains the device of a single-device mesh
    }
    // In Shardy, propagation chooses the shardings of parameters and results without annotation.
    if (!header_.is_shardy) return;
    for (auto* may_choose : {&state_.program.propagate_to_parameters, &state_.program.propagate_to_output})
      if (may_choose->empty()) *may_choose = {true};
  }

  // The mesh if no text names axes, as when a single device holds everything.
  [[nodiscard]] Mesh mesh_of_all_devices() const {
    const std::int64_t partitions = header_.has_num_partitions ? state_.program.num_partitions : 1;
    return Mesh({{"devices", std::max(partitions, most_devices_)}});
  }

  void name_maximal_meshes() {
    for (const auto& [name, device] : maximal_meshes_in(header_.meshes)) {
      if (device >= 0 && device < std::int64_t{1} << 20) most_devices_ = std::max(most_devices_, device + 1);
      for (auto& item : state_.shardings) item.sdy = with_mesh(item.sdy, name, fmt::format("maximal_mesh_{}", device));
    }
  }

  static std::string with_mesh(std::string text, const std::string& name, const std::string& other) {
    const std::string old = fmt::format("<@{},", name);
    for (auto found = text.find(old); name != other && found != std::string::npos; found = text.find(old, found + 1))
      text.replace(found + 2, name.size(), other);
    return text;
  }

  // Shardings whose text names axes define their own meshes.
  void read_named() {
    for (auto& item : state_.shardings) {
      if (!item.sdy.empty() || !is_named_sharding(item.hlo)) continue;
      std::vector<int> ndims;
      for (const auto& leaf : type_of(item).leaves()) ndims.push_back(ndim_of(leaf));
      item.named = with_place(state_.in, item.position,
                              [&] { return parse_named_shardings(item.hlo, ndims, state_.program.num_partitions); });
      auto& meshes = state_.program.meshes;
      for (auto& leaf : item.named) {
        if (leaf.kind == Sharding::Kind::kMaximal || leaf.mesh.axes().empty()) continue;
        auto known = std::find(meshes.begin(), meshes.end(), leaf.mesh);
        if (known == meshes.end()) {
          const std::string name = meshes.empty() ? "mesh" : fmt::format("mesh_{}", meshes.size());
          known = meshes.insert(meshes.end(), Mesh(leaf.mesh.axes(), leaf.mesh.device_order(), name));
        }
        leaf.mesh = *known;
      }
    }
    if (state_.program.meshes.empty()) return;
    for (auto& item : state_.shardings)  // maximal shardings and the mesh without axes are valid on any mesh
      for (auto& leaf : item.named)
        if (leaf.kind == Sharding::Kind::kMaximal || leaf.mesh.axes().empty())
          leaf.mesh = state_.program.meshes.front();
  }

  const std::vector<HloSharding>& parsed(const PendingSharding& item) {
    auto& slot = parsed_[item.hlo];
    if (slot.empty() && item.hlo != "{}")
      slot = with_place(state_.in, item.position, [&] { return parse_hlo_sharding(item.hlo); });
    return slot;
  }

  // num_partitions of the header, else the number that meshes or shardings imply; all must agree.
  void find_device_count() {
    Program& program = state_.program;
    std::int64_t count = header_.has_num_partitions ? program.num_partitions : 0;
    const auto agree = [&](std::int64_t own, std::size_t position, std::string_view what) {
      if (count == 0) count = own;
      if (own != count)
        state_.in.fail_at(position, fmt::format("{} is over {} devices, the module over {}", what, own, count));
    };
    for (const auto& mesh : program.meshes) agree(mesh.device_count(), header_.meshes_position, mesh.str());
    std::int64_t highest = 0;
    std::size_t highest_position = 0;
    for (const auto& item : state_.shardings) {
      if (!item.sdy.empty() || !item.named.empty()) continue;
      for (const auto& leaf : parsed(item)) {
        if (leaf.kind == HloSharding::Kind::kTiled)
          agree(static_cast<std::int64_t>(leaf.devices.size()), item.position, "this sharding");
        if (leaf.device <= highest) continue;
        highest = leaf.device;
        highest_position = item.position;
      }
    }
    if (count == 0) count = highest + 1;
    if (highest >= count)
      state_.in.fail_at(highest_position, fmt::format("device {} in a module over {} devices", highest, count));
    if (count > (std::int64_t{1} << 20)) state_.in.fail_at(highest_position, "more than 2^20 devices");
    program.num_partitions = count;
  }

  // Whether this is the sharding of an empty tuple, which XLA accepts on arrays.
  [[nodiscard]] bool specifies_nothing(const PendingSharding& item) const {
    return item.sdy.empty() && !type_of(item).is_tuple() && item.hlo.starts_with('{') &&
           trim(item.hlo.substr(1)) == "}";
  }

  [[nodiscard]] const Type& type_of(const PendingSharding& item) const {
    return state_.program[item.computation][item.instruction].type;
  }

  static int ndim_of(const Type& leaf) { return leaf.is_array() ? leaf.ndim() : 0; }

  // The arrays that an outfeed sends; empty for other ops.
  [[nodiscard]] std::vector<Type> sent_by(const PendingSharding& item) const {
    const Computation& computation = state_.program[item.computation];
    const Instruction& instruction = computation[item.instruction];
    if (instruction.op->name != "outfeed") return {};
    return computation[instruction.operands[0]].type.leaves();
  }

  // Whether the only sharding of an outfeed is that of its token: it has no dims, only the manual axes of a region.
  static bool is_of_token(const std::vector<HloSharding>& given) {
    if (given.size() != 1 || given.front().kind != HloSharding::Kind::kTiled) return false;
    const auto& types = given.front().subgroup_types;
    return given.front().tile_dims.size() == types.size() &&
           std::find(types.begin(), types.end(), SubgroupType::kManual) != types.end();
  }

  // An outfeed returns a token, but its shardings describe the arrays that it sends, and possibly a token. Only that of
  // the token is the sharding of its result.
  template <class T>
  [[nodiscard]] std::vector<T> of_result(const PendingSharding& item, std::vector<T> given) const {
    const int sent = isize(sent_by(item));
    if (sent == 0) return given;
    if (isize(given) == sent + 1) return {given.back()};
    if constexpr (std::is_same_v<T, HloSharding>)
      if (isize(given) == sent && given.front().kind == HloSharding::Kind::kTiled && !is_of_token(given))
        return {HloSharding{}};
    return given;
  }

  // Whether this is an outfeed of which not all devices send the complete value.
  bool is_of_sent_arrays(const PendingSharding& item) {
    const std::size_t sent = sent_by(item).size();
    if (sent == 0 || item.hlo.empty() || is_named_sharding(item.hlo)) return false;
    const auto& given = parsed(item);
    if (is_of_token(given)) return false;
    const auto end = given.begin() + static_cast<std::ptrdiff_t>(std::min(sent, given.size()));
    return std::any_of(given.begin(), end, [](const HloSharding& leaf) {
      return leaf.kind == HloSharding::Kind::kTiled || leaf.kind == HloSharding::Kind::kMaximal;
    });
  }

  // For an outfeed: checks that each sharding has as many dims as its array.
  void check_sent(const PendingSharding& item) {
    const auto types = sent_by(item);
    const auto& given = parsed(item);
    if (types.empty() || isize(given) < isize(types) || is_of_token(given)) return;
    for (std::size_t i = 0; i < types.size(); ++i) check_ndim(given[i], types[i]);
  }
  static void check_ndim(const HloSharding& leaf, const Type& type) {
    if (leaf.kind != HloSharding::Kind::kTiled) return;
    const auto own = isize(leaf.tile_dims) - isize(leaf.subgroup_types);
    const int ndim = ndim_of(type);
    require(
        own == ndim, "sharding {} has {} dim{}, {} has {}", [&] { return hlo_sharding_text(leaf); }, own,
        own == 1 ? "" : "s", type, ndim);
  }

  // The text leaf for a leaf of the type: a single sharding on a tuple applies to all its leaves.
  template <class T>
  static const T& leaf_of(const std::vector<T>& given, std::size_t leaf, std::size_t count, const Type& type) {
    require(given.size() == count || given.size() == 1, "{} shardings for the {} leaves of {}", given.size(), count,
            type);
    return given.size() == 1 ? given.front() : given[leaf];
  }

  // Collects the (text, ndim) pairs to convert.
  void collect(const PendingSharding& item) {
    if (!item.sdy.empty() || !item.named.empty()) return;
    const Type& type = type_of(item);
    const auto types = type.leaves();
    const auto given = of_result(item, parsed(item));
    with_place(state_.in, item.position, [&] {
      check_sent(item);
      for (std::size_t i = 0; i < types.size(); ++i) {
        const HloSharding& leaf = leaf_of(given, i, types.size(), type);
        const int ndim = ndim_of(types[i]);
        check_ndim(leaf, types[i]);
        HloSharding bare = leaf;
        bare.suffix.clear();
        const auto [entry, fresh] = index_.try_emplace(key_of(bare, ndim), leaves_.size());
        if (!fresh) continue;
        leaves_.emplace_back(std::move(bare), ndim);
        leaf_items_.push_back(&item);
      }
      require(types.empty() ? given.size() <= 1 : !given.empty(), "{} shardings for the {} leaves of {}", given.size(),
              types.size(), type);
    });
  }

  static std::string key_of(const HloSharding& bare, int ndim) {
    return fmt::format("{}{}", hlo_sharding_text(bare), ndim);
  }

  // Converts the texts one by one to find the invalid one.
  void explain_failure() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      std::vector<Mesh> meshes = state_.program.meshes;
      with_place(state_.in, leaf_items_[i]->position,
                 [&] { to_axes({leaves_[i]}, state_.program.num_partitions, meshes); });
    }
  }

  // backend_config="unspecified_dims=[0,2]" of a Sharding custom-call: propagation may shard these dims further.
  static void open_unspecified(const Instruction& instruction, Shardings& leaves) {
    if (!instruction.notes || leaves.size() != 1 || !leaves[0].is_tiled()) return;
    for (const auto& attribute : instruction.notes->other) {
      constexpr std::string_view kKey = "unspecified_dims=[";
      const auto found = attribute.name == "backend_config" ? attribute.text.find(kKey) : std::string::npos;
      if (found == std::string::npos) continue;
      const auto first = found + kKey.size();
      const auto last = attribute.text.find(']', first);
      require(last != std::string::npos, "unspecified_dims is never closed: {}", attribute.text);
      Dims dims;
      parse_field("{" + attribute.text.substr(first, last - first) + "}", dims);
      for (const auto d : dims) {
        require(d >= 0 && d < leaves[0].ndim(), "unspecified_dims names dim {} of {}", d, leaves[0].ndim());
        at(leaves[0].dims, d).open = true;
      }
    }
  }

  static std::string unspecified_text(const Instruction& instruction) {
    if (!instruction.notes) return {};
    for (const auto& attribute : instruction.notes->other)
      if (attribute.name == "backend_config" && attribute.text.find("unspecified_dims") != std::string::npos)
        return attribute.text;
    return {};
  }

  // XLA's partitioner leaves Shardy's attributes of global values on local ones; only borders and annotations count.
  bool is_left_over(const PendingSharding& item, const std::vector<Sharding>& given) const {
    const Instruction& instruction = state_.program[item.computation][item.instruction];
    if (!item.hlo.empty() || instruction.op->role == Role::kParameter || instruction.op->role == Role::kShardingMark)
      return false;
    const auto types = instruction.type.leaves();
    if (given.size() != types.size()) return true;
    for (std::size_t i = 0; i < types.size(); ++i)
      if (given[i].is_tiled() && given[i].ndim() != ndim_of(types[i])) return true;
    return false;
  }

  // JAX writes the shardings of a complete tuple on each of its elements.
  std::vector<Sharding> of_element(const PendingSharding& item, std::vector<Sharding> given) const {
    const Computation& computation = state_.program[item.computation];
    const Instruction& instruction = computation[item.instruction];
    if (instruction.op->role != Role::kGetTupleElement) return given;
    const Type& tuple = computation[instruction.operands[0]].type;
    const int own = instruction.type.leaf_count();
    if (isize(given) == own || isize(given) != tuple.leaf_count()) return given;
    int first = 0;
    std::int64_t index = 0;
    for (const TextAttribute& attribute : instruction.attributes->texts())
      if (attribute.name == "index") parse_field(attribute.text, index);
    for (std::int64_t k = 0; k < index; ++k) first += at(tuple.elements(), k).leaf_count();
    return {given.begin() + first, given.begin() + first + own};
  }

  // HLO's own text next to Shardy's axes must be equivalent, or replicated (as if Shardy had not been exported).
  void require_agreement(const PendingSharding& item, const std::vector<Type>& types, const Shardings& axes) {
    if (item.sdy.empty() || item.hlo.empty() || is_named_sharding(item.hlo)) return;
    const auto given = of_result(item, parsed(item));
    for (std::size_t i = 0; i < types.size(); ++i) {
      const HloSharding& leaf = leaf_of(given, i, types.size(), type_of(item));
      const bool is_plain = leaf.kind == HloSharding::Kind::kTiled && types[i].is_array() && axes[i].is_tiled() &&
                            axes[i].manual.empty() && !axes[i].is_partial() &&
                            std::all_of(leaf.subgroup_types.begin(), leaf.subgroup_types.end(),
                                        [](SubgroupType t) { return t == SubgroupType::kReplicated; });
      if (!is_plain) continue;
      const auto own = isize(leaf.tile_dims) - isize(leaf.subgroup_types);
      bool is_same = isize(leaf.devices) == axes[i].mesh.device_count() && own == types[i].ndim();
      if (is_same) {
        std::vector<Mesh> meshes{axes[i].mesh};
        const Sharding tiled = to_axes({{leaf, types[i].ndim()}}, axes[i].mesh.device_count(), meshes).front();
        is_same = same_placement(types[i], tiled, axes[i]);
      }
      require(is_same, "sharding={} contradicts the axes given with it, {}", item.hlo, axes[i].str());
    }
  }

  ShardingRef convert(const PendingSharding& item, std::string& suffix) {
    const Type& type = type_of(item);
    const auto types = type.leaves();
    Shardings out;
    if (!item.sdy.empty() || !item.named.empty()) {
      const auto given =
          of_result(item, item.sdy.empty() ? item.named : of_element(item, parse_sdy_shardings(item.sdy, sdy_meshes_)));
      if (is_left_over(item, given)) return nullptr;
      for (std::size_t i = 0; i < types.size(); ++i) {
        out.push_back(leaf_of(given, i, types.size(), type));
        if (out.back().mesh.axes().empty()) out.back().mesh = state_.program.meshes.front();
      }
      if (types.size() == 1 && item.hlo.find(" shard_") != std::string::npos) suffix = parsed(item).front().suffix;
      require_agreement(item, types, out);
      for (const auto& leaf : out)
        require(leaf.mesh.device_count() == state_.program.num_partitions, "{} has {} devices, the module {}",
                leaf.mesh, leaf.mesh.device_count(), state_.program.num_partitions);
    } else {
      const auto given = of_result(item, parsed(item));
      for (std::size_t i = 0; i < types.size(); ++i) {
        HloSharding bare = leaf_of(given, i, types.size(), type);
        if (types.size() == 1) suffix = bare.suffix;
        bare.suffix.clear();
        out.push_back(at(converted_, index_.at(key_of(bare, ndim_of(types[i])))));
      }
    }
    open_unspecified(state_.program[item.computation][item.instruction], out);
    check_shardings(type, out);
    return make_shardings(std::move(out));
  }

  void attach_all() {
    ByText<std::pair<ShardingRef, std::string>> made;  // by texts and type, to share equal ones
    for (std::size_t i = 0; i < state_.shardings.size();) {
      const auto id = state_.shardings[i].computation;
      auto computation = std::make_shared<Computation>(*at(state_.program.computations, id));
      for (; i < state_.shardings.size() && state_.shardings[i].computation == id; ++i) {
        const auto& item = state_.shardings[i];
        Instruction& instruction = at(computation->instructions, item.instruction);
        auto& [ref, suffix] =
            made[fmt::format("{}|{}|{}|{}", item.hlo, item.sdy, instruction.type.str(), unspecified_text(instruction))];
        if (!ref) ref = with_place(state_.in, item.position, [&, text = &suffix] { return convert(item, *text); });
        instruction.sharding = ref;
        if (is_of_sent_arrays(item))
          instruction.notes = with_frontend_attribute(instruction.notes, kOutfeedShardingKey, item.hlo);
        if (!suffix.empty()) instruction.notes = with_frontend_attribute(instruction.notes, kShardingSuffixKey, suffix);
      }
      at(state_.program.computations, id) = std::move(computation);
    }
  }

  ModuleState& state_;
  const ModuleHeader& header_;
  std::vector<Mesh> sdy_meshes_;
  std::int64_t most_devices_ = 1;  // the number of devices that Shardy's single-device meshes require
  ByText<std::vector<HloSharding>> parsed_;
  std::vector<std::pair<HloSharding, int>> leaves_;
  std::vector<const PendingSharding*> leaf_items_;
  ByText<std::size_t> index_;
  std::vector<Sharding> converted_;
};

}  // namespace

void attach_shardings(ModuleState& state, const ModuleHeader& header, const std::vector<Mesh>& known) {
  ShardingAttacher(state, header).run(known);
}

}  // namespace tessera
