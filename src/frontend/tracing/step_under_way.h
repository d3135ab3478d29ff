// SPDX-License-Identifier: Apache-2.0
// The step that runs while the rank traces the next one (TESSERA_ASYNC). There is at most one. Code that needs the
// world, the arena or a value of the step waits for it first.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "execution/execute.h"
#include "execution/execution_worker.h"

namespace tessera {

/// One for each RankContext.
struct StepUnderWay {
  ExecutionWorker* worker = nullptr;  // owned by the context; created with the first step
  std::optional<bool> is_wanted;      // TESSERA_ASYNC, read once
  bool is_running = false;
  std::vector<std::weak_ptr<Node>> nodes;  // the nodes that receive its results, if they still exist
  std::vector<DeviceArray> results;        // set after it has ended
};

/// Returns true if steps run during tracing.
bool steps_overlap();
/// Starts the run on the worker and returns. The nodes have their values after await_execution().
void start_step(std::shared_ptr<Executable> executable, std::vector<DeviceArray> arguments,
                const std::vector<std::shared_ptr<Node>>& nodes, const RunReason& reason);

}  // namespace tessera
