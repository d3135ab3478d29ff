// SPDX-License-Identifier: Apache-2.0
// Converts a program to HLO text, in XLA's print order.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "tessera/sharding/hlo_sharding.h"
#include "text/sharding_texts.h"
#include "text/text_reader.h"

namespace tessera {
namespace {

std::string frontend_text(const std::vector<std::pair<std::string, std::string>>& list) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : list) parts.push_back(fmt::format("{}={}", key, quote(value)));
  return fmt::format("{{{}}}", fmt::join(parts, ","));
}

// Whether an attribute of custom-call or constant is printed as a frontend attribute.
bool is_frontend_attribute(const TextAttribute& attribute) {
  return attribute.name == kShardingRuleKey || attribute.name == kNumBatchDimsKey || attribute.name == kElidedKey;
}

bool xla_knows(std::string_view key) { return !key.starts_with("xla.sdy.") && !key.starts_with("tessera."); }

std::string index_text(const Dims& index) { return fmt::format("{{{}}}", fmt::join(index, ",")); }

std::string aliases_text(const std::vector<Alias>& aliases) {
  std::vector<std::string> parts;
  for (const auto& alias : aliases)
    parts.push_back(fmt::format("{}: ({}, {}, {})", index_text(alias.output), alias.parameter,
                                index_text(alias.parameter_index), alias.must ? "must-alias" : "may-alias"));
  return fmt::format("{{ {} }}", fmt::join(parts, ", "));
}

// The type with layouts and, if the type is still the one that was read, their tails.
std::string type_text(const Instruction& instruction) {
  std::string plain = instruction.type.str(true);
  const std::string* kept = instruction.notes ? instruction.frontend_attribute(kLayoutsKey) : nullptr;
  if (kept == nullptr) return plain;
  TextCursor in(*kept);
  return type_is_next(in) && read_type(in).str(true) == plain ? *kept : plain;
}

std::string entry_layout_text(const Computation& entry) {
  std::vector<std::string> types;
  for (const Id id : entry.parameters) types.push_back(type_text(entry[id]));
  return fmt::format("{{({})->{}}}", fmt::join(types, ", "), type_text(entry[entry.root]));
}

std::string bools_text(const std::vector<bool>& flags) { return field_text(flags); }

// The text in the parentheses of rows with a literal: field_text without the type.
std::string literal_text(const Instruction& instruction, const std::string& text) {
  const auto type = instruction.type.str();
  return text.starts_with(type + " ") ? text.substr(type.size() + 1) : text;
}

// Metadata fields that XLA's reader accepts in addition to those of Notes.
bool xla_knows_field(std::string_view name) {
  constexpr std::string_view kFields[] = {"deduplicated_name", "metadata_payload", "profile_type",
                                          "scheduling_name",   "source_column",    "source_end_column",
                                          "source_end_line",   "stack_frame_id"};
  return std::find(std::begin(kFields), std::end(kFields), name) != std::end(kFields);
}

// A source location that the tables after the header contain is not printed again.
bool frame_has_source(const Notes& notes, const SourceTables& tables) {
  for (const auto& item : notes.metadata_rest) {
    if (item.name != "stack_frame_id") continue;
    const auto frame = tables.frames.find(std::strtoll(item.text.c_str(), nullptr, 10));
    return frame != tables.frames.end() && frame->second.file == notes.source_file &&
           frame->second.line == notes.source_line;
  }
  return false;
}

std::string metadata_text(const Notes& notes, const SourceTables& tables, bool for_xla) {
  std::vector<std::string> parts;
  const bool writes_source = !frame_has_source(notes, tables);
  if (!notes.op_type.empty()) parts.push_back("op_type=" + quote(notes.op_type));
  if (!notes.op_name.empty()) parts.push_back("op_name=" + quote(notes.op_name));
  if (writes_source && !notes.source_file.empty()) parts.push_back("source_file=" + quote(notes.source_file));
  if (writes_source && notes.source_line != 0) parts.push_back(fmt::format("source_line={}", notes.source_line));
  for (const auto& item : notes.metadata_rest)
    if (!for_xla || xla_knows_field(item.name)) parts.push_back(item.name + "=" + item.text);
  return fmt::format("{}", fmt::join(parts, " "));
}

