// SPDX-License-Identifier: Apache-2.0
#include "normalize/manual_regions.h"

#include <algorithm>

#include "normalize/manual.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/hlo_sharding.h"

namespace tessera {
namespace {

// The shardings at borders and of values in regions.
std::vector<const Sharding*> shardings_of_regions(const Program& program) {
  std::vector<const Sharding*> all;
  const auto add = [&](const Instruction& instruction) {
    if (!instruction.sharding || instruction.sharding->size() != 1) return;
    const Sharding& sharding = instruction.sharding->front();
    if (sharding.is_tiled() && !sharding.used_axes().empty()) all.push_back(&sharding);
  };
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions) {
      if (is_annotated_manual(instruction)) add(instruction);
      if (manual_border(instruction) == ManualBorder::kNone || instruction.operands.empty()) continue;
      add(instruction);
      add((*computation)[instruction.operands[0]]);
    }
  return all;
}

Mesh mesh_of_regions(const Program& program, const std::vector<Mesh>& meshes) {
  const auto all = shardings_of_regions(program);
  // Another mesh may pair the devices of a partly manual region differently, so it is only the second choice.
  for (const bool is_own_mesh : {true, false})
    for (const Mesh& mesh : meshes) {
      const auto is_on_mesh = [&](const Sharding* sharding) {
        if (sharding->mesh == mesh) return true;
        if (is_own_mesh && !sharding->manual.empty()) return false;
        return to_axes(to_hlo(*sharding), mesh, sharding->ndim()).has_value();
      };
      if (std::all_of(all.begin(), all.end(), is_on_mesh)) return mesh;
    }
  return all.empty() ? meshes.front() : all.front()->mesh;
}

}  // namespace

Axes without(Axes a, const Axes& b) {
  std::erase_if(a, [&](const AxisRef& axis) { return overlaps_any(b, axis); });
  return a;
}

bool is_annotated_manual(const Instruction& instruction) {
  if (!instruction.sharding || instruction.sharding->empty()) return false;
  const Sharding& first = instruction.sharding->front();
  return first.kind == Sharding::Kind::kManual || !first.manual.empty();
}

// ---- RegionMesh -----------------------------------------------------------------------------------------------------

RegionMesh::RegionMesh(const Program& program) : meshes_(program.meshes) {
  if (meshes_.empty()) meshes_.push_back(Mesh({{"devices", program.num_partitions}}));
  const auto found = std::find(meshes_.begin(), meshes_.end(), mesh_of_regions(program, meshes_));
  if (found != meshes_.end()) std::rotate(meshes_.begin(), found, found + 1);
}

Sharding RegionMesh::on_mesh(const Sharding& sharding) const {
  if (sharding.mesh == mesh() || !sharding.is_tiled()) return sharding;
  auto same = to_axes(to_hlo(sharding), mesh(), sharding.ndim());
  require(same.has_value(), "a manual region over {}, in a program over {}, is not supported", sharding.mesh, mesh());
  for (int d = 0; d < sharding.ndim(); ++d) at(same->dims, d).open = at(sharding.dims, d).open;
  return *same;
}

Axes RegionMesh::manual_of(const Sharding& sharding) const {
  if (sharding.kind != Sharding::Kind::kManual) return on_mesh(sharding).manual;
  Axes all;
  for (int a = 0; a < mesh().axis_count(); ++a)
    if (mesh().axes()[static_cast<std::size_t>(a)].size > 1) all.push_back(mesh().full_axis(a));
  return all;
}

Axes RegionMesh::named_axes(const std::string& text) const {
  Axes out;
  for (std::size_t from = text.find('"'); from != std::string::npos; from = text.find('"', from)) {
    const auto to = text.find('"', from + 1);
    if (to == std::string::npos) break;
    std::string name = text.substr(from + 1, to - from - 1);
    if (!name.empty() && name.back() == '\\') name.pop_back();
    const AxisRef axis = mesh().full_axis(name);
    if (axis.size > 1) out.push_back(axis);  // an axis of one device has no effect
    from = to + 1;
  }
  std::sort(out.begin(), out.end());
  return out;
}

