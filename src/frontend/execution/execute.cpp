// SPDX-License-Identifier: Apache-2.0
#include "execution/execute.h"

#include <algorithm>

#include "execution/debug_report.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/frontend/tracing/known_ids.h"
#include "tessera/ops/rows.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/sharding/placement.h"
#include "tessera/sharding/shard_data.h"
#include "tracing/step_under_way.h"

namespace tessera {

Session& session() {
  auto& state = RankContext::current().get<Session>();
  if (!state.world) state.world = make_single_rank_world();
  return state;
}

Sharding storage_of(const Node& node) {
  return node.sharding ? *node.sharding : Sharding::replicated(default_mesh(), node.type.ndim());
}

DeviceArray device_shard(Node& node) {
  if (node.is_under_way) await_execution();
  require(!node.is_abstract, "{} is an abstract tensor: it has a type but no value, so nothing can run on it",
          node.name);
  if (!node.shard.is_null()) return node.shard;
  ensure(node.host.has_value(), "{} has no value", node.name);
  note_given(node);
  note_bounds(node);
  const Literal part =
      node.sharding ? take_shard(*node.host, *node.sharding, RankContext::current().rank()) : *node.host;
  node.shard = DeviceArray::from_literal(part);
  node.host.reset();
  return node.shard;
}

void note_given(Node& node) {
  if (!node.is_given || node.given_hash || !node.host || session().world->size() == 1) return;
  if (options().flag("TESSERA_CHECK_INPUTS")) node.given_hash = node.host->hash();
}

void note_given_shard(Node& node, const Literal& shard) {
  if (session().world->size() == 1 || !options().flag("TESSERA_CHECK_INPUTS") || node.sharding->is_partial()) return;
  std::int64_t tiles = 1;
  for (const DimPlacement& dim : placement_of(node.type, *node.sharding).dims) tiles *= dim.tiles;
  if (tiles < node.sharding->mesh.device_count())
    node.shard_hash = unpadded_shard(shard, node.type, *node.sharding, RankContext::current().rank()).hash();
}

RunReason run_reason(RunReason::Kind kind, const std::source_location& where, const std::string& what) {
  std::string_view file = where.file_name();
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  const bool is_step = kind == RunReason::Kind::kMarkStep;
  const char* verb = is_step ? "mark_step" : "read of";
  return {kind, fmt::format("{}{}{} at {}:{}", verb, what.empty() ? "" : " ", what, file, where.line()),
          trace().sync_counter.value_or(is_step ? "sync::mark_step" : "sync::to_host")};
}

namespace {

// Moves the arrays whose memory a result takes over, so that the run holds the only handles.
RunArguments take_arguments(ExtractedProgram& extracted) {
  std::vector<bool> donated(extracted.inputs.size(), false);
  for (const auto& alias : extracted.program.aliases) donated[static_cast<std::size_t>(alias.parameter)] = true;
  RunArguments arguments(std::exchange(extracted.inputs, {}));
  for (const bool gives_up : donated) arguments.add(gives_up);
  return arguments;
}

}  // namespace

void begin_run(const ExtractedProgram& extracted, std::size_t hash, const RunReason& reason) {
  await_execution();
  Session& state = session();
  if (state.world->size() > 1)
    check_same_program(*state.world, extracted, hash, reason, ++state.sequence.of(*state.world));
}

void RunArguments::add(bool gives_up) {
  Node& node = *inputs_[arrays_.size()];
  if (node.shard.is_null()) find_array_of(node);
  if (!gives_up) {
    arrays_.push_back(node.shard);
    return;
  }
  given_up_.push_back(arrays_.size());
  arrays_.push_back(std::move(node.shard));
  node.shard = DeviceArray();
}

// The array is on the host, or was moved into the arguments for an earlier input.
void RunArguments::find_array_of(Node& node) {
  const auto place = std::find_if(given_up_.begin(), given_up_.end(),
                                  [&](std::size_t earlier) { return inputs_[earlier].get() == &node; });
  if (place == given_up_.end())
    (void)device_shard(node);
  else
    node.shard = arrays_[*place];
}

void RunArguments::give_back() {
  for (const std::size_t place : given_up_)
    if (place < arrays_.size() && !arrays_[place].is_null()) inputs_[place]->shard = std::move(arrays_[place]);
}

std::vector<DeviceArray> finish_run(const Program& program, Executable& executable, RunArguments arguments,
                                    const RunReason& reason) {
  Session& state = session();
  ++state.counters.executions;
  report_execution(program, reason);
  try {
    return executable.run_with(arguments.arrays());
  } catch (...) {
    arguments.give_back();
    throw;
  }
}

namespace {

// Removes the records of programs that the cache gave up.
void forget(const std::vector<Session::Compiled>& evicted) {
  for (const Session::Compiled& program : evicted) {
    metrics().count("CompileCacheEviction");
    std::erase_if(session().programs,
                  [&](const CompiledProgram& record) { return record.executable.lock() == program.executable; });
  }
}

// Numbers the run, compares it between ranks, and compiles the program.
Session::Compiled prepare_run(const ExtractedProgram& extracted, const RunReason& reason) {
  require(!is_planning(), "{}: this process only plans (plan_for_devices) and cannot run programs", reason.text);
  materialize(extracted.inputs, reason.text);
  Session& state = session();
  const std::size_t hash = extracted.program.hash();
  begin_run(extracted, hash, reason);
  auto& cache = state.cache.of(*state.world);
  if (const Session::Compiled* known = cache.find(hash)) {
    ++state.counters.cached;
    metrics().count("CachedCompile");
    return *known;
  }
  Session::Compiled made = compile_once(extracted.program, reason);
  forget(cache.insert(hash, made, static_cast<std::size_t>(options().integer("XLA_COMPILATION_CACHE_SIZE"))));
  return made;
}

}  // namespace

RunResult run_extracted(ExtractedProgram extracted, const RunReason& reason) {
  const Session::Compiled compiled = prepare_run(extracted, reason);
  return {finish_run(extracted.program, *compiled.executable, take_arguments(extracted), reason), compiled.results};
}

void run_step(ExtractedProgram extracted, const StepResults& results, const RunReason& reason) {
  if (!steps_overlap()) return set_results(results, run_extracted(std::move(extracted), reason));
  const Session::Compiled compiled = prepare_run(extracted, reason);
  ++session().counters.executions;
  report_execution(extracted.program, reason);
  start_step(compiled.executable, std::move(take_arguments(extracted).arrays()), results.nodes, reason);
  set_results(results, {std::vector<DeviceArray>(results.nodes.size()), compiled.results});
}

// ---- initial values -----------------------------------------------------------------------------------------------------

namespace {

void read_shard(Node& node) {
  if (is_planning()) {
    node.is_abstract = true;
  } else {
    const Sharding sharding = storage_of(node);
    const Type type = shard_type(node.type, sharding);
    // The reader writes all elements but those of the padding.
    const bool has_padding = !sharding.is_tiled() || !is_even(node.type, sharding);
    DeviceArray shard = has_padding ? DeviceArray::zeros(type) : DeviceArray::uninitialized(type);
    node.reader(node.type, sharding, RankContext::current().rank(), shard.mutable_bytes());
    node.shard = std::move(shard);
  }
  node.reader = nullptr;
}

}  // namespace

void materialize(const std::vector<std::shared_ptr<Node>>& given, std::string_view cause) {
  for (const auto& node : given)
    if (node->reader) read_shard(*node);
  std::vector<std::shared_ptr<Node>> nodes;
  std::copy_if(given.begin(), given.end(), std::back_inserter(nodes),
               [](const auto& node) { return node->is_deferred(); });
  if (nodes.empty()) return;
  ProgramBuilder program("initialize");
  Builder main = program.computation("main");
  std::vector<Value> values;
  Shardings shardings;
  for (const auto& node : nodes) {
    values.push_back(node->initializer(main, node->type));
    shardings.push_back(storage_of(*node));
    main.set_sharding(values.back(), make_sharding(shardings.back()));
  }
  const Value root = main.emit(rows::kTuple, values, nullptr, {.sharding = make_shardings(std::move(shardings))});
  const ComputationId entry = program.add(std::move(main), root);
  ExtractedProgram extracted{program.finish(entry), {}};
  extracted.program.num_partitions = device_count();
  extracted.program.meshes = {default_mesh()};
  const RunResult result =
      run_extracted(std::move(extracted),
                    {RunReason::Kind::kInitialize, fmt::format("initial values for {}", cause), "sync::initialize"});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i]->initializer = nullptr;
    nodes[i]->shard = result.shards[i];
  }
}

}  // namespace tessera