// XLA's names begin with a letter or `_` and are not names of types.
bool xla_refuses_name(std::string_view name) {
  const char first = name.empty() ? '0' : name.front();
  const bool is_start = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_';
  return !is_start || is_dtype_name(name) || name == "token" || name == "opaque";
}

bool has_name_xla_refuses(const Program& program) {
  return std::any_of(program.computations.begin(), program.computations.end(), [](const ComputationRef& computation) {
    const auto& all = computation->instructions;
    return xla_refuses_name(computation->name) ||
           std::any_of(all.begin(), all.end(), [](const Instruction& i) { return xla_refuses_name(i.name); });
  });
}

// `%1` becomes `%_1`.
void rename_for_xla(std::string& name, std::set<std::string>& taken) {
  if (!xla_refuses_name(name)) return;
  do {
    name.insert(0, "_");
  } while (!taken.insert(name).second);
}

Program with_names_for_xla(const Program& program) {
  Program out = program;
  std::set<std::string> computations;
  for (const auto& computation : program.computations) computations.insert(computation->name);
  for (auto& ref : out.computations) {
    auto computation = std::make_shared<Computation>(*ref);
    rename_for_xla(computation->name, computations);
    std::set<std::string> taken;
    for (const auto& instruction : computation->instructions) taken.insert(instruction.name);
    for (auto& instruction : computation->instructions) rename_for_xla(instruction.name, taken);
    ref = std::move(computation);
  }
  return out;
}

// Whether each elided leaf has the origin that it would get from its name.
bool are_own_origins(const Computation& computation, const Instruction& constant, const std::string& text) {
  const auto own = own_origins(computation, constant);
  const auto given = split(text, ',');
  return std::equal(given.begin(), given.end(), own.begin(), own.end(),
                    [](const std::string& a, const std::string& b) { return a.empty() || a == b; });
}

class Printer {
 public:
  Printer(const Program& program, const PrintOptions& options, ShardingTexts* shardings)
      : program_(program), options_(options), shardings_(shardings) {}

  std::string program() {
    header();
    for (ComputationId id = 0; id < isize(program_.computations); ++id) computation(id);
    return std::move(out_);
  }

  std::string instruction(const Computation& computation, Id id) {
    computation_ = &computation;
    line(id);
    return std::move(out_);
  }

