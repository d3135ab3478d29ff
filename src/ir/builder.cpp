// SPDX-License-Identifier: Apache-2.0
#include "tessera/ir/builder.h"

#include <algorithm>
#include <utility>

#include "emit_checks.h"
#include "tessera/base/rank_context.h"

namespace tessera {
namespace {

// Adds lines to an error: every operand with type, sharding and source location, then the location of the op itself.
void add_context(Error& error, std::string_view name, const std::vector<Value>& operands, const NotesRef& notes) {
  error.prefix(fmt::format("{}: ", name));
  std::vector<const Instruction*> instructions;
  for (const Value& operand : operands) instructions.push_back(&operand.instruction());
  for (const auto& line : operand_lines(instructions)) error.note(line);
  Instruction here;
  here.notes = notes;
  std::string line = "  at   " + (here.source().empty() ? std::string("unknown source") : here.source());
  if (notes && !notes->op_name.empty()) line += " in " + notes->op_name;
  const auto& context = RankContext::current();
  error.note_place(line + fmt::format(", rank {} of {}", context.rank(), context.rank_count()));
}

std::vector<ComputationRef> called_computations(const Program& program, const std::vector<ComputationId>& ids) {
  std::vector<ComputationRef> out;
  for (const ComputationId id : ids) out.push_back(at(program.computations, id));
  return out;
}

// parameters[k] is parameter(k), in whatever order they occur: JAX writes parameters where they are first used.
void list_parameter(Computation& computation, Id id) {
  auto& list = computation.parameters;
  const auto number = parameter_number(computation[id]);
  auto place = list.end();
  while (place != list.begin() && parameter_number(computation[*(place - 1)]) > number) --place;
  list.insert(place, id);
}

}  // namespace

const Type& Value::type() const { return instruction().type; }
const Instruction& Value::instruction() const { return (*builder)[id]; }

Value Builder::emit(const OpDef& op, const std::vector<Value>& operands, Attributes attributes, EmitOptions options) {
  Instruction out;
  out.op = &op;
  out.notes = options.notes ? options.notes : default_notes;
  OpView view{op, {}, options.type, attributes, called_computations(program_->program(), options.called)};
  for (const Value& operand : operands) {
    ensure(operand.builder == this, "{}: an operand belongs to another computation", op.name);
    view.operands.push_back(operand.type());
    out.operands.push_back(operand.id);
  }
  try {
    check_arity(op, isize(operands));
    out.type = op.infer != nullptr ? op.infer(view) : options.type;
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    add_context(error, called_as.empty() ? op.name : called_as, operands, out.notes);
    throw;
  }
  out.attributes = std::move(attributes);
  out.called = std::move(options.called);
  out.control_predecessors = std::move(options.control_predecessors);
  out.sharding = std::move(options.sharding);
  out.name = options.name.empty() ? std::string(op.name) : std::move(options.name);
  return append(std::move(out));
}

Value Builder::append(Instruction instruction) {
  make_unique(instruction.name);
  const auto id = static_cast<Id>(computation_.instructions.size());
  for (const Id operand : instruction.operands)
    ensure(operand >= 0 && operand < id, "%{}: operand {} is not defined before it", instruction.name, operand);
  const bool is_parameter = instruction.op->role == Role::kParameter;
  computation_.instructions.push_back(std::move(instruction));
  if (is_parameter) list_parameter(computation_, id);
  return {this, id};
}

void Builder::set_sharding(Value value, ShardingRef sharding) {
  at(computation_.instructions, value.id).sharding = std::move(sharding);
}
void Builder::set_name(Value value, std::string_view name) {
  auto& instruction = at(computation_.instructions, value.id);
  if (instruction.name == name) return;
  instruction.name = name;
  make_unique(instruction.name);
}
void Builder::set_notes(Value value, NotesRef notes) {
  at(computation_.instructions, value.id).notes = std::move(notes);
}

TakenNames::Slot& TakenNames::find(std::size_t hash) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = hash & mask;
  while (slots_[place].hash != 0 && slots_[place].hash != hash) place = (place + 1) & mask;
  return slots_[place];
}

std::pair<int&, bool> TakenNames::take(std::string_view name) {
  constexpr std::size_t kFewest = 16;
  if (2 * (count_ + 1) > slots_.size()) {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(std::max(kFewest, 2 * slots_.size())));
    for (const Slot& slot : before)
      if (slot.hash != 0) find(slot.hash) = slot;
  }
  const std::size_t hash = std::max<std::size_t>(1, hash_text(name));
  Slot& slot = find(hash);
  const bool is_new = slot.hash == 0;
  if (is_new) ++count_;
  slot.hash = hash;
  return {slot.suffix, is_new};
}

// Keeps the name if it is not in use; otherwise changes it to name.1, name.2, …
void Builder::make_unique(std::string& name) {
  if (name.empty()) name = "value";
  auto [suffix, is_new] = names_.take(name);
  if (is_new) return;
  const std::string base = name;
  for (int next = suffix + 1;; ++next) {
    name = fmt::format("{}.{}", base, next);
    if (!names_.take(name).second) continue;
    names_.take(base).first = next;
    return;
  }
}

Computation Builder::finish(Value root) && {
  ensure(root.builder == this, "the root of a computation belongs to another one");
  computation_.root = root.id;
  return std::move(computation_);
}

ComputationId ProgramBuilder::add(Builder&& builder, Value root) {
  ensure(root.builder == &builder, "the root of a computation belongs to another one");
  builder.computation_.root = root.id;
  return add(std::make_shared<const Computation>(std::move(builder.computation_)));
}

ComputationId ProgramBuilder::add(ComputationRef computation) {
  const auto taken = [&](const std::string& name) {
    for (const auto& other : program_.computations)
      if (other->name == name) return true;
    return false;
  };
  if (taken(computation->name)) {
    auto renamed = std::make_shared<Computation>(*computation);
    for (int suffix = 1; taken(renamed->name); ++suffix)
      renamed->name = fmt::format("{}.{}", computation->name, suffix);
    computation = std::move(renamed);
  }
  program_.computations.push_back(std::move(computation));
  return static_cast<ComputationId>(program_.computations.size()) - 1;
}

Program ProgramBuilder::finish(ComputationId entry) {
  program_.entry = entry;
  return std::move(program_);
}

NotesRef notes_at(std::source_location where) {
  auto notes = std::make_shared<Notes>();
  std::string_view file = where.file_name();
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  notes->source_file = file;
  notes->source_line = static_cast<int>(where.line());
  return notes;
}

Value inlined(Builder& into, const Computation& computation, const std::vector<Value>& arguments) {
  std::vector<Id> mapped(computation.instructions.size(), -1);
  for (std::size_t k = 0; k < computation.parameters.size(); ++k)
    at(mapped, computation.parameters[k]) = arguments[k].id;
  for (Id id = 0; id < computation.size(); ++id) {
    if (at(mapped, id) >= 0) continue;
    Instruction instruction = computation[id];
    for (Id& operand : instruction.operands) operand = at(mapped, operand);
    for (Id& before : instruction.control_predecessors) before = at(mapped, before);
    at(mapped, id) = into.append(std::move(instruction)).id;
  }
  return into.value(at(mapped, computation.root));
}

}  // namespace tessera
