// SPDX-License-Identifier: Apache-2.0
// The builder of programs. It infers types, checks operands, and attaches names, notes and source locations.
//
//   ProgramBuilder program("mlp");
//   Builder main = program.computation("main");
//   Value x = main.parameter(0, type, "x");
//   Value h = ops::dot(x, w, {...});
//   ComputationId id = program.add(std::move(main), h);
//   Program done = program.finish(id);
#pragma once

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ir/op_def.h"
#include "tessera/ir/program.h"

namespace tessera {

class Builder;
class ProgramBuilder;

/// A value of the computation that `builder` builds. It owns nothing and is inexpensive to copy.
struct Value {
  Builder* builder = nullptr;
  Id id = -1;
  [[nodiscard]] const Type& type() const;
  [[nodiscard]] const Instruction& instruction() const;
  [[nodiscard]] bool is_null() const { return builder == nullptr; }
  friend bool operator==(const Value&, const Value&) = default;
};

/// Optional arguments of emit.
struct EmitOptions {
  Type type{};  // the declared type, for ops that cannot infer their type; the empty tuple: none
  std::vector<ComputationId> called{};
  ShardingRef sharding{};
  NotesRef notes{};    // null: the builder's default notes
  std::string name{};  // "": derived from the op's name; made unique if it is taken
  std::vector<Id> control_predecessors{};
};

/// The names in a computation, by their hashes. If two names have the same hash, one of them gets an unnecessary
/// suffix, which is harmless.
class TakenNames {
 public:
  /// Takes a name. Returns the last suffix that was tried for it, and whether the name is new. The reference is valid
  /// until the next call.
  std::pair<int&, bool> take(std::string_view name);

 private:
  struct Slot {
    std::size_t hash = 0;  // 0: free
    int suffix = 0;
  };
  Slot& find(std::size_t hash);
  std::vector<Slot> slots_;  // open addressing, because a program may have hundreds of thousands of names
  std::size_t count_ = 0;
};

/// One computation under construction.
class Builder {
 public:
  Builder(ProgramBuilder& program, std::string name) : program_(&program) { computation_.name = std::move(name); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  Builder(Builder&&) = default;  // Values hold the builder's address: move only before the first emit
  Builder& operator=(Builder&&) = default;

  /// Appends an instruction. Errors begin with the op and end with the operands and the source location, as in
  /// error.h.
  Value emit(const OpDef& op, const std::vector<Value>& operands, Attributes attributes = nullptr,
             EmitOptions options = {});
  /// Appends a finished instruction whose operands are ids of this computation. Checks only the ids and infers
  /// nothing, so rewriters can copy unchanged instructions at low cost.
  Value append(Instruction instruction);

  /// Ends the computation without adding it to the program. For rewriters that keep computation ids.
  [[nodiscard]] Computation finish(Value root) &&;
  [[nodiscard]] const Instruction& operator[](Id id) const { return computation_[id]; }
  [[nodiscard]] const Computation& computation() const { return computation_; }
  [[nodiscard]] Value value(Id id) { return {this, id}; }
  [[nodiscard]] ProgramBuilder& program() { return *program_; }
  void set_sharding(Value value, ShardingRef sharding);
  void set_name(Value value, std::string_view name);
  void set_notes(Value value, NotesRef notes);
  /// The notes of instructions that are emitted without their own notes (a source line, a unit).
  NotesRef default_notes;
  /// The function of the user that emits the ops. Errors name it in place of the op; "": they name the op.
  std::string_view called_as{};

 private:
  friend class ProgramBuilder;
  void make_unique(std::string& name);
  ProgramBuilder* program_;
  Computation computation_;
  TakenNames names_;
};

/// A program under construction; owns finished computations.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name) { program_.name = std::move(name); }
  /// Starts with the header and the computations of a program. Their ids stay valid.
  explicit ProgramBuilder(const Program& from) : program_(from) {}
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  [[nodiscard]] Builder computation(std::string name) { return Builder(*this, std::move(name)); }
  /// Ends a computation; its name is made unique.
  ComputationId add(Builder&& builder, Value root);
  /// The same for a finished computation.
  ComputationId add(ComputationRef computation);
  [[nodiscard]] Program finish(ComputationId entry);
  /// The header and the computations finished so far.
  [[nodiscard]] Program& program() { return program_; }
  [[nodiscard]] const Program& program() const { return program_; }

 private:
  Program program_;
};

/// Appends the instructions of a computation, with `arguments` in place of its parameters. Returns the root.
Value inlined(Builder& into, const Computation& computation, const std::vector<Value>& arguments);

/// Returns notes with a source line.
NotesRef notes_at(std::source_location where);

}  // namespace tessera