 private:
  void header() {
    out_ += "HloModule " + program_.name;
    std::vector<TextAttribute> all = program_.other;
    const auto source_tables = std::find_if(
        all.begin(), all.end(), [](const TextAttribute& attribute) { return attribute.name == kSourceTablesKey; });
    std::string tables_text;
    if (source_tables != all.end()) {
      TextCursor in(source_tables->text);
      tables_ = read_source_tables(in);
      tables_text = fmt::format("\n{}\n\n", source_tables->text);
      all.erase(source_tables);
    }
    if (!program_.aliases.empty()) all.push_back({"input_output_alias", aliases_text(program_.aliases)});
    if (program_.entry >= 0)
      all.push_back({"entry_computation_layout", entry_layout_text(program_.entry_computation())});
    if (!program_.propagate_to_parameters.empty())
      all.push_back({"allow_spmd_sharding_propagation_to_parameters", bools_text(program_.propagate_to_parameters)});
    if (!program_.propagate_to_output.empty())
      all.push_back({"allow_spmd_sharding_propagation_to_output", bools_text(program_.propagate_to_output)});
    if (program_.replica_count != 1) all.push_back({"replica_count", std::to_string(program_.replica_count)});
    if (program_.num_partitions != 1) all.push_back({"num_partitions", std::to_string(program_.num_partitions)});
    std::stable_sort(all.begin(), all.end(), [](const TextAttribute& a, const TextAttribute& b) {
      return header_order(a.name) < header_order(b.name);
    });
    auto frontend = kept(program_.frontend_attributes);
    if (!options_.for_xla) {
      if (shardings_ != nullptr && !shardings_->meshes_text().empty())
        frontend.emplace_back(kMeshesKey, shardings_->meshes_text());
      if (program_.partitioned) frontend.emplace_back(kPartitionedKey, "true");
      if (program_.lowered) frontend.emplace_back(kLoweredKey, "true");
    }
    if (!frontend.empty()) all.push_back({"frontend_attributes", frontend_text(frontend)});
    for (const auto& attribute : all) out_ += fmt::format(", {}={}", attribute.name, attribute.text);
    out_ += "\n" + tables_text;
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> kept(
      std::vector<std::pair<std::string, std::string>> list) const {
    if (options_.for_xla) std::erase_if(list, [](const auto& item) { return !xla_knows(item.first); });
    return list;
  }

  void computation(ComputationId id) {
    computation_ = &program_[id];
    out_ += id == program_.entry ? "\nENTRY %" : "\n%";
    std::vector<std::string> parameters;
    for (const Id p : computation_->parameters)
      parameters.push_back(fmt::format("{}: {}", (*computation_)[p].name, (*computation_)[p].type.str()));
    fmt::format_to(std::back_inserter(out_), "{} ({}) -> {} {{\n", computation_->name, fmt::join(parameters, ", "),
                   computation_->root_type().str());
    for (Id i = 0; i < computation_->size(); ++i) {
      out_ += i == computation_->root ? "  ROOT " : "  ";
      line(i);
      out_ += '\n';
    }
    out_ += computation_->execution_thread.empty()
                ? "}\n"
                : fmt::format("}}, execution_thread={}\n", quote(computation_->execution_thread));
  }

  void line(Id id) {
    const Instruction& instruction = (*computation_)[id];
    out_ += fmt::format("%{} = {} {}(", instruction.name, type_text(instruction), instruction.op->name);
    auto texts = instruction.attributes ? instruction.attributes->texts() : std::vector<TextAttribute>{};
    payload(instruction, texts);
    out_ += ')';
    for (const auto& attribute : texts)
      if (!is_frontend_attribute(attribute)) add(attribute.name, attribute.text);
    const auto other = instruction.notes ? in_print_order(instruction.notes->other) : std::vector<TextAttribute>{};
    called(instruction);
    for (const auto& attribute : other)
      if (attribute.name != "backend_config" && (!options_.for_xla || is_carried_by_hlo(attribute.name)))
        add(attribute.name, attribute.text);
    annotations(instruction, texts);
    for (const auto& attribute : other)
      if (attribute.name == "backend_config") add(attribute.name, attribute.text);
  }

  void add(std::string_view name, std::string_view text) {
    out_ += ", ";
    out_ += name;
    out_ += '=';
    out_ += text;
  }

  // Writes the operands, or the first attribute if it is the row's payload, and removes that from the texts.
  void payload(const Instruction& instruction, std::vector<TextAttribute>& texts) {
    if (instruction.op->payload == Payload::kOperands) {
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
        out_ += i == 0 ? "%" : ", %";
        out_ += (*computation_)[instruction.operands[i]].name;
      }
      return;
    }
    ensure(!texts.empty(), "%{}: {} carries no attributes", instruction.name, instruction.op->name);
    out_ += instruction.op->payload == Payload::kLiteral ? literal_text(instruction, texts.front().text)
                                                         : texts.front().text;
    texts.erase(texts.begin());
  }

  void called(const Instruction& instruction) {
    if (instruction.called.empty()) return;
    std::vector<std::string_view> single;
    std::string_view list;
    for (const auto name : instruction.op->called) {
      if (name == "branch_computations" || name == "called_computations")
        list = name;
      else
        single.push_back(name);
    }
    const auto name_of = [&](ComputationId id) { return "%" + program_[id].name; };
    const bool predicate =
        !instruction.operands.empty() && (*computation_)[instruction.operands[0]].type == Type::scalar(DType::kPred);
    const bool as_list = !list.empty() && (single.empty() || single.size() != instruction.called.size() ||
                                           (instruction.op->role == Role::kConditional && !predicate));
    if (!as_list) {
      ensure(instruction.called.size() <= single.size(), "%{}: {} computations called, {} attributes for them",
             instruction.name, instruction.called.size(), single.size());
      for (std::size_t k = 0; k < instruction.called.size(); ++k) add(single[k], name_of(instruction.called[k]));
      return;
    }
    std::vector<std::string> names;
    for (const ComputationId id : instruction.called) names.push_back(name_of(id));
    add(list, fmt::format("{{{}}}", fmt::join(names, ", ")));
  }

