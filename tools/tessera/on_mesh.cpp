// SPDX-License-Identifier: Apache-2.0
#include "on_mesh.h"

#include <algorithm>
#include <optional>

#include "tessera/ops/control_flow.h"
#include "tessera/sharding/hlo_sharding.h"

namespace tessera::command {
namespace {

bool is_on_another_mesh(const Sharding& sharding, const Mesh& mesh) {
  return sharding.is_tiled() && !sharding.used_axes().empty() && !(sharding.mesh == mesh);
}

// Keeps priorities and open dims.
std::optional<Sharding> sharding_on(const Sharding& sharding, const Mesh& mesh) {
  if (!sharding.is_tiled() || sharding.mesh == mesh) return sharding;
  Sharding out = sharding;
  out.mesh = mesh;
  if (sharding.used_axes().empty()) return out;
  const auto same = to_axes(to_hlo(sharding), mesh, sharding.ndim());
  if (!same) return std::nullopt;
  out.partial = same->partial;
  out.manual = same->manual;
  for (int d = 0; d < out.ndim(); ++d)
    out.dims[static_cast<std::size_t>(d)].axes = same->dims[static_cast<std::size_t>(d)].axes;
  return out;
}

bool has_borders(const Computation& computation) {
  return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                     [](const Instruction& i) { return manual_border(i) != ManualBorder::kNone; });
}

}  // namespace

Program on_mesh(const Program& program, const Mesh& mesh) {
  Program out = program;
  for (auto& computation : out.computations) {
    if (has_borders(*computation)) return program;
    Computation changed = *computation;
    for (Instruction& instruction : changed.instructions) {
      if (!instruction.sharding) continue;
      Shardings leaves;
      for (const Sharding& sharding : *instruction.sharding) {
        const auto found = sharding_on(sharding, mesh);
        if (!found) return program;
        leaves.push_back(*found);
      }
      instruction.sharding = make_shardings(std::move(leaves));
    }
    computation = std::make_shared<const Computation>(std::move(changed));
  }
  std::erase_if(out.meshes,
                [&](const Mesh& other) { return !(other == mesh) && other.device_count() == mesh.device_count(); });
  return out;
}

std::string other_mesh_note(const Program& program, const Mesh& mesh) {
  for (const auto& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      if (instruction.sharding)
        for (const Sharding& sharding : *instruction.sharding)
          if (is_on_another_mesh(sharding, mesh))
            return fmt::format(
                "note: the text shards %{} over {}, which {} of --mesh cannot express: values are resharded between "
                "the two meshes\n",
                instruction.name, sharding.mesh.str(), mesh.str());
  return "";
}

}  // namespace tessera::command
