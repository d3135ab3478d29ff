// SPDX-License-Identifier: Apache-2.0
// The sharding texts of a program that is to be printed: HLO's text for every annotated instruction, and Shardy's only
// if a reader could not derive the same axes from HLO's text.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/ir/program.h"
#include "tessera/sharding/hlo_sharding.h"

namespace tessera {

class ShardingTexts {
 public:
  explicit ShardingTexts(const Program& program);
  /// The text of `sharding=`.
  [[nodiscard]] const std::string& hlo_text(const Instruction& instruction);
  /// The xla.sdy.sharding (or tessera.sharding) attribute that the instruction needs, if any.
  [[nodiscard]] std::optional<std::pair<std::string, std::string>> attribute(const Instruction& instruction);
  /// The text of tessera.meshes; empty if the meshes follow from the shardings.
  [[nodiscard]] const std::string& meshes_text() const { return meshes_text_; }

 private:
  struct Leaf {
    Sharding sharding;
    HloSharding hlo;
    std::string text;
    bool derivable = true;  // the axes follow from HLO's text and the meshes
  };
  /// The texts of an annotation, computed once for each shared list of leaves.
  struct Entry {
    ShardingRef keep;  // keeps the key alive
    std::vector<std::size_t> leaves;
    std::string single_text;
    std::string tuple_text;
  };
  Entry& entry_of(const ShardingRef& sharding);
  std::size_t leaf_of(const Sharding& sharding);
  bool follows_from_text(const Program& program);
  void name_meshes(const Program& program);
  [[nodiscard]] Sharding on_named_mesh(const Sharding& sharding) const;

  std::vector<Leaf> leaves_;
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash_;
  boost::unordered_flat_map<const Shardings*, Entry> entries_;
  std::vector<Mesh> meshes_;
  std::string meshes_text_;
};

}  // namespace tessera