// ---- ManualAxes -----------------------------------------------------------------------------------------------------

ManualAxes::ManualAxes(const RegionMesh& mesh, const Computation& from, Axes context, bool is_function,
                       const std::vector<bool>& computations_with_effects)
    : mesh_(mesh), from_(from), context_(std::move(context)), is_function_(is_function) {
  for (Id id = 0; id < from.size(); ++id) {
    Axes axes = context_;
    for (const Id operand : from[id].operands)
      if (!from[operand].type.is_token()) axes = united(axes, of(operand));  // a token gives an order, not a placement
    switch (manual_border(from[id])) {
      case ManualBorder::kNone:
        if (!is_function && is_annotated_manual(from[id]))
          axes = united(axes, mesh.manual_of(from[id].sharding->front()));
        break;
      case ManualBorder::kEnter: axes = united(axes, of_border(id)); break;
      case ManualBorder::kLeave: axes = without(axes, of_border(id)); break;
    }
    manual_.push_back(std::move(axes));
  }
  find_free(computations_with_effects);
}

// A value without operands is created in every region that reads it, and so are values computed only from such values.
void ManualAxes::find_free(const std::vector<bool>& computations_with_effects) {
  std::vector<bool> is_free(from_.instructions.size());
  for (Id id = 0; id < from_.size(); ++id)
    is_free[static_cast<std::size_t>(id)] =
        from_[id].op->role != Role::kParameter && of(id) == context_ &&
        manual_border(from_[id]) == ManualBorder::kNone &&
        std::all_of(from_[id].operands.begin(), from_[id].operands.end(), [&](Id o) { return at(is_free, o); });
  const auto users = from_.users();
  for (Id id = from_.size() - 1; id >= 0; --id) {
    if (!at(is_free, id) || (at(users, id).empty() && id != from_.root)) continue;
    std::set<Axes> sides;
    for (const Id user : at(users, id)) add_sides(user, sides);
    if (id == from_.root) sides.insert(context_);
    if (sides.size() > 1 && has_side_effect(from_[id], computations_with_effects)) sides = {context_};
    auto& found = sides_[id];
    if (sides.erase(context_) > 0) found.push_back(context_);
    found.insert(found.end(), sides.begin(), sides.end());
    at(manual_, id) = found.front();
  }
}

// The regions in which `user` reads its operands.
void ManualAxes::add_sides(Id user, std::set<Axes>& sides) const {
  if (const auto found = sides_.find(user); found != sides_.end()) {
    sides.insert(found->second.begin(), found->second.end());
    return;
  }
  switch (manual_border(from_[user])) {
    case ManualBorder::kNone: sides.insert(of(user)); break;
    case ManualBorder::kEnter: sides.insert(context_); break;
    case ManualBorder::kLeave: sides.insert(united(of(user), of_border(user))); break;
  }
}

std::vector<Axes> ManualAxes::others(Id id) const {
  const auto found = sides_.find(id);
  if (found == sides_.end() || found->second.empty()) return {};
  return {found->second.begin() + 1, found->second.end()};
}

Axes ManualAxes::of_border(Id id) const {
  const Instruction& border = from_[id];
  if (const auto* text = border.frontend_attribute(kSdyManualAxes)) return mesh_.named_axes(*text);
  require(border.sharding != nullptr, "%{} needs a sharding that names the manual axes", border.name);
  Axes own = mesh_.manual_of(border.sharding->front());
  if (manual_border(border) == ManualBorder::kEnter) return own;
  own = without(of(border.operands[0]), own);
  require(!own.empty() || mesh_.mesh().device_count() == 1,
          "%{0} leaves a manual region, but its operand %{1} is not in one; remove %{0}", border.name,
          from_[border.operands[0]].name);
  return own;
}

}  // namespace tessera
