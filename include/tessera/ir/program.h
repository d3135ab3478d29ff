// SPDX-License-Identifier: Apache-2.0
// A program is a value: computations of instructions in SSA form, with HLO's opcodes, semantics and text.
//
//   HloModule mlp, num_partitions=2
//   ENTRY %main (x: f32[128,64], w: f32[64,256]) -> f32[128,256] {
//     %x = f32[128,64]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
//     %w = f32[64,256]{1,0} parameter(1)
//     ROOT %h = f32[128,256]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
//   }
//
// The operands of an instruction come before it. The computations that it calls come before its own computation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ir/attributes.h"
#include "tessera/sharding/sharding.h"
#include "tessera/tensor/type.h"

namespace tessera {

struct OpDef;

/// The index of an instruction in its computation.
using Id = std::int32_t;
/// The index of a computation in its program.
using ComputationId = std::int32_t;

/// Properties of an instruction that do not affect its value: its source and other content of the text. Of these,
/// hashes include only frontend_attributes.
struct Notes {
  std::string source_file;  // of metadata={…}
  int source_line = 0;
  std::string op_name;                                                   // metadata op_name
  std::string op_type;                                                   // metadata op_type
  std::vector<TextAttribute> metadata_rest;                              // other fields of metadata={…}, verbatim
  std::vector<std::pair<std::string, std::string>> frontend_attributes;  // unquoted
  std::vector<TextAttribute> other;                                      // attributes that no row has, verbatim
  friend bool operator==(const Notes&, const Notes&) = default;
};
using NotesRef = std::shared_ptr<const Notes>;

/// One operation of a computation. Its value is its result.
struct Instruction {
  const OpDef* op = nullptr;
  Type type;
  std::vector<Id> operands;
  std::vector<ComputationId> called;  // in the order of the op's called-computation attributes
  std::vector<Id> control_predecessors;
  Attributes attributes;  // null if the op has none
  ShardingRef sharding;   // null: no annotation; else one per leaf of the type
  NotesRef notes;         // null if there are none
  std::string name;       // unique in its computation, without %

  [[nodiscard]] const std::string* frontend_attribute(std::string_view key) const;
  /// `train.cpp:41`, or "" if unknown.
  [[nodiscard]] std::string source() const;
};

/// Returns the notes with one frontend attribute set, or removed if it is nullopt.
NotesRef with_frontend_attribute(const NotesRef& notes, std::string_view key, std::optional<std::string> value);

/// Returns the notes for an instruction with another op. Omits the attributes in Notes::other, because these belong to
/// the original op (such as operand_precision).
NotesRef for_another_op(const NotesRef& notes);

/// A list of instructions with parameters and a root.
struct Computation {
  std::string name;
  std::vector<Instruction> instructions;
  std::vector<Id> parameters;  // parameters[k] is parameter(k)
  Id root = -1;
  std::string execution_thread;  // "" is the main thread

  [[nodiscard]] const Instruction& operator[](Id id) const { return instructions[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Id size() const { return static_cast<Id>(instructions.size()); }
  [[nodiscard]] const Type& root_type() const { return (*this)[root].type; }
  [[nodiscard]] std::vector<Type> parameter_types() const;
  /// How often each value is an operand. The root has one additional use.
  [[nodiscard]] std::vector<int> use_counts() const;
  /// The instructions that use each value, each once, in order.
  [[nodiscard]] std::vector<std::vector<Id>> users() const;
};
using ComputationRef = std::shared_ptr<const Computation>;

/// `{1}: (0, {}, may-alias)`: result leaf `output` may use the buffer of parameter leaf `parameter_index`.
struct Alias {
  Dims output;
  std::int64_t parameter = 0;
  Dims parameter_index;
  bool must = false;
  friend bool operator==(const Alias&, const Alias&) = default;
};

/// An HLO module. It is not changed after it was built.
struct Program {
  std::string name = "module";
  std::vector<ComputationRef> computations;  // callees first
  ComputationId entry = -1;
  std::int64_t num_partitions = 1;
  std::int64_t replica_count = 1;
  std::vector<Alias> aliases;
  std::vector<Mesh> meshes;  // the meshes of the shardings; the first is the default
  bool partitioned = false;  // a per-device program from the partitioner, or marked as such in its text
  bool lowered = false;      // a program that lower() made: what a rank executes
  std::vector<bool> propagate_to_parameters;  // allow_spmd_sharding_propagation_to_parameters; one entry = for all
  std::vector<bool> propagate_to_output;
  std::vector<std::pair<std::string, std::string>> frontend_attributes;
  std::vector<TextAttribute> other;  // header attributes kept verbatim

  [[nodiscard]] const Computation& operator[](ComputationId id) const {
    return *computations[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const Computation& entry_computation() const { return (*this)[entry]; }
  [[nodiscard]] std::size_t instruction_count() const;
  /// The hash of everything that can change results or shardings. It does not include names, sources and Notes::other.
  [[nodiscard]] std::size_t hash() const;
};

}  // namespace tessera