  // Sharding, frontend attributes, control predecessors, metadata.
  void annotations(const Instruction& instruction, const std::vector<TextAttribute>& own) {
    auto frontend =
        instruction.notes ? instruction.notes->frontend_attributes : std::vector<std::pair<std::string, std::string>>{};
    drop_layouts(instruction, frontend);
    if (instruction.sharding) {
      std::string text = shardings_ != nullptr ? shardings_->hlo_text(instruction)
                                               : hlo_sharding_text(*instruction.sharding, instruction.type.is_tuple());
      const auto suffix =
          std::find_if(frontend.begin(), frontend.end(), [](const auto& a) { return a.first == kShardingSuffixKey; });
      if (suffix != frontend.end() && instruction.sharding->size() == 1) {
        add_suffix(text, suffix->second);
        frontend.erase(suffix);
      }
      const auto sent =
          std::find_if(frontend.begin(), frontend.end(), [](const auto& a) { return a.first == kOutfeedShardingKey; });
      if (sent != frontend.end()) {
        text = std::move(sent->second);
        frontend.erase(sent);
      }
      add("sharding", text);
      if (shardings_ != nullptr && !options_.for_xla)
        if (auto attribute = shardings_->attribute(instruction)) frontend.push_back(std::move(*attribute));
    }
    for (const auto& attribute : own) {
      if (!is_frontend_attribute(attribute)) continue;
      std::string text = attribute.name == kNumBatchDimsKey ? attribute.text : unquote(attribute.text);
      if (attribute.name != kElidedKey || !are_own_origins(*computation_, instruction, text))
        frontend.emplace_back(attribute.name, std::move(text));
    }
    frontend = kept(std::move(frontend));
    if (!frontend.empty()) add("frontend_attributes", frontend_text(frontend));
    if (!instruction.control_predecessors.empty()) {
      std::vector<std::string> names;
      for (const Id id : instruction.control_predecessors) names.push_back("%" + (*computation_)[id].name);
      add("control-predecessors", fmt::format("{{{}}}", fmt::join(names, ", ")));
    }
    if (!instruction.notes) return;
    const auto metadata = metadata_text(*instruction.notes, tables_, options_.for_xla);
    if (!metadata.empty()) add("metadata", "{" + metadata + "}");
  }

  // Removes layouts, which are printed with the type or belong to a former shape.
  void drop_layouts(const Instruction& instruction, std::vector<std::pair<std::string, std::string>>& frontend) {
    const auto kept =
        std::find_if(frontend.begin(), frontend.end(), [](const auto& a) { return a.first == kLayoutsKey; });
    if (kept == frontend.end()) return;
    if (type_text(instruction) != kept->second && !std::exchange(warned_of_layouts_, true))
      log_shared_warning(
          "%{} had the type {} and now has the type {}; a layout of other hardware is omitted if the shape changes",
          instruction.name, kept->second, instruction.type.str());
    frontend.erase(kept);
  }

  // Inserts the suffix before the brace that closes the leaf: a tuple of one leaf has two.
  static void add_suffix(std::string& text, const std::string& suffix) {
    const bool tuple = text.size() > 2 && text[1] == '{';
    text.insert(text.size() - (tuple ? 2 : 1), suffix);
  }

  const Program& program_;
  const PrintOptions& options_;
  ShardingTexts* shardings_;
  const Computation* computation_ = nullptr;
  bool warned_of_layouts_ = false;
  SourceTables tables_;  // the tables after the header
  std::string out_;
};

}  // namespace

std::vector<TextAttribute> in_print_order(std::vector<TextAttribute> other) {
  std::stable_partition(other.begin(), other.end(), [](const TextAttribute& a) { return a.name != "backend_config"; });
  return other;
}

std::vector<std::pair<std::string, std::string>> carried_attributes(const Instruction& instruction) {
  if (!instruction.notes) return {};
  auto out = instruction.notes->frontend_attributes;
  if (type_text(instruction) == instruction.type.str(true))
    std::erase_if(out, [](const auto& item) { return item.first == kLayoutsKey; });
  return out;
}

std::string print_program(const Program& program, const PrintOptions& options) {
  if (options.for_xla && has_name_xla_refuses(program)) return print_program(with_names_for_xla(program), options);
  ShardingTexts shardings(program);
  return Printer(program, options, &shardings).program();
}

std::string print_instruction(const Program& program, const Computation& computation, Id id) {
  return Printer(program, {}, nullptr).instruction(computation, id);
}

}  // namespace tessera
