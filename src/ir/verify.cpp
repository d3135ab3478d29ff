// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emit_checks.h"
#include "tessera/base/text.h"
#include "tessera/base/text_cursor.h"
#include "tessera/ir/text.h"
#include "verify_devices.h"

namespace tessera {
namespace {

bool is_name(std::string_view name) { return !name.empty() && TextCursor(name).peek_identifier() == name; }

void verify_operands(const Computation& computation, Id id) {
  const Instruction& instruction = computation[id];
  for (const Id operand : instruction.operands) {
    ensure(operand >= 0 && operand < computation.size(), "operand {} of {} instructions", operand, computation.size());
    ensure(operand < id, "operand %{} is not defined before it", computation[operand].name);
  }
  for (const Id before : instruction.control_predecessors)
    ensure(before >= 0 && before < id, "control predecessor {} is not defined before it", before);
}

void verify_type(const Program& program, const Computation& computation, const Instruction& instruction) {
  OpView view = view_of(program, computation, instruction);
  check_arity(*instruction.op, isize(view.operands));
  if (instruction.op->infer == nullptr) return;
  const Type inferred = instruction.op->infer(view);
  if (inferred == instruction.type) return;
  ensure(false, "its type is {}, its operands give {}", instruction.type, inferred);
}

void verify_instruction(const Program& program, ComputationId computation_id, const Computation& computation, Id id) {
  const Instruction& instruction = computation[id];
  ensure(instruction.op != nullptr, "no op");
  verify_operands(computation, id);
  for (const ComputationId called : instruction.called)
    ensure(called >= 0 && called < computation_id, "calls computation {}, which is not defined before it", called);
  verify_type(program, computation, instruction);
  check_devices(program, instruction);
  if (!instruction.sharding) return;
  check_shardings(instruction.type, *instruction.sharding);
  for (const auto& leaf : *instruction.sharding)
    if (leaf.mesh.device_count() != program.num_partitions)
      ensure(false, "its sharding is on {}, the program is over {} devices", leaf.mesh, program.num_partitions);
}

void verify_parameters(const Computation& computation) {
  boost::dynamic_bitset<> listed(computation.instructions.size());
  for (int place = 0; place < isize(computation.parameters); ++place) {
    const Id id = at(computation.parameters, place);
    ensure(id >= 0 && id < computation.size() && computation[id].op->role == Role::kParameter,
           "%{} lists instruction {} as a parameter, which it is not", computation.name, id);
    ensure(!listed.test_set(static_cast<std::size_t>(id)), "%{} lists %{} as a parameter twice", computation.name,
           computation[id].name);
    if (const auto number = parameter_number(computation[id]); number != place)
      ensure(false, "%{} in %{} is parameter({}) but is at position {} of the {} parameters", computation[id].name,
             computation.name, number, place, computation.parameters.size());
  }
  for (Id id = 0; id < computation.size(); ++id)
    if (computation[id].op->role == Role::kParameter && !at(listed, id))
      ensure(false, "%{} in %{} is not listed as a parameter", computation[id].name, computation.name);
}

// The second of two instructions with the same name, or -1.
Id first_namesake(const Computation& computation) {
  std::vector<std::pair<std::size_t, Id>> hashes;
  hashes.reserve(computation.instructions.size());
  for (Id id = 0; id < computation.size(); ++id) hashes.emplace_back(hash_text(computation[id].name), id);
  std::sort(hashes.begin(), hashes.end());
  for (std::size_t i = 0; i < hashes.size(); ++i)
    for (std::size_t k = i + 1; k < hashes.size() && hashes[k].first == hashes[i].first; ++k)
      if (computation[hashes[k].second].name == computation[hashes[i].second].name) return hashes[k].second;
  return -1;
}

void verify_computation(const Program& program, ComputationId computation_id) {
  const Computation& computation = program[computation_id];
  const Id namesake = first_namesake(computation);
  for (Id id = 0; id < computation.size(); ++id) {
    const Instruction& instruction = computation[id];
    try {
      ensure(is_name(instruction.name), "\"{}\" is not a name", instruction.name);
      ensure(id != namesake, "a second instruction of this name");
      verify_instruction(program, computation_id, computation, id);
    } catch (const Error& error) {
      throw InternalError(fmt::format("%{} in %{}: {}", instruction.name, computation.name, error.what()));
    }
  }
  ensure(computation.root >= 0 && computation.root < computation.size(), "%{} has no root", computation.name);
  verify_parameters(computation);
}

void verify_program(const Program& program) {
  std::unordered_set<std::string_view> names;
  for (ComputationId id = 0; id < isize(program.computations); ++id) {
    ensure(program.computations[static_cast<std::size_t>(id)] != nullptr, "computation {} is missing", id);
    ensure(is_name(program[id].name), "computation name \"{}\" is not a name", program[id].name);
    ensure(names.insert(program[id].name).second, "two computations are named %{}", program[id].name);
    verify_computation(program, id);
  }
  ensure(program.entry >= 0 && program.entry < isize(program.computations), "the program has no entry computation");
  ensure(is_name(program.name), "module name \"{}\" is not a name", program.name);
  for (const auto& alias : program.aliases)
    ensure(alias.parameter >= 0 && alias.parameter < isize(program.entry_computation().parameters),
           "an alias names parameter {} of {}", alias.parameter, program.entry_computation().parameters.size());
}

}  // namespace

void verify(const Program& program, std::string_view where) {
  try {
    verify_program(program);
  } catch (const Error& error) {
    throw InternalError(where.empty() ? std::string(error.what()) : fmt::format("{}: {}", where, error.what()));
  }
}

}  // namespace tessera
