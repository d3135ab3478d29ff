// SPDX-License-Identifier: Apache-2.0
// `tessera run` on the ranks of mpirun, or on ranks that are threads. Rank r is device r.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "input.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/collectives/world.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/ops/custom_call.h"
#include "tessera/ops/elided_constants.h"
#include "tessera/ops/evaluate.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/reshard_insertion/partial_values.h"
#include "tessera/passes/passes.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/sharding/placement.h"
#include "tessera/tensor/safetensors.h"

namespace tessera::command {
namespace {

// ---- values and their leaves --------------------------------------------------------------------------------------------

// Returns `x`, or `x.0`, `x.1`, … for the leaves of a tuple.
std::vector<std::string> leaf_names(const std::string& name, const Type& type) {
  if (!type.is_tuple()) return {name};
  std::vector<std::string> out;
  for (int i = 0; i < type.leaf_count(); ++i) out.push_back(fmt::format("{}.{}", name, i));
  return out;
}

// Returns a value of the type whose leaves come from `next`, in pre-order.
template <class Next>
Literal build(const Type& type, Next&& next) {
  if (!type.is_tuple()) return next();
  std::vector<Literal> elements;
  for (const auto& element : type.elements()) elements.push_back(build(element, next));
  return Literal::tuple(std::move(elements));
}

// Returns the sharding of the leaf; replicated if it has none.
Sharding sharding_of_leaf(const Instruction& instruction, std::size_t leaf, const Type& type) {
  if (instruction.sharding) return (*instruction.sharding)[leaf];
  return Sharding::replicated(Mesh(), type.is_array() ? type.ndim() : 0);
}

bool is_sharded(const Sharding& sharding) { return sharding.is_tiled() && !sharding.is_replicated(); }

// ---- arguments ------------------------------------------------------------------------------------------------------------

std::vector<Literal> arguments_from_file(const Program& program, const std::string& path) {
  const SafetensorsFile file = read_safetensors(path);
  std::vector<std::string> known;
  for (const auto& [name, tensor] : file.tensors) known.push_back(escape_controls(name));
  std::vector<Literal> out;
  std::size_t used = 0;
  const Computation& entry = program.entry_computation();
  for (const Id id : entry.parameters) {
    const auto names = leaf_names(entry[id].name, entry[id].type);
    const auto types = entry[id].type.leaves();
    std::size_t leaf = 0;
    out.push_back(build(entry[id].type, [&] {
      const auto& name = names[leaf];
      const Type& type = types[leaf++];
      const Literal* found = file.find(name);
      require(found != nullptr, "{} has no tensor \"{}\"{}", path, name, [&] { return suggest_name(name, known); });
      require(found->type() == type, "{}: tensor \"{}\" is {}, the parameter {}{}", path, name, found->type(), type,
              program.partitioned ? " (a per-device program takes shards; give complete arrays to the global program)"
                                  : "");
      ++used;
      return *found;
    }));
  }
  require(used == file.tensors.size(), "{} has {} tensors, the program takes {}", path, file.tensors.size(), used);
  return out;
}

template <class T>
std::vector<T> from_all_ranks(const std::vector<T>& mine, ProcessGroup& world) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(world.size()));
  if (!all.empty()) world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  return all;
}

// Returns the ranks whose hash `k` differs from that of rank 0. `all` has `count` hashes for each rank.
std::vector<std::int64_t> ranks_with_another(const std::vector<std::uint64_t>& all, std::size_t k, std::size_t count) {
  std::vector<std::int64_t> ranks;
  for (std::size_t i = k; i < all.size(); i += count)
    if (all[i] != all[k]) ranks.push_back(static_cast<std::int64_t>(i / count));
  return ranks;
}

// Whether a device of a per-device program may have another value of the parameter than the other devices.
bool may_differ(const Program& program, const Instruction& parameter) {
  const auto is_replicated = [](const Sharding& leaf) { return leaf.is_replicated(); };
  return program.partitioned &&
         (!parameter.sharding || !std::all_of(parameter.sharding->begin(), parameter.sharding->end(), is_replicated));
}

void check_same_program(const Program& program, ProcessGroup& world) {
  const auto others = ranks_with_another(from_all_ranks(std::vector<std::uint64_t>{program.hash()}, world), 0, 1);
  if (others.empty()) return;
  const std::string ranks = fmt::format("{} {}", others.size() == 1 ? "rank" : "ranks", fmt::join(others, ", "));
  fail("the program is not the same on all ranks: {} {} another program than rank 0; give every rank the same file",
       ranks, others.size() == 1 ? "has" : "have");
}

