// SPDX-License-Identifier: Apache-2.0
// Reads `HloModule name, attribute=value, …`.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "text/text_reader.h"

namespace tessera {
namespace {

constexpr std::string_view kHeaderOrder[] = {"is_scheduled",
                                             "input_output_alias",
                                             "buffer_donor",
                                             "alias_passthrough_params",
                                             "entry_computation_layout",
                                             "allow_spmd_sharding_propagation_to_parameters",
                                             "allow_spmd_sharding_propagation_to_output",
                                             "replica_count",
                                             "num_partitions"};

Dims read_index(TextCursor& in) {
  Dims out;
  in.expect("{", "before an index");
  if (in.take("}")) return out;
  do {
    out.push_back(in.integer("a number of the index"));
  } while (in.take(","));
  in.expect("}", "after an index");
  return out;
}

// `{ {0}: (1, {}, must-alias), … }`
std::vector<Alias> read_aliases(std::string_view text) {
  TextCursor in(text);
  std::vector<Alias> out;
  in.expect("{", "before the aliases");
  if (in.take("}")) return out;
  do {
    Alias alias;
    alias.output = read_index(in);
    in.expect(":", "after the index of the result");
    in.expect("(", "before the parameter");
    alias.parameter = in.integer("the number of a parameter");
    if (in.take(",")) alias.parameter_index = read_index(in);
    if (in.take(",")) {
      alias.must = in.take_word("must-alias");
      if (!alias.must && !in.take_word("may-alias")) in.fail_expected("may-alias or must-alias");
    }
    in.expect(")", "after the parameter");
    out.push_back(std::move(alias));
  } while (in.take(","));
  in.expect("}", "after the aliases");
  return out;
}

std::vector<bool> read_bools(std::string_view text) {
  if (!text.starts_with('{')) {
    bool one = false;
    parse_field(text, one);
    return {one};
  }
  std::vector<bool> out;
  parse_field(text, out);
  return out;
}

std::int64_t read_count(std::string_view name, std::string_view text) {
  std::int64_t count = 0;
  parse_field(text, count);
  require(count >= 1 && count <= (std::int64_t{1} << 20), "{} must be between 1 and 2^20, got {}", name, count);
  return count;
}

void take_frontend_attributes(std::size_t position, std::string_view text, Program& program, ModuleHeader& header) {
  for (auto& [key, value] : read_frontend_attributes(text)) {
    if (key == kMeshesKey || key == kShardyMeshesKey) {
      header.is_shardy = key == kShardyMeshesKey;
      header.meshes_position = position;
      header.meshes = std::move(value);
    } else if (key == kPartitionedKey || key == kLoweredKey) {
      bool flag = false;
      parse_field(value, flag);
      (key == kLoweredKey ? program.lowered : program.partitioned) = flag;
    } else {
      program.frontend_attributes.emplace_back(key, std::move(value));
    }
  }
}

void take_attribute(std::string_view name, std::size_t position, std::string text, Program& program,
                    ModuleHeader& header) {
  if (name == "num_partitions") {
    program.num_partitions = read_count(name, text);
    header.has_num_partitions = program.num_partitions > 1;
    header.num_partitions_position = position;
  } else if (name == "replica_count") {
    program.replica_count = read_count(name, text);
  } else if (name == "input_output_alias") {
    program.aliases = read_aliases(text);
    header.alias_position = position;
  } else if (name == "entry_computation_layout") {
    header.entry_layout = std::move(text);
    header.entry_layout_position = position;
  } else if (name == "allow_spmd_sharding_propagation_to_parameters") {
    program.propagate_to_parameters = read_bools(text);
  } else if (name == "allow_spmd_sharding_propagation_to_output") {
    program.propagate_to_output = read_bools(text);
  } else if (name == "frontend_attributes") {
    take_frontend_attributes(position, text, program, header);
  } else {
    program.other.push_back({std::string(name), std::move(text)});
  }
}

// Compares `{(f32[2]{0})->f32[2]{0}}` with the entry computation.
void check_entry_layout(const std::string& text, const Computation& entry) {
  TextCursor in(text);
  in.expect("{", "before the layout");
  in.expect("(", "before the parameters");
  std::vector<Type> types;
  if (!in.take(")")) {
    do {
      types.push_back(read_type(in));
    } while (in.take(","));
    in.expect(")", "after the parameters");
  }
  in.expect("->", "before the result");
  const Type result = read_type(in);
  const auto parameters = entry.parameter_types();
  require(types.size() == parameters.size(),
          "entry_computation_layout has {} parameters, the entry computation %{} has {}", types.size(), entry.name,
          parameters.size());
  for (std::size_t i = 0; i < types.size(); ++i)
    require(types[i] == parameters[i],
            "entry_computation_layout gives parameter {} as {}, the entry computation %{} as {}", i, types[i],
            entry.name, parameters[i]);
  require(result == entry.root_type(),
          "entry_computation_layout gives the result as {}, the entry computation %{} as {}", result, entry.name,
          entry.root_type());
}

// The array at an index of a type; nullopt if there is none.
std::optional<Type> array_at(const Type& type, const Dims& index) {
  Type here = type;
  for (const auto i : index) {
    if (!here.is_tuple() || i < 0 || i >= isize(here.elements())) return std::nullopt;
    here = Type(at(here.elements(), i));
  }
  if (!here.is_array()) return std::nullopt;
  return here;
}

// Both sides of an alias must be arrays of one size, and each array may be in one alias only. In programs for several
// devices, aliases with different sizes are dropped: XLA's partitioner leaves such aliases where a parameter is sharded
// and its result is not.
void check_aliases(Program& program, const std::string& place) {
  const Computation& entry = program.entry_computation();
  std::vector<Alias> fitting;
  std::set<Dims> outputs;
  std::set<std::pair<std::int64_t, Dims>> donors;
  for (const auto& alias : program.aliases) {
    const auto output_text = [&] { return fmt::format("{}", fmt::join(alias.output, ",")); };
    const auto index_text = [&] { return fmt::format("{}", fmt::join(alias.parameter_index, ",")); };
    const auto output = array_at(entry.root_type(), alias.output);
    require(output.has_value(), "input_output_alias names output {{{}}}, which is not an array of {}", output_text,
            entry.root_type());
    require(alias.parameter >= 0 && alias.parameter < isize(entry.parameters),
            "input_output_alias names parameter {}, the entry computation has {}", alias.parameter,
            entry.parameters.size());
    const Type& type = entry[at(entry.parameters, alias.parameter)].type;
    const auto donor = array_at(type, alias.parameter_index);
    require(donor.has_value(), "input_output_alias names index {{{}}} of parameter {}, which is not an array of {}",
            index_text, alias.parameter, type);
    require(outputs.insert(alias.output).second, "input_output_alias names output {{{}}} twice", output_text);
    require(donors.insert({alias.parameter, alias.parameter_index}).second,
            "input_output_alias names index {{{}}} of parameter {} twice", index_text, alias.parameter);
    const bool fits = output->dtype() == donor->dtype() && output->byte_size() == donor->byte_size();
    require(fits || program.num_partitions > 1,
            "input_output_alias of output {{{}}}, {}, and index {{{}}} of parameter {}, {}: the types differ",
            output_text, *output, index_text, alias.parameter, *donor);
    if (fits)
      fitting.push_back(alias);
    else
      log_shared_warning(
          "{}input_output_alias of output {{{}}}, {}, and index {{{}}} of parameter {}, {}, is ignored: the types "
          "differ",
          place, output_text(), output->str(), index_text(), alias.parameter, donor->str());
  }
  program.aliases = std::move(fitting);
}

bool quote_is_next(TextCursor& in) { return in.next_is("\"") || in.next_is("'"); }

}  // namespace

int header_order(std::string_view name) {
  const auto found = std::find(std::begin(kHeaderOrder), std::end(kHeaderOrder), name);
  return static_cast<int>(found - std::begin(kHeaderOrder));
}

std::vector<std::pair<std::string, std::string>> read_frontend_attributes(std::string_view text) {
  TextCursor in(text);
  std::vector<std::pair<std::string, std::string>> out;
  in.expect("{", "before the frontend attributes");
  if (in.take("}")) return out;
  do {
    in.skip_blanks();
    const auto place = in.position();
    std::string key =
        quote_is_next(in) ? in.quoted("a name") : std::string(in.identifier("the name of a frontend attribute"));
    for (const auto& item : out)
      if (item.first == key) in.fail_at(place, fmt::format("frontend attribute {} occurs twice", key));
    in.expect("=", "after the name of a frontend attribute");
    std::string value = quote_is_next(in) ? in.quoted("a value") : in.value("a value");
    out.emplace_back(std::move(key), std::move(value));
  } while (in.take(","));
  in.expect("}", "after the frontend attributes");
  if (!in.at_end()) in.fail_expected("the end of the frontend attributes");
  return out;
}

ModuleHeader read_header(TextCursor& in, Program& program) {
  ModuleHeader header;
  if (in.peek_identifier() == "module")
    in.fail_at(in.position(), "this is MLIR (StableHLO); give HLO text, in JAX lowered.as_text(dialect=\"hlo\")");
  if (!in.take_word("HloModule")) in.fail_expected("HloModule and the name of the module");
  program.name = in.identifier("the name of the module");
  std::vector<std::string> seen;
  while (in.take(",")) {
    in.skip_blanks();
    const auto place = in.position();
    const std::string name(in.identifier("a header attribute"));
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      in.fail_at(place, fmt::format("attribute {} occurs twice", name));
    seen.push_back(name);
    in.expect("=", fmt::format("after {}", name));
    auto text = in.value(fmt::format("the value of {}", name));
    with_place(in, place, [&] { take_attribute(name, place, std::move(text), program, header); });
  }
  std::stable_sort(program.other.begin(), program.other.end(), [](const TextAttribute& a, const TextAttribute& b) {
    return header_order(a.name) < header_order(b.name);
  });
  return header;
}

void check_header(const TextCursor& in, const ModuleHeader& header, Program& program) {
  const Computation& entry = program.entry_computation();
  if (!header.entry_layout.empty())
    with_place(in, header.entry_layout_position, [&] { check_entry_layout(header.entry_layout, entry); });
  with_place(in, header.alias_position, [&] { check_aliases(program, in.place(header.alias_position)); });
}

}  // namespace tessera
