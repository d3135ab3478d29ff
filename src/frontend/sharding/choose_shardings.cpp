// SPDX-License-Identifier: Apache-2.0
#include "sharding/choose_shardings.h"

#include <algorithm>
#include <unordered_map>

#include "compile/program_cache.h"
#include "compile/ship_text.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/use_spmd.h"
#include "tessera/ir/text.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/sharding/hlo_sharding.h"

namespace tessera {

void use_spmd(const SpmdOptions& how) {
  if (how.automatic) options().set("XLA_AUTO_SPMD", "1");
}

bool is_auto_spmd() { return options().flag("XLA_AUTO_SPMD"); }

// ---- the mesh -------------------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kMeshVariable = "XLA_AUTO_SPMD_MESH";

void check_product(std::int64_t devices) {
  require(devices == device_count(), "the product of the sizes must be the number of devices, {}", device_count());
}

// `2,4` as in PyTorch/XLA, which names no axes, or `data=2,model=4`.
Mesh parsed_mesh(const std::string& text) {
  if (text.find('=') != std::string::npos) return Mesh::parse(text);
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;
  for (const std::string& size : split(text, ',')) {
    require(size.size() <= 6 && !size.empty() && size.find_first_not_of("0123456789") == std::string::npos,
            "\"{}\" is not a size; give the sizes of the axes, as in 2,4, or their names and sizes, as in "
            "data=2,model=4",
            size);
    shape.push_back(std::stoll(size));
    count *= shape.back();
    if (count < 1 || count > device_count()) check_product(count);
  }
  std::vector<std::int64_t> devices;
  for (std::int64_t device = 0; device < count; ++device) devices.push_back(device);
  return {devices, shape};
}

}  // namespace

std::optional<Mesh> automatic_mesh() {
  if (!is_auto_spmd()) return std::nullopt;
  const std::string& text = options().text(kMeshVariable);
  if (text.empty()) return std::nullopt;
  try {
    Mesh mesh = parsed_mesh(text);
    check_product(mesh.device_count());
    return mesh;
  } catch (Error& error) {
    throw error.prefix(fmt::format("{}={}: ", kMeshVariable, text));
  }
}

// ---- what is undecided ----------------------------------------------------------------------------------------------

namespace {

using OptionalShardings = std::vector<std::optional<Sharding>>;

// Scalars have only one sharding. Results without a name, such as predictions, stay replicated, so that one rank can
// read them alone.
class Undecided {
 public:
  Undecided(const ExtractedProgram& extracted, const StepResults& results) : extracted_(extracted) {
    std::unordered_map<const Node*, int> numbers;
    for (const auto& input : extracted.inputs) {
      numbers.emplace(input.get(), isize(inputs_));
      inputs_.push_back(input->type.ndim() > 0 && (!input->sharding || input->is_automatic));
    }
    for (const auto& node : results.nodes) {
      const auto old = numbers.find(node->replaces.get());
      const bool follows = old != numbers.end() && at(inputs_, old->second) &&
                           (!node->sharding || node->sharding == at(extracted.inputs, old->second)->sharding);
      follows_.push_back(follows ? old->second : -1);
      results_.push_back(follows || (node->type.ndim() > 0 && !node->sharding && !node->name.empty()));
    }
  }

  [[nodiscard]] bool is_empty() const {
    return std::none_of(inputs_.begin(), inputs_.end(), [](bool is) { return is; }) &&
           std::none_of(results_.begin(), results_.end(), [](bool is) { return is; });
  }
  [[nodiscard]] bool input(int i) const { return at(inputs_, i); }
  [[nodiscard]] bool result(int i) const { return at(results_, i); }

