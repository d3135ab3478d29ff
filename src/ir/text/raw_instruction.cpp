// SPDX-License-Identifier: Apache-2.0
#include "text/raw_instruction.h"

#include <algorithm>
#include <set>

#include "emit_checks.h"
#include "tessera/base/checked.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"

namespace tessera {

bool is_list_of_computations(std::string_view name) {
  return name == "branch_computations" || name == "called_computations";
}

const OpDef* wrapped_op(const OpTable& table, std::string_view opcode, const OpDef*& wrapped) {
  for (const std::string_view half : {"start", "update", "done"}) {
    if (opcode.size() <= half.size() + 1 || !opcode.ends_with(half)) continue;
    const auto stem = opcode.substr(0, opcode.size() - half.size());
    if (!stem.ends_with('-')) continue;
    const OpDef* synchronous = table.find(stem.substr(0, stem.size() - 1));
    if (synchronous == nullptr || synchronous->payload != Payload::kOperands) continue;
    if (half == "start") wrapped = synchronous;
    return table.find(fmt::format("async-{}", half));
  }
  return nullptr;
}

void read_mesh_groups(TextCursor& in, std::string& text) {
  const auto here = in.position();
  if (in.take(",") && in.take_word("device_ids") && in.take("="))
    text += ", device_ids=" + in.value("devices");
  else
    in.seek(here);
  in.take(",");
  text += " " + in.value("the axes of the groups");
}

bool called_is_written_out(TextCursor& in, const RawInstruction& raw, const std::string& name) {
  const OpDef& op = raw.wrapped != nullptr ? *raw.wrapped : *raw.op;
  if (!in.next_is("{") || std::find(op.called.begin(), op.called.end(), name) == op.called.end()) return false;
  const auto start = in.position();
  in.take("{");
  bool out = is_list_of_computations(name) && in.next_is("{");
  if (!out) {
    const bool root = in.take_word("ROOT");
    const bool percent = in.take("%");
    const auto word = in.peek_identifier();
    in.seek(in.position() + word.size());
    out = (root || percent || !word.empty()) && in.next_is("=");
  }
  in.seek(start);
  return out;
}

ComputationId computation_named(const ModuleState& state, const std::string& name) {
  const auto found = state.computations.find(name);
  if (found != state.computations.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& computation : state.program.computations) known.push_back(computation->name);
  const auto near = nearest_name(name, known);
  fail("unknown computation %{}{}", name,
       near.empty() ? "; computations come before their users" : fmt::format("; did you mean \"{}\"?", near));
}

std::vector<std::string> read_names(std::string_view text) {
  TextCursor in(text);
  std::vector<std::string> out;
  const bool braces = in.take("{");
  if (braces && in.take("}")) return out;
  do {
    in.take("%");
    out.emplace_back(in.identifier("a name"));
  } while (braces && in.take(","));
  if (braces) in.expect("}", "after the names");
  if (!in.at_end()) in.fail_expected("the end of the names");
  return out;
}

namespace {

// XLA's name for the mode that channel_id and use_global_device_ids of a collective determine.
void check_mode(const Instruction& collective, const Notes& notes) {
  const auto mode =
      std::find_if(notes.other.begin(), notes.other.end(), [](const auto& a) { return a.name == "mode"; });
  if (collective.op->role != Role::kCollective || mode == notes.other.end()) return;
  const std::vector<std::string> all = {"cross_replica", "cross_partition", "cross_replica_and_partition",
                                        "flattened_id"};
  require(std::find(all.begin(), all.end(), mode->text) != all.end(), "{}: no mode is named \"{}\"{}",
          collective.op->name, mode->text, suggest_name(mode->text, all));
  const auto texts = collective.attributes->texts();
  const auto has = [&](std::string_view name) {  // attributes that are 0 or false are omitted
    return std::any_of(texts.begin(), texts.end(), [&](const auto& a) { return a.name == name; });
  };
  const bool is_global = has("use_global_device_ids");
  const std::string_view implied = !has("channel_id") ? "cross_replica"
                                   : is_global        ? "flattened_id"
                                                      : "cross_partition";
  const bool fits =
      mode->text == implied || (implied == "cross_partition" && mode->text == "cross_replica_and_partition");
  require(fits, "{}: mode={} contradicts {} and use_global_device_ids={}, which mean {}", collective.op->name,
          mode->text, has("channel_id") ? "channel_id" : "the lack of a channel_id", is_global, implied);
}

// An attribute of the text that is a likely misspelling of the one requested last.
std::string misspelt_for_the_last(const AttributeReader& reader) {
  if (reader.asked().empty()) return {};
  std::vector<std::string> left;
  for (const auto& attribute : reader.rest()) left.push_back(attribute.name);
  return nearest_name(reader.asked().back(), left);
}

}  // namespace

std::vector<std::string> read_own_attributes(const RawInstruction& raw, std::vector<TextAttribute> own,
                                             Instruction& out, Notes& notes) {
  AttributeReader reader(std::move(own));
  if (raw.literal) reader.literal = &*raw.literal;
  try {
    if (raw.op->parse != nullptr) out.attributes = raw.op->parse(reader);
  } catch (Error& error) {
    error.prefix(fmt::format("{}: ", raw.op->name));
    const auto name = misspelt_for_the_last(reader);
    if (!name.empty()) error.note(fmt::format("  is {} meant for {}?", name, reader.asked().back()));
    throw;
  }
  notes.other = in_print_order(reader.rest());
  check_mode(out, notes);
  return notes.other.empty() ? std::vector<std::string>{} : reader.asked();
}

namespace {

// Attributes that HLO's instructions may have and that no row uses.
constexpr std::string_view kKept[] = {"algorithm",
                                      "api_version",
                                      "async_execution_thread",
                                      "async_group_id",
                                      "backend_config",
                                      "batch_group_count",
                                      "called_computations",
                                      "channel_id",
                                      "constrain_layout",
                                      "convolution_kind",
                                      "cross_program_prefetch_index",
                                      "delta",
                                      "dim_labels",
                                      "domain",
                                      "feature_group_count",
                                      "indices_are_sorted",
                                      "infeed_config",
                                      "inferred_dimension",
                                      "is_composite",
                                      "is_host_transfer",
                                      "is_stable",
                                      "kind",
                                      "literal",
                                      "mode",
                                      "operand_layout_constraints",
                                      "operand_precision",
                                      "origin",
                                      "original_value",
                                      "outfeed_config",
                                      "outfeed_shape",
                                      "output_to_operand_aliasing",
                                      "padding_type",
                                      "parameter_replication",
                                      "result_accuracy",
                                      "schedule",
                                      "sparsity",
                                      "statistics",
                                      "unique_indices",
                                      "use_global_device_ids",
                                      "window"};

}  // namespace

bool is_carried_by_hlo(std::string_view attribute) {
  return std::find(std::begin(kKept), std::end(kKept), attribute) != std::end(kKept);
}

void warn_of_unknown(ModuleState& state, const RawInstruction& raw, const Notes& notes,
                     std::vector<std::string> known) {
  for (const auto& attribute : notes.other) {
    if (is_carried_by_hlo(attribute.name) || !state.warned.emplace(raw.op->name, attribute.name).second) continue;
    std::size_t position = raw.position;
    for (std::size_t i = 0; i < raw.positions.size(); ++i)
      if (raw.attributes[i].name == attribute.name) position = raw.positions[i];
    for (const auto* name : {"sharding", "metadata", "frontend_attributes", "control-predecessors"})
      known.emplace_back(name);
    known.insert(known.end(), raw.op->called.begin(), raw.op->called.end());
    known.insert(known.end(), std::begin(kKept), std::end(kKept));
    const auto near = nearest_name(attribute.name, known);
    log_shared_warning("{}{} has no attribute {}, it is kept unchanged{}", state.in.place(position), raw.op->name,
                       attribute.name, near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
  }
}

namespace {

// Sums over the operands of one instruction fit into 64 bits, even if doubled.
void check_bytes(const std::vector<Type>& operands) {
  Checked bytes = 0;
  for (const Type& type : operands) bytes += type.byte_size();
  require(bytes.value_or_most() <= 4 * Type::kMostBytes, "the operands together have more than 2^62 bytes");
}

}  // namespace

void infer_type(const ModuleState& state, const Computation& computation, const RawInstruction& raw, Instruction& out) {
  const OpDef& op = *raw.op;
  if (!raw.declared && !op.type_inferable)
    state.in.fail_at(raw.position, fmt::format("{} needs a type before it", op.name));
  OpView view{op, {}, raw.declared.value_or(Type()), out.attributes, {}};
  std::vector<const Instruction*> operands;
  for (const Id id : out.operands) {
    operands.push_back(&computation[id]);
    view.operands.push_back(operands.back()->type);
  }
  for (const ComputationId id : out.called) view.called.push_back(at(state.program.computations, id));
  with_place(state.in, raw.position, [&] {
    try {
      check_arity(op, isize(operands));
      check_bytes(view.operands);
      out.type = op.infer != nullptr ? op.infer(view) : view.result;
      if (raw.declared && !(out.type == *raw.declared))
        fail("the text declares {}, but the operands give {}", view.result.str(), out.type.str());
    } catch (Error& error) {
      error.prefix(fmt::format("{}: ", op.name));
      for (const auto& line : operand_lines(operands)) error.note(line);
      throw;
    }
  });
  if (raw.declared) out.type = *raw.declared;  // keeps the layout
}

Signature read_signature(TextCursor& in) {
  Signature out;
  const auto read = [&](LayoutRule rule) {
    in.skip_blanks();
    out.positions.push_back(in.position());
    out.types.push_back(read_type(in, rule));
  };
  if (!in.take("(")) return out;
  if (!in.take(")")) {
    do {
      in.take("%");
      in.identifier("a parameter");
      in.expect(":", "after the name of a parameter");
      read(LayoutRule::kAnywhere);
    } while (in.take(","));
    in.expect(")", "after the parameters");
  }
  in.expect("->", "after the parameters");
  read(LayoutRule::kBodyMayFollow);
  return out;
}

void check_signature(const TextCursor& in, const Signature& signature, const Computation& computation) {
  if (signature.types.empty()) return;
  // As in XLA, the listed parameters have no effect; those of the body count.
  const auto types = computation.parameter_types();
  const std::vector<Type> listed(signature.types.begin(), signature.types.end() - 1);
  if (listed != types)
    log_shared_warning("{}%{} lists the parameters {}, but its body has {}; the body is used",
                       in.place(signature.positions.front()), computation.name, Type::tuple(listed).str(),
                       Type::tuple(types).str());
  if (!(signature.types.back() == computation.root_type()))
    in.fail_at(signature.positions.back(),
               fmt::format("the result is listed as {}, the root %{} is {}", signature.types.back().str(),
                           computation[computation.root].name, computation.root_type().str()));
}

ComputationId add_wrapped(ModuleState& state, const RawInstruction& raw, Wrapping wrapping) {
  Computation inner;
  inner.name = fmt::format("async_{}", raw.wrapped->name);
  for (int i = 0; i < isize(wrapping.operands); ++i) {
    Instruction parameter;
    parameter.op = &state.table.get("parameter");
    parameter.type = (*wrapping.computation)[at(wrapping.operands, i)].type;
    parameter.name = fmt::format("param_{}", i);
    AttributeReader reader({{"number", std::to_string(i)}});
    parameter.attributes = parameter.op->parse(reader);
    inner.parameters.push_back(inner.size());
    inner.instructions.push_back(std::move(parameter));
  }
  RawInstruction body;
  body.position = raw.position;
  body.op = raw.wrapped;
  if (raw.declared && raw.declared->is_tuple() && raw.declared->elements().size() > 1)
    body.declared = raw.declared->elements()[1];
  Instruction out;
  out.op = raw.wrapped;
  out.name = "wrapped";
  out.operands = inner.parameters;
  out.called = std::move(wrapping.called);
  Notes notes;
  with_place(state.in, raw.position, [&] { read_own_attributes(body, std::move(wrapping.own), out, notes); });
  infer_type(state, inner, body, out);
  for (const auto& a : wrapping.kept)
    if (a.name == "async_execution_thread" && a.text != "\"main\"") inner.execution_thread = unquote(a.text);
  if (!(notes == Notes{})) out.notes = std::make_shared<const Notes>(std::move(notes));
  inner.root = inner.size();
  inner.instructions.push_back(std::move(out));
  state.program.computations.push_back(std::make_shared<const Computation>(std::move(inner)));
  state.nameless.push_back(static_cast<ComputationId>(state.program.computations.size()) - 1);
  return state.nameless.back();
}

void name_the_nameless(ModuleState& state) {
  auto& computations = state.program.computations;
  std::set<std::string> taken;
  for (ComputationId id = 0; id < isize(computations); ++id)
    if (std::find(state.nameless.begin(), state.nameless.end(), id) == state.nameless.end())
      taken.insert(at(computations, id)->name);
  for (const auto id : state.nameless) {
    auto named = std::make_shared<Computation>(*at(computations, id));
    const std::string base = named->name;
    for (int k = 1; !taken.insert(named->name).second; ++k) named->name = fmt::format("{}.{}", base, k);
    at(computations, id) = std::move(named);
  }
}

}  // namespace tessera