// Each rank takes its shards of the arguments of a global program, so the arguments must be equal on all ranks. Seeded
// arguments are equal for every program. The file of a rank may hold its shards of a per-device program.
void check_same_arguments(const Program& program, const std::vector<Literal>& arguments, bool from_file,
                          ProcessGroup& world) {
  if (world.size() == 1 || !options().flag("TESSERA_CHECK_INPUTS")) return;
  const Computation& entry = program.entry_computation();
  std::vector<std::uint64_t> hashes;
  for (std::size_t k = 0; k < arguments.size(); ++k)
    hashes.push_back(from_file && may_differ(program, entry[entry.parameters[k]]) ? 0 : arguments[k].hash());
  const auto bytes = std::as_bytes(std::span(hashes));
  const auto one_hash = from_all_ranks(std::vector<std::uint64_t>{hash_bytes(bytes.data(), bytes.size())}, world);
  if (ranks_with_another(one_hash, 0, 1).empty()) return;
  const auto all = from_all_ranks(hashes, world);
  for (std::size_t k = 0; k < hashes.size(); ++k) {
    const auto others = ranks_with_another(all, k, hashes.size());
    if (others.empty()) continue;
    fail(
        "{}: parameter %{} {} is not the same on all ranks: {} {} than rank 0. Every rank must have the same complete "
        "value: give every rank the same --seed, or the same tensors in --inputs (C++ programs can pass a different "
        "shard on each rank with Tensor::from_local_shards)",
        program.name, entry[entry.parameters[k]].name, arguments[k].type(),
        fmt::format("{} {}", others.size() == 1 ? "rank" : "ranks", fmt::join(others, ", ")),
        others.size() == 1 ? "has a different value" : "have different values");
  }
}

// Returns a device's shard of a global argument.
Literal local_argument(const Literal& global, const Instruction& parameter, std::int64_t device) {
  const auto leaves = global.leaves();
  std::size_t leaf = 0;
  return build(global.type(), [&] {
    const Literal& value = leaves[leaf];
    const Sharding sharding = sharding_of_leaf(parameter, leaf++, value.type());
    return is_sharded(sharding) ? take_shard(value, sharding, device) : value;
  });
}

// ---- results --------------------------------------------------------------------------------------------------------------

// Returns a leaf from every rank.
std::vector<Literal> gathered(const Literal& local, ProcessGroup& world) {
  std::vector<std::byte> all(local.bytes().size() * static_cast<std::size_t>(world.size()));
  if (!all.empty()) world.all_gather(local.bytes(), all);
  std::vector<Literal> out;
  for (int rank = 0; rank < world.size(); ++rank) {
    Literal one(local.type());
    const auto bytes = one.mutable_bytes();
    if (!bytes.empty())
      std::memcpy(bytes.data(), all.data() + static_cast<std::size_t>(rank) * bytes.size(), bytes.size());
    out.push_back(std::move(one));
  }
  return out;
}

// Adds up the elements; only the real parts of complex elements.
double sum_of(const Literal& value) {
  double sum = 0;
  if (value.type().dtype() == DType::kC64)
    for (const auto& element : value.data<Complex64>()) sum += static_cast<double>(element.real());
  else if (value.type().dtype() == DType::kC128)
    for (const auto& element : value.data<Complex128>()) sum += element.real();
  else
    for (std::int64_t i = 0; i < value.type().element_count(); ++i) sum += element_as_double(value, i);
  return sum;
}

std::string summary(const std::string& name, const Literal& value) {
  const double sum = sum_of(value);
  return fmt::format("{}: {} sum {:.9g} hash {:016x}\n", name, value.type().str(), sum,
                     hash_bytes(value.bytes().data(), value.bytes().size()));
}

struct Results {
  std::string text;
  SafetensorsFile file;
};

void add_result(Results& out, const std::string& name, const Literal& value) {
  if (!value.type().is_array()) return;
  out.text += summary(name, value);
  out.file.tensors.emplace_back(name, value);
}

