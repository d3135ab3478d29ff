// SPDX-License-Identifier: Apache-2.0
#include "tessera/collectives/virtual_ranks.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>

#include "in_process/thread_group.h"
#include "tessera/base/listed_nodes.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/collectives/communication_turn.h"

namespace tessera {
namespace {

using collectives::Cluster;
using collectives::ThreadFabric;

std::shared_ptr<ProcessGroup> make_world_group(const std::shared_ptr<Cluster>& cluster, int rank) {
  std::vector<int> all(static_cast<std::size_t>(cluster->size()));
  std::iota(all.begin(), all.end(), 0);
  return std::make_shared<ThreadFabric>(cluster, rank)->make_group(all, "world", 0);
}

std::exception_ptr run_rank(const std::shared_ptr<Cluster>& cluster, int rank,
                            const std::function<void(ProcessGroup& world)>& fn) {
  try {
    std::shared_ptr<ProcessGroup> world;  // before the context, whose thread may use it
    RankContext context(rank, cluster->size());
    const RankScope scope(context);
    if (cluster->size() > 1 && options().text("TESSERA_SHARED_MEMORY") == "1")
      context.get<collectives::OwnNodeMemory>().make = [&cluster, rank] {
        return collectives::Heap::create(rank, collectives::machine_memory_bytes(), cluster->segments());
      };
    world = make_world_group(cluster, rank);
    fn(*world);
    context.get<CommunicationTurn>().await();  // work that still runs in parallel may have failed
  } catch (...) {
    cluster->poison(rank);
    return std::current_exception();
  }
  cluster->finish(rank);
  return nullptr;
}

[[noreturn]] void rethrow_from(const std::exception_ptr& error, int rank, int count) {
  const std::string prefix = count == 1 ? "" : fmt::format("rank {} of {}: ", rank, count);
  try {
    std::rethrow_exception(error);
  } catch (Error& e) {
    e.prefix(prefix);
    throw;
  } catch (const std::exception& e) {
    throw Error(prefix + message_for_user(e));
  } catch (...) {
    throw Error(prefix + "an exception that is not a std::exception");
  }
}

// The node of each rank: from the caller, else from TESSERA_NODE.
std::function<int(int)> node_function(int count, const VirtualRankOptions& given) {
  if (given.node_of) return given.node_of;
  return [nodes = listed_nodes(count)](int rank) { return at(nodes, rank); };
}

// CPU_NUM_DEVICES, or 0 if there is one device. This is read before the ranks, which have options, exist. They report a
// value that is no number.
int devices_of_environment() {
  const char* text = std::getenv("CPU_NUM_DEVICES");
  int devices = 0;
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), devices);
  return devices > 1 ? devices : 0;
}

// The number of processes that mpirun has started; "1" without mpirun.
std::string_view processes_of_mpirun() {
  const char* started = std::getenv("OMPI_COMM_WORLD_SIZE");
  return started == nullptr ? "1" : started;
}

}  // namespace

bool mpirun_started_several() { return processes_of_mpirun() != "1"; }

int virtual_rank_count(std::string_view flag, int given) {
  const int devices = devices_of_environment();
  require(given == 0 || devices == 0 || given == devices,
          "{} {} and CPU_NUM_DEVICES={} contradict each other; give one", flag, given, devices);
  const int count = std::max(given, devices);
  require(
      count == 0 || !mpirun_started_several(),
      "{} creates ranks as threads, but mpirun already started {} processes; use one of the two",
      [&] { return given > 0 ? fmt::format("{} {}", flag, given) : fmt::format("CPU_NUM_DEVICES={}", devices); },
      processes_of_mpirun());
  return count;
}

void run_virtual_ranks(int count, const std::function<void(ProcessGroup& world)>& fn, const VirtualRankOptions& given) {
  require(count >= 1, "{} virtual ranks; at least one is needed", count);
  const auto cluster = std::make_shared<Cluster>(count, node_function(count, given), given.between_nodes);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] { at(errors, rank) = run_rank(cluster, rank, fn); });
  for (auto& thread : threads) thread.join();
  for (const bool stopped : {false, true})  // prefer original failures to those that followed from them
    for (int rank = 0; rank < count; ++rank)
      if (at(errors, rank) && cluster->was_stopped(rank) == stopped) rethrow_from(at(errors, rank), rank, count);
}

std::shared_ptr<ProcessGroup> make_single_rank_world() {
  return make_world_group(std::make_shared<Cluster>(1, nullptr), 0);
}

}  // namespace tessera
