// SPDX-License-Identifier: Apache-2.0
// Eager mode: runs each op as a program of its own when it is traced. The ops stay in the trace, because backward()
// needs them. Programs that are extracted from the trace later begin with the values that are data.
//
//   y = tanh(x)      tanh runs; its result is the data of y
//   z = y * y        multiply runs; its program has y as a parameter, and does not contain tanh
#include <algorithm>

#include "execution/execute.h"
#include "sharding/manual_scope.h"
#include "tessera/frontend/execution/eager_mode.h"
#include "tessera/ops/control_flow.h"

namespace tessera {

void experimental::eager_mode(bool on) { trace().switch_eager(on); }
bool experimental::is_eager_mode() { return trace().is_eager(); }

experimental::EagerModeContext::EagerModeContext(bool on) : before_(is_eager_mode()) { eager_mode(on); }
experimental::EagerModeContext::~EagerModeContext() { trace().restore_eager(before_); }

namespace {

// Other instructions are copied into the program of each op that uses them: constants and inputs, tuples, and those of
// a manual region, which run when a value leaves the region.
bool runs_alone(const Instruction& instruction, int regions) {
  return regions == 0 && instruction.type.is_array() && instruction.op->role != Role::kParameter;
}

// An instruction. If it is an element of a tuple, also the other elements: the op that computes the tuple runs once.
std::vector<Id> computed_together(const Computation& traced, Id id) {
  std::vector<Id> out{id};
  if (traced[id].op->role != Role::kGetTupleElement) return out;
  for (Id other = id + 1; other < traced.size(); ++other)
    if (traced[other].op->role == Role::kGetTupleElement && traced[other].operands == traced[id].operands &&
        traced[other].type.is_array())
      out.push_back(other);
  return out;
}

// Nullopt: fully replicated.
std::optional<Sharding> sharding_of_result(const Instruction& instruction) {
  if (!instruction.sharding || !instruction.sharding->front().is_tiled()) return std::nullopt;
  return instruction.sharding->front();
}

// `tanh at train.cpp:12`.
RunReason reason_of(const Instruction& instruction) {
  const std::string source = instruction.source();
  return {RunReason::Kind::kEager,
          source.empty() ? std::string(instruction.op->name) : fmt::format("{} at {}", instruction.op->name, source),
          "sync::eager"};
}

// Runs one program that computes these values of the trace. `wanted` is the sharding of a single value.
std::vector<std::shared_ptr<Node>> run_values(const std::vector<Id>& ids, const std::optional<Sharding>& wanted) {
  Trace& current = trace();
  StepResults results;
  for (const Id id : ids) {
    const Value value = current.builder().value(id);
    results.outputs.push_back({value, wanted ? wanted : sharding_of_result(value.instruction()), -1});
    results.nodes.push_back(current.make_node(value.type()));
  }
  const RunReason reason = reason_of(current.builder()[ids.front()]);
  set_results(results, run_extracted(extract_program(current, results.outputs, "eager"), reason));
  return results.nodes;
}

}  // namespace

void Trace::switch_eager(bool on) {
  require_no_function("eager_mode is called");
  require(capture_ == nullptr, "compile: the function calls eager_mode(); call it outside of the function");
  is_eager_ = on;
  if (!runs_eagerly()) return;
  for (const auto& node : live_nodes())
    if (!node->has_data()) run_at_once(*node);
}

bool Trace::runs_eagerly() const { return is_eager_ && frames_.empty() && capture_ == nullptr && !is_planning(); }

std::shared_ptr<Node> Trace::computed(Id id) const {
  const auto found = computed_.data.find(id);
  return found == computed_.data.end() ? nullptr : found->second;
}

bool Trace::is_recorded(const Node& node) const {
  const bool is_computed = node.epoch == epoch_ && node.frame == 0 && computed(node.id) != nullptr;
  return is_computed || (!node.has_data() && !node.is_deferred());
}

// Values of variables that eager mode has computed do not take over memory, so they do not need the former values.
void Trace::forget_computed() {
  if (computed_.next == 0) return;
  for (const auto& weak : recorded_)
    if (const auto node = weak.lock(); node && node->has_data()) node->replaces.reset();
  computed_ = {};
}

// Runs all ops that have not run, which are those that led to the node, and sets its data.
void Trace::run_at_once(Node& node) {
  const Computation& traced = entry_->computation();
  while (computed_.next < traced.size()) {
    const Id id = computed_.next++;
    computed_.regions.push_back(regions_around(traced[id], computed_.regions));
    if (computed(id) != nullptr || !runs_alone(traced[id], computed_.regions.back())) continue;
    const std::vector<Id> ids = computed_together(traced, id);
    const auto values = run_values(ids, ids.size() == 1 && id == node.id ? node.sharding : std::nullopt);
    for (std::size_t k = 0; k < ids.size(); ++k) computed_.data[ids[k]] = values[k];
  }
  const int regions = at(computed_.regions, node.id);
  const bool is_inside = regions > 0 || (regions == kConstant && !manual_scopes().regions.empty());
  if (is_inside || !node.type.is_array()) return;  // the op that uses it computes it
  std::shared_ptr<Node> data = computed(node.id);
  if (!data || (node.sharding && data->sharding != node.sharding->closed()))
    data = run_values({node.id}, node.sharding).front();
  computed_.data.try_emplace(node.id, data);
  node.shard = data->shard;
  node.sharding = data->sharding;
}

}  // namespace tessera