// Prints notes about parameters and results that are unreduced.
void report_unreduced_values(const Computation& entry) {
  const auto say = [](const std::string& what, const Sharding& sharding, std::string_view done) {
    if (sharding.is_partial()) fmt::print(stderr, "note: {} is {}: {}\n", what, unreduced_text(sharding), done);
  };
  for (const Id id : entry.parameters)
    for (int leaf = 0; leaf < entry[id].type.leaf_count() && entry[id].sharding; ++leaf)
      say("parameter %" + leaf_names(entry[id].name, entry[id].type)[static_cast<std::size_t>(leaf)],
          at(*entry[id].sharding, leaf),
          "the first device of each group gets the value, the others the neutral value (0 for sums)");
  const Instruction& root = entry[entry.root];
  for (int leaf = 0; leaf < root.type.leaf_count() && root.sharding; ++leaf)
    say(leaf_names("result", root.type)[static_cast<std::size_t>(leaf)], at(*root.sharding, leaf),
        "shown reduced over the devices of each group");
}

Results run_global(const Program& program, const std::vector<Literal>& arguments, ProcessGroup& world) {
  const Partitioned partitioned = partition(program);
  const Computation& entry = partitioned.global.entry_computation();
  std::vector<Literal> local;
  for (std::size_t k = 0; k < arguments.size(); ++k)
    local.push_back(local_argument(arguments[k], entry[entry.parameters[k]], world.rank()));
  if (world.rank() == 0) report_unreduced_values(entry);
  const auto leaves = run_program(partitioned.program, world, local).leaves();
  const auto types = entry.root_type().leaves();
  const auto names = leaf_names("result", entry.root_type());
  Results out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Sharding sharding = sharding_of_leaf(entry[entry.root], i, types[i]);
    const bool has_owner = sharding.kind == Sharding::Kind::kMaximal;  // the value is undefined on all others
    if ((!is_sharded(sharding) && !has_owner) || !types[i].is_array()) {
      add_result(out, names[i], leaves[i]);
      continue;
    }
    const auto all = gathered(leaves[i], world);
    add_result(out, names[i],
               has_owner ? at(all, sharding.device)
                         : assemble(types[i], sharding.without_partial(), reduced_shards(sharding, all)));
  }
  return out;
}

// Runs a per-device program: arguments and results are local, and every rank has the same arguments.
Results run_local(const Program& program, const std::vector<Literal>& arguments, ProcessGroup& world) {
  const Literal result = run_program(program, world, arguments);
  const auto leaves = result.leaves();
  const auto names = leaf_names("result", result.type());
  Results out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto all = gathered(leaves[i], world);
    const bool same = std::all_of(all.begin(), all.end(), [&](const Literal& one) { return one == all.front(); });
    for (std::size_t rank = 0; rank < (same ? 1 : all.size()); ++rank)
      add_result(out, same ? names[i] : fmt::format("{}.rank{}", names[i], rank), all[rank]);
  }
  return out;
}

// Evaluates the unpartitioned program on one device with the reference evaluation. All ranks do the same.
Results run_reference(const Program& program, const std::vector<Literal>& arguments) {
  require(!program.partitioned,
          "--engine reference evaluates global programs; `tessera check --engine reference` compares partitioned ones");
  const auto leaves = evaluate(without_replica_collectives(make_synchronous(program)), arguments).leaves();
  const auto names = leaf_names("result", program.entry_computation().root_type());
  Results out;
  for (std::size_t i = 0; i < leaves.size(); ++i) add_result(out, names[i], leaves[i]);
  return out;
}