  // The shardings of inputs and results, one after the other; none where the value is undecided.
  [[nodiscard]] OptionalShardings given() const {
    const Computation& entry = extracted_.program.entry_computation();
    OptionalShardings out;
    for (int i = 0; i < isize(inputs_); ++i)
      out.push_back(input(i) ? std::nullopt : std::optional(entry[at(entry.parameters, i)].sharding->front()));
    for (int i = 0; i < isize(results_); ++i)
      out.push_back(result(i) ? std::nullopt : std::optional(at(*entry[entry.root].sharding, i)));
    return out;
  }
  // The same with the shardings that earlier steps have chosen.
  [[nodiscard]] OptionalShardings known() const {
    OptionalShardings out = given();
    for (int i = 0; i < isize(inputs_); ++i)
      if (input(i)) at(out, i) = at(extracted_.inputs, i)->sharding;
    return with_followers(std::move(out));
  }
  // The new value of a variable has the sharding of the old one, so that the next step is the same program.
  [[nodiscard]] OptionalShardings with_followers(OptionalShardings shardings) const {
    for (int i = 0; i < isize(follows_); ++i)
      if (at(follows_, i) >= 0) at(shardings, isize(inputs_) + i) = at(shardings, at(follows_, i));
    return shardings;
  }
  // Whether these shardings are those that the inputs have since earlier steps.
  [[nodiscard]] bool agrees_with(const OptionalShardings& chosen) const {
    const OptionalShardings now = known();
    return std::equal(now.begin(), now.end(), chosen.begin(), chosen.end(),
                      [](const auto& mine, const auto& other) { return !mine || mine == other; });
  }

