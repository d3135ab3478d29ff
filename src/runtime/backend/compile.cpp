// SPDX-License-Identifier: Apache-2.0
// From a program to an executable of the selected backend, and the cache of executables.
#include "backend/backend.h"
#include "executable/absent_world.h"
#include "executable/staged_executable.h"
#include "tessera/base/lru_cache.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/passes/stages.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

void check_device_count(const Program& program, const ProcessGroup& world) {
  const std::int64_t devices = program.num_partitions * program.replica_count;
  if (devices == world.size() || (devices == 1 && world.size() == 1)) return;
  require(devices == 1, "{} is a program for {} devices, the world has {} ranks", program.name, devices, world.size());
}

// The executables of this rank for each world, by the hash of the backend.
struct CompileCache {
  PerGroup<LruCache<std::size_t, std::shared_ptr<Executable>>> executables;
};

// Assembles a value of `type` from the leaves of results.
Literal assemble(const Type& type, const std::vector<DeviceArray>& leaves, std::size_t& next) {
  if (!type.is_tuple()) {
    const DeviceArray& leaf = leaves[next++];
    return leaf.is_null() ? Literal(type) : leaf.to_literal();
  }
  std::vector<Literal> elements;
  for (const Type& element : type.elements()) elements.push_back(assemble(element, leaves, next));
  return Literal::tuple(std::move(elements));
}

std::shared_ptr<Executable> built(const Backend& backend, const Program& program, ProcessGroup& world,
                                  const ExecutableOptions& options, std::size_t hash) {
  const TimedScope timed("CompileTime", "compile");
  metrics().count("UncachedCompile");
  check_device_count(program, world);
  return backend.build(program, world, options, hash);
}

}  // namespace

std::shared_ptr<Executable> compile(const Program& program, ProcessGroup& world, const ExecutableOptions& options) {
  const Backend& backend = selected_backend();
  if (const Stages stages = split_stages(program); !stages.stages.empty())
    return compile_stages(program, stages, world, options);
  const std::size_t hash = backend.hash(program, world, options);
  auto& cache = RankContext::current().get<CompileCache>().executables.of(world);
  if (options.use_cache)
    if (const auto* known = cache.find(hash)) {
      metrics().count("CachedCompile");
      return *known;
    }
  std::shared_ptr<Executable> made = built(backend, program, world, options, hash);
  if (options.use_cache) {
    const auto most = static_cast<std::size_t>(tessera::options().integer("XLA_COMPILATION_CACHE_SIZE"));
    if (const auto evicted = cache.insert(hash, made, most).size(); evicted > 0)
      metrics().count("CompileCacheEviction", static_cast<std::int64_t>(evicted));
  }
  return made;
}

ExecutableMemory planned_memory(const Program& program, int ranks, const std::vector<int>& nodes) {
  AbsentWorld world(ranks, nodes);
  ExecutableOptions options;
  options.use_cache = false;
  if (!split_stages(program).stages.empty()) return compile(program, world, options)->memory();
  const Backend& kernels = kernel_backend();  // the plan is theirs, whichever backend runs the program
  return built(kernels, program, world, options, kernels.hash(program, world, options))->memory();
}

void clear_compile_cache() { RankContext::current().get<CompileCache>().executables = {}; }

Literal run_program(const Program& program, ProcessGroup& world, const std::vector<Literal>& arguments,
                    const ExecutableOptions& options) {
  const auto executable = compile(program, world, options);
  const std::vector<DeviceArray> results = executable->run(to_device(arguments));
  std::size_t next = 0;
  return assemble(program.entry_computation().root_type(), results, next);
}

}  // namespace tessera