// mpirun passes standard input to rank 0 only, which sends the text to the other ranks.
std::string input_text(const Arguments& given, ProcessGroup& world) {
  if (given.input() != "-" || world.size() == 1) return read_input(given);
  std::string text = world.rank() == 0 ? read_input(given) : "";
  std::size_t size = text.size();
  world.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(size);
  if (size > 0) world.broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

// The options of all ranks must be equal, except --inputs and --seed: check_same_arguments() compares what these give.
void check_same_options(const Arguments& given, ProcessGroup& world) {
  join_world(world);
  std::vector<std::pair<std::string, std::string>> values;
  for (const Option& option : kRun.options)
    if (option.name != "inputs" && option.name != "seed")
      values.emplace_back(option.name, option.value.empty()
                                           ? (given.has(option.name) ? "given" : "")
                                           : fmt::format("{}", fmt::join(given.values(option.name), " ")));
  values.emplace_back("TESSERA_CHECK_INPUTS", options().text("TESSERA_CHECK_INPUTS"));  // it decides about collectives
  check_same_on_all_ranks(values);
}

void execute(const Arguments& given, std::uint64_t seed, ProcessGroup& world) {
  warn_of_unknown_variables();
  check_same_options(given, world);
  const auto outputs = given.value("outputs");
  if (outputs && world.rank() == 0) check_writable(*outputs);  // before a long run
  const bool by_reference = given.value_or("engine", "runtime") == "reference";
  const Program program =
      program_of(input_text(given, world), given,
                 {.partitions = by_reference ? 0 : std::int64_t{world.size()}, .says_notes = world.rank() == 0});
  require(!program.partitioned || (!given.has("mesh") && !given.has("annotate")),
          "{} is a per-device program: --mesh and --annotate apply only to global programs", program.name);
  check_same_program(program, world);
  refuse_elided_constants(program, "run");
  if (const auto unknown = unknown_custom_calls(program); !unknown.empty())
    fail(
        "custom-calls to {} cannot be run: Tessera does not know what they compute{}", fmt::join(unknown, ", "),
        std::any_of(unknown.begin(), unknown.end(), [](const std::string& name) { return name.starts_with("lapack_"); })
            ? " (JAX emits them for the CPU; jax.jit(f).trace(x).lower(lowering_platforms=(\"tpu\",)) keeps such ops)"
            : "");
  const auto path = given.value("inputs");
  const auto arguments = path ? arguments_from_file(program, *path) : seeded_arguments(program, seed);
  check_same_arguments(program, arguments, path.has_value(), world);
  const Results results = by_reference          ? run_reference(program, arguments)
                          : program.partitioned ? run_local(program, arguments, world)
                                                : run_global(program, arguments, world);
  if (world.rank() != 0) return;
  if (by_reference && program.num_partitions > 1)
    fmt::print(stderr,
               "note: the program for {} devices was evaluated on one device; its shardings have no effect here\n",
               program.num_partitions);
  if (program.partitioned && !path && world.size() > 1)
    fmt::print(stderr,
               "note: {} is a per-device program: the inputs have the shapes of its parameters and are the same on "
               "every rank\n",
               program.name);
  write_text("-", results.text);
  if (outputs) write_safetensors(*outputs, results.file);
}

int run(const Arguments& arguments) {
  const auto seed = static_cast<std::uint64_t>(arguments.number_or("seed", 0));
  const bool by_reference = arguments.value_or("engine", "runtime") == "reference";
  if (by_reference && arguments.has("virtual-ranks"))
    throw UsageError("--engine reference evaluates the program on one rank; leave out --virtual-ranks");
  const int threads = virtual_ranks(arguments);
  const bool is_for_one = threads == 0 && by_reference;
  // Checks usage errors before ranks exist. The number of mpirun's ranks is checked later.
  constexpr std::int64_t kUnknown = -1;
  check_sharding_options(arguments, is_for_one ? 0 : threads > 0 ? threads : kUnknown);
  if (threads > 0) {
    run_virtual_ranks(threads, [&](ProcessGroup& world) { execute(arguments, seed, world); });
    return kGood;
  }
  char name[] = "tessera";
  char* words[] = {name, nullptr};
  int count = 1;
  char** list = words;
  Communicator world = make_world(count, list);
  return guard_main(world, [&] {
    try {
      execute(arguments, seed, world.group());
    } catch (Error& error) {
      error.prefix("tessera run: ");
      throw;
    }
  });
}

constexpr std::int64_t kMostVirtualRanks = 4096;

std::vector<Option> options() {
  auto out = sharding_options();
  out.push_back({"virtual-ranks", "N", "run on N ranks that are threads of this process, without mpirun",
                 integer_in_range(1, kMostVirtualRanks)});
  out.push_back({"inputs", "FILE", "a safetensors file with one tensor for each parameter; default: random inputs"});
  out.push_back({"outputs", "FILE", "write the results as safetensors"});
  out.push_back({"engine", "runtime|reference",
                 "runtime: partition the program and run it with the fast kernels (default); reference: evaluate the "
                 "global program with the reference evaluation, on one rank",
                 one_of({"runtime", "reference"})});
  out.push_back({"seed", "N", "the seed of the inputs; default: 0", integer_in_range(0)});
  return out;
}

}  // namespace

const Verb kRun = {"run", "runs a program on the ranks of mpirun, or on threads",
                   "Partitions a global program for the ranks of mpirun or of --virtual-ranks; its inputs and outputs "
                   "are complete arrays.\n"
                   "A per-device program runs unchanged; its inputs and outputs are shards. Prints the type, sum and "
                   "hash of every result.\n"
                   "Rank 0 reads standard input (-) for all ranks.",
                   options(), run};

}  // namespace tessera::command
