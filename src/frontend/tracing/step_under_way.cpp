// SPDX-License-Identifier: Apache-2.0
#include "tracing/step_under_way.h"

#include <algorithm>

#include "tessera/base/cpus.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/collectives/communication_turn.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

StepUnderWay& step_under_way() { return RankContext::current().get<StepUnderWay>(); }

// Returns true if each rank of the node has a core for tracing in addition to the cores of its compute threads.
bool has_a_core_to_trace_on() {
  const Session& state = session();
  const int ranks = state.local_ranks > 0 ? state.local_ranks : state.world->size();
  return ranks * (1 + std::max<std::int64_t>(1, options().integer("TESSERA_NUM_THREADS"))) <= usable_cpu_count();
}

ExecutionWorker& worker() {
  StepUnderWay& step = step_under_way();
  if (step.worker == nullptr) {
    RankContext& context = RankContext::current();
    auto made = std::make_shared<ExecutionWorker>(context);
    step.worker = made.get();
    context.keep_worker(std::move(made));
  }
  return *step.worker;
}

}  // namespace

bool steps_overlap() {
  std::optional<bool>& is_wanted = step_under_way().is_wanted;
  if (!is_wanted) {
    const std::string& asked = options().text("TESSERA_ASYNC");
    is_wanted = asked == "auto" ? has_a_core_to_trace_on() : asked == "1";
  }
  return *is_wanted;
}

void start_step(std::shared_ptr<Executable> executable, std::vector<DeviceArray> arguments,
                const std::vector<std::shared_ptr<Node>>& nodes, const RunReason& reason) {
  StepUnderWay& step = step_under_way();
  ensure(!step.is_running, "a step begins while another one is running");
  ExecutionWorker& runner = worker();
  step.nodes.assign(nodes.begin(), nodes.end());
  for (const auto& node : nodes) node->is_under_way = true;
  step.is_running = true;
  RankContext::current().get<CommunicationTurn>().give_to(runner.id(), await_execution);
  // A std::function must be copyable, but donated arrays must keep a single handle. Therefore the job holds a shared
  // pointer.
  auto given = std::make_shared<std::vector<DeviceArray>>(std::move(arguments));
  runner.start([&step, given, executable = std::move(executable), reason = reason.text] {
    try {
      step.results = executable->run(std::move(*given));
    } catch (Error& error) {
      error.prefix(reason + ": ");
      throw;
    }
  });
}

void await_execution() {
  StepUnderWay& step = step_under_way();
  if (!step.is_running) return;
  std::exception_ptr error;
  try {
    const TimedScope timed("DeviceLockWait", "wait");
    step.worker->wait();
  } catch (...) {
    error = std::current_exception();
  }
  step.is_running = false;
  RankContext::current().get<CommunicationTurn>().give_back();
  const std::vector<DeviceArray> results = std::exchange(step.results, {});
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const auto node = step.nodes[i].lock();
    if (!node) continue;
    node->is_under_way = false;
    if (!error) node->shard = results[i];
  }
  step.nodes.clear();
  if (error) std::rethrow_exception(error);
}

void wait_device_ops() { await_execution(); }

}  // namespace tessera
