// SPDX-License-Identifier: Apache-2.0
#include "raw_instruction.h"

#include <algorithm>

#include "emit_checks.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"

namespace tessera {

std::vector<std::string> read_names(std::string_view text) {
  TextCursor in(text);
  std::vector<std::string> out;
  const bool braces = in.take("{");
  if (braces && in.take("}")) return out;
  do {
    in.take("%");
    out.emplace_back(in.identifier("a name"));
  } while (braces && in.take(","));
  if (braces) in.expect("}", "behind the names");
  if (!in.at_end()) in.fail_expected("the end of the names");
  return out;
}

std::vector<std::string> read_own_attributes(const RawInstruction& raw, std::vector<TextAttribute> own,
                                             Instruction& out, Notes& notes) {
  AttributeReader reader(std::move(own));
  if (raw.literal) reader.literal = &*raw.literal;
  try {
    if (raw.op->parse != nullptr) out.attributes = raw.op->parse(reader);
  } catch (Error& error) {
    error.prefix(fmt::format("{}: ", raw.op->name));
    throw;
  }
  notes.other = in_print_order(reader.rest());
  return notes.other.empty() ? std::vector<std::string>{} : reader.asked();
}

namespace {

// What HLO's instructions may carry and no row heeds.
constexpr std::string_view kKept[] = {"algorithm",
                                      "api_version",
                                      "async_execution_thread",
                                      "async_group_id",
                                      "backend_config",
                                      "batch_group_count",
                                      "called_computations",
                                      "channel_id",
                                      "constrain_layout",
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

void warn_of_unknown(ModuleState& state, const RawInstruction& raw, const Notes& notes,
                     std::vector<std::string> known) {
  for (const auto& attribute : notes.other) {
    const bool kept = std::find(std::begin(kKept), std::end(kKept), attribute.name) != std::end(kKept);
    if (kept || !state.warned.emplace(raw.op->name, attribute.name).second) continue;
    std::size_t position = raw.position;
    for (std::size_t i = 0; i < raw.positions.size(); ++i)
      if (raw.attributes[i].name == attribute.name) position = raw.positions[i];
    for (const auto* name : {"sharding", "metadata", "frontend_attributes", "control-predecessors"})
      known.emplace_back(name);
    known.insert(known.end(), raw.op->called.begin(), raw.op->called.end());
    known.insert(known.end(), std::begin(kKept), std::end(kKept));
    const auto near = nearest_name(attribute.name, known);
    log_warning("{}{} has no attribute {}, it is kept as it stands{}", state.in.place(position), raw.op->name,
                attribute.name, near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
  }
}

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
      out.type = op.infer != nullptr ? op.infer(view) : view.result;
      if (raw.declared && !(out.type == *raw.declared))
        fail("the text says {}, the operands give {}", view.result.str(), out.type.str());
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
      in.expect(":", "behind the name of a parameter");
      read(LayoutRule::kAnywhere);
    } while (in.take(","));
    in.expect(")", "behind the parameters");
  }
  in.expect("->", "behind the parameters");
  read(LayoutRule::kBodyMayFollow);
  return out;
}

void check_signature(const TextCursor& in, const Signature& signature, const Computation& computation) {
  if (signature.types.empty()) return;
  const auto types = computation.parameter_types();
  if (types.size() + 1 != signature.types.size())
    in.fail_at(signature.positions.front(), fmt::format("%{} lists {} parameters, its body has {}", computation.name,
                                                        signature.types.size() - 1, types.size()));
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!(types[i] == signature.types[i]))
      in.fail_at(signature.positions[i], fmt::format("parameter {} is listed as {}, the body says {}", i,
                                                     signature.types[i].str(), types[i].str()));
  if (!(signature.types.back() == computation.root_type()))
    in.fail_at(signature.positions.back(),
               fmt::format("the result is listed as {}, the root %{} is {}", signature.types.back().str(),
                           computation[computation.root].name, computation.root_type().str()));
}

namespace {

std::string free_name(const Program& program, const std::string& base) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(program.computations.begin(), program.computations.end(),
                       [&](const ComputationRef& c) { return c->name == name; });
  };
  std::string name = base;
  for (int k = 1; taken(name); ++k) name = fmt::format("{}.{}", base, k);
  return name;
}

}  // namespace

ComputationId add_wrapped(ModuleState& state, const RawInstruction& raw, Wrapping wrapping) {
  Computation inner;
  inner.name = free_name(state.program, fmt::format("async_{}", raw.wrapped->name));
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
  return static_cast<ComputationId>(state.program.computations.size()) - 1;
}

}  // namespace tessera
