// SPDX-License-Identifier: Apache-2.0
#include "text/sharding_texts.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

// Calls f(instruction) for every annotated one, in text order.
template <class F>
void for_each_annotated(const Program& program, F&& f) {
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      if (instruction.sharding) f(instruction);
}

}  // namespace

ShardingTexts::ShardingTexts(const Program& program) {
  for_each_annotated(program, [&](const Instruction& instruction) { entry_of(instruction.sharding); });
  if (follows_from_text(program)) return;
  name_meshes(program);
  meshes_text_ = sdy_meshes_text(meshes_);
  for (auto& leaf : leaves_) {
    auto known = meshes_;
    try {
      const auto read = to_axes({{leaf.hlo, leaf.sharding.ndim()}}, program.num_partitions, known);
      leaf.derivable = known.size() == meshes_.size() && read.front() == leaf.sharding;
    } catch (const Error&) {
      leaf.derivable = false;
    }
  }
}

// Whether the reader derives the same meshes and axes from HLO's text alone.
bool ShardingTexts::follows_from_text(const Program& program) {
  if (leaves_.empty()) return program.meshes.empty();
  std::vector<std::pair<HloSharding, int>> texts;
  for (const auto& leaf : leaves_) texts.emplace_back(leaf.hlo, leaf.sharding.ndim());
  std::vector<Mesh> meshes;
  try {
    const auto read = to_axes(texts, program.num_partitions, meshes);
    const bool same = std::equal(leaves_.begin(), leaves_.end(), read.begin(),
                                 [](const Leaf& leaf, const Sharding& other) { return leaf.sharding == other; });
    return same && meshes == program.meshes &&
           std::equal(meshes.begin(), meshes.end(), program.meshes.begin(),
                      [](const Mesh& a, const Mesh& b) { return a.name() == b.name(); });
  } catch (const Error&) {
    return false;
  }
}

// Collects the program's meshes and those that only shardings name, and gives each a unique name.
void ShardingTexts::name_meshes(const Program& program) {
  std::vector<Mesh> all = program.meshes;
  for (const auto& leaf : leaves_)
    if (std::find(all.begin(), all.end(), leaf.sharding.mesh) == all.end()) all.push_back(leaf.sharding.mesh);
  for (const auto& mesh : all) {
    std::string name = mesh.name().empty() ? "mesh" : mesh.name();
    const std::string base = name;
    const auto taken = [&] {
      return std::any_of(meshes_.begin(), meshes_.end(), [&](const Mesh& other) { return other.name() == name; });
    };
    for (int k = 1; taken(); ++k) name = fmt::format("{}_{}", base, k);
    meshes_.emplace_back(mesh.axes(), mesh.device_order(), name);
  }
}

Sharding ShardingTexts::on_named_mesh(const Sharding& sharding) const {
  Sharding out = sharding;
  out.mesh = *std::find(meshes_.begin(), meshes_.end(), sharding.mesh);
  return out;
}

std::size_t ShardingTexts::leaf_of(const Sharding& sharding) {
  auto& same_hash = by_hash_[sharding.hash()];
  for (const auto index : same_hash)
    if (leaves_[index].sharding == sharding) return index;
  same_hash.push_back(leaves_.size());
  Leaf leaf{sharding, to_hlo(sharding), {}, true};
  leaf.text = hlo_sharding_text(leaf.hlo);
  leaves_.push_back(std::move(leaf));
  return leaves_.size() - 1;
}

ShardingTexts::Entry& ShardingTexts::entry_of(const ShardingRef& sharding) {
  auto [found, fresh] = entries_.try_emplace(sharding.get());
  Entry& entry = found->second;
  if (!fresh) return entry;
  entry.keep = sharding;
  std::vector<std::string> texts;
  for (const auto& leaf : *sharding) {
    entry.leaves.push_back(leaf_of(leaf));
    texts.push_back(leaves_[entry.leaves.back()].text);
  }
  entry.single_text = texts.empty() ? "{}" : texts.front();
  entry.tuple_text = fmt::format("{{{}}}", fmt::join(texts, ", "));
  return entry;
}

const std::string& ShardingTexts::hlo_text(const Instruction& instruction) {
  const Entry& entry = entry_of(instruction.sharding);
  return instruction.type.is_tuple() ? entry.tuple_text : entry.single_text;
}

std::optional<std::pair<std::string, std::string>> ShardingTexts::attribute(const Instruction& instruction) {
  const Entry& entry = entry_of(instruction.sharding);
  if (std::all_of(entry.leaves.begin(), entry.leaves.end(), [&](std::size_t leaf) { return leaves_[leaf].derivable; }))
    return std::nullopt;
  Shardings named;
  for (const auto leaf : entry.leaves) named.push_back(on_named_mesh(leaves_[leaf].sharding));
  return std::pair<std::string, std::string>(
      is_sdy_spelling(named) ? "xla.sdy.sharding" : "tessera.sharding",
      instruction.type.is_tuple() ? sdy_shardings_text(named) : sdy_sharding_text(named.front()));
}

}  // namespace tessera