 private:
  const ExtractedProgram& extracted_;
  std::vector<bool> inputs_;
  std::vector<bool> results_;
  std::vector<int> follows_;  // by result: the input whose new value it is, or -1
};

// The program with these shardings of its inputs and results. Without one, a value is open.
Program with_shardings(const Program& program, const OptionalShardings& shardings) {
  Program out = program;
  auto entry = std::make_shared<Computation>(program.entry_computation());
  const int inputs = isize(entry->parameters);
  for (int i = 0; i < inputs; ++i) {
    const auto& sharding = at(shardings, i);
    at(entry->instructions, at(entry->parameters, i)).sharding = sharding ? make_sharding(*sharding) : nullptr;
  }
  Sharding open;
  open.kind = Sharding::Kind::kUnknown;
  open.mesh = out.meshes.front();
  Shardings leaves;
  for (int i = inputs; i < isize(shardings); ++i) leaves.push_back(at(shardings, i).value_or(open));
  at(entry->instructions, entry->root).sharding = make_shardings(std::move(leaves));
  at(out.computations, out.entry) = std::move(entry);
  for (const auto& sharding : shardings)
    if (sharding && std::find(out.meshes.begin(), out.meshes.end(), sharding->mesh) == out.meshes.end())
      out.meshes.push_back(sharding->mesh);
  return out;
}

// ---- the choice of one rank -----------------------------------------------------------------------------------------

OptionalShardings chosen_by(const Partitioned& parts, const Undecided& undecided) {
  const Computation& entry = parts.global.entry_computation();
  OptionalShardings out = undecided.known();
  const int inputs = isize(entry.parameters);
  for (int i = 0; i < isize(out); ++i) {
    if (at(out, i)) continue;
    const Sharding& found =
        i < inputs ? entry[at(entry.parameters, i)].sharding->front() : at(*entry[entry.root].sharding, i - inputs);
    at(out, i) = found.closed().without_partial();
  }
  return out;
}

// Partitions the program with open inputs and results. If the result is the program that the step will run, it is kept
// for compile_once().
OptionalShardings chosen_on_this_rank(const Program& program, const Undecided& undecided) {
  const Partitioned parts =
      partition(with_shardings(program, undecided.known()), partition_options(RunReason::Kind::kMarkStep));
  const OptionalShardings found = chosen_by(parts, undecided);
  OptionalShardings out = undecided.with_followers(found);
  if (out == found && !is_planning())
    session().partitioned_ahead = {partition_key(with_shardings(program, out)), print_program(parts.program)};
  return out;
}

// ---- the choice of rank 0, for all ranks ----------------------------------------------------------------------------

// Meshes with different axes get different names, because the text refers to them by name.
std::string text_of(const OptionalShardings& shardings) {
  std::vector<Mesh> meshes;
  Shardings leaves;
  for (const auto& sharding : shardings) {
    leaves.push_back(*sharding);
    auto known = std::find(meshes.begin(), meshes.end(), sharding->mesh);
    if (known == meshes.end())
      known = meshes.emplace(meshes.end(), sharding->mesh.axes(), sharding->mesh.device_order(),
                             fmt::format("mesh_{}", meshes.size()));
    leaves.back().mesh = *known;
  }
  return sdy_meshes_text(meshes) + "\n" + sdy_shardings_text(leaves);
}

OptionalShardings parsed_shardings(const std::string& text, const Program& program) {
  const auto end = text.find('\n');
  Shardings leaves = parse_sdy_shardings(text.substr(end + 1), parse_sdy_meshes(text.substr(0, end)));
  OptionalShardings out;
  for (Sharding& leaf : leaves) {
    const auto same = std::find(program.meshes.begin(), program.meshes.end(), leaf.mesh);
    if (same != program.meshes.end()) leaf.mesh = *same;
    out.emplace_back(std::move(leaf));
  }
  return out;
}

OptionalShardings chosen_for_all(const Program& program, const Undecided& undecided, const RunReason& reason) {
  const TimedScope timed("AutoShardingTime", "compile");
  const std::string text = text_from_one_rank(
      "the shardings", fmt::format("chooses shardings of {} for {}", program.name, reason.text), [&] {
        const std::size_t key = partition_key(with_shardings(program, undecided.known()));
        if (std::optional<std::string> kept = load_partitioned(key)) return std::move(*kept);
        std::string made = text_of(chosen_on_this_rank(program, undecided));
        store_partitioned(key, made);
        return made;
      });
  return parsed_shardings(text, program);
}

// A choice of an earlier step for the same program, or a new one.
OptionalShardings choice_for(const ExtractedProgram& extracted, const Undecided& undecided, const RunReason& reason) {
  Session& state = session();
  const ExtractedProgram open{with_shardings(extracted.program, undecided.given()), extracted.inputs};
  const std::size_t hash = open.program.hash();
  auto& known = state.choices.of(*state.world);
  std::vector<OptionalShardings> choices;
  if (const auto* found = known.find(hash)) choices = *found;
  for (const OptionalShardings& choice : choices)
    if (undecided.agrees_with(choice)) return choice;
  begin_run(open, hash, reason);
  choices.push_back(is_planning() ? chosen_on_this_rank(extracted.program, undecided)
                                  : chosen_for_all(extracted.program, undecided, reason));
  known.insert(hash, choices, static_cast<std::size_t>(options().integer("XLA_COMPILATION_CACHE_SIZE")));
  return choices.back();
}

// The input keeps its complete value until its shard is needed.
void store(Node& node, const Sharding& sharding) {
  node.is_automatic = true;
  if (node.sharding) return;
  if (node.is_under_way) await_execution();
  if (!sharding.is_replicated() && !node.shard.is_null()) {
    if (!node.host) node.host = node.shard.to_literal();
    node.shard.reset();
  }
  node.sharding = sharding;
}

// Null if there is nothing to choose.
std::optional<Undecided> undecided_of(const ExtractedProgram& extracted, const StepResults& results) {
  if (!is_auto_spmd() || extracted.program.num_partitions == 1) return std::nullopt;
  Undecided out(extracted, results);
  return out.is_empty() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace

void choose_shardings(ExtractedProgram& extracted, const StepResults& results, const RunReason& reason) {
  const auto undecided = undecided_of(extracted, results);
  if (!undecided) return;
  const OptionalShardings choice = choice_for(extracted, *undecided, reason);
  extracted.program = with_shardings(extracted.program, choice);
  for (int i = 0; i < isize(extracted.inputs); ++i)
    if (undecided->input(i)) store(*at(extracted.inputs, i), *at(choice, i));
  for (int i = 0; i < isize(results.nodes); ++i)
    if (undecided->result(i)) at(results.nodes, i)->is_automatic = true;
}

Program with_chosen_shardings(const ExtractedProgram& extracted, const StepResults& results) {
  const auto undecided = undecided_of(extracted, results);
  if (!undecided) return extracted.program;
  return with_shardings(extracted.program, chosen_on_this_rank(extracted.program, *undecided));
}

}  // namespace tessera
