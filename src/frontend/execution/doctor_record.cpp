// SPDX-License-Identifier: Apache-2.0
#include "execution/doctor_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/environment.h"
#include "tessera/frontend/execution/step.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

constexpr std::string_view kDoctorFile = "TESSERA_DOCTOR_FILE";

bool keeps_record() { return RankContext::current().rank() == 0 && !options().text(kDoctorFile).empty(); }

void append_fact(std::string_view kind, const JsonObject& fact) {
  JsonObject line;
  line.set(kind, fact);
  std::string text = line.str();
  std::erase(text, '\n');  // they are only between values: in strings they are escaped
  write_for_option(kDoctorFile, [&] { append_file(options().text(kDoctorFile), text + "\n"); });
}

// The axes that shard a value of the program, or that belong to a manual region.
std::set<int> axes_in_use(const Program& program, const Mesh& mesh) {
  std::set<int> out;
  const auto add = [&](const Sharding& leaf) {
    if (leaf.mesh != mesh) return;
    for (const AxisRef& axis : leaf.used_axes()) out.insert(axis.axis);
    for (int axis = 0; leaf.kind == Sharding::Kind::kManual && axis < mesh.axis_count(); ++axis) out.insert(axis);
  };
  for (const ComputationRef& computation : program.computations)
    for (const Instruction& instruction : computation->instructions)
      if (instruction.sharding) std::for_each(instruction.sharding->begin(), instruction.sharding->end(), add);
  return out;
}

// The axes along which all devices do the same work.
std::vector<std::string> idle_axes(const Program& program, const Mesh& mesh) {
  const std::set<int> used = axes_in_use(program, mesh);
  std::vector<std::string> out;
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    if (at(mesh.axes(), axis).size > 1 && !used.contains(axis)) out.push_back(at(mesh.axes(), axis).name);
  return out;
}

}  // namespace

void record_start() {
  if (!keeps_record()) return;
  const Environment found = environment();
  JsonObject fact;
  fact.set("ranks", found.job.ranks);
  fact.set("crowding", found.job.oversubscription);
  fact.set("uses_best_kernels", found.instruction_set == found.best_instruction_set);
  fact.set("environment", found.str());
  fact.set("compares_inputs", options().flag("TESSERA_CHECK_INPUTS"));
  append_fact("start", fact);
}

void record_compilation(const Program& global, const CompiledProgram& compiled) {
  if (!keeps_record()) return;
  const Computation& entry = global.entry_computation();
  std::vector<std::string> inputs;
  std::int64_t sharded = 0;
  for (const Id id : entry.parameters) {
    inputs.push_back(fmt::format("{} {}", entry[id].name, entry[id].type.str()));
    if (entry[id].sharding && !entry[id].sharding->front().is_replicated()) ++sharded;
  }
  const Mesh* mesh = &global.meshes.front();  // of several meshes, the one with the fewest idle axes
  for (const Mesh& other : global.meshes)
    if (idle_axes(global, other).size() < idle_axes(global, *mesh).size()) mesh = &other;
  JsonObject fact;
  fact.set("program", global.name);
  fact.set("cause", compiled.reason);
  fact.set("inputs", inputs);
  fact.set("sharded_inputs", sharded);
  fact.set("mesh", mesh->str());
  fact.set("idle_axes", idle_axes(global, *mesh));
  fact.set("bytes", compiled.memory.held_bytes());
  append_fact("compilation", fact);
}

namespace {

// The calls of run_evaluation() that have not returned.
struct OpenEvaluations {
  int count = 0;
};

class OpenEvaluation {
 public:
  OpenEvaluation() { ++all_.count; }
  ~OpenEvaluation() { --all_.count; }
  OpenEvaluation(const OpenEvaluation&) = delete;
  OpenEvaluation& operator=(const OpenEvaluation&) = delete;

 private:
  OpenEvaluations& all_ = RankContext::current().get<OpenEvaluations>();
};

bool is_in_evaluation() { return RankContext::current().get<OpenEvaluations>().count > 0; }

// The time and the counters so far.
void append_state(std::string_view kind) {
  constexpr double kNanosecond = 1e-9;
  JsonObject counters;
  for (const std::string& name : metrics().counter_names())
    counters.set(name, metrics().counter_value(name).value_or(0));
  JsonObject fact;
  fact.set("seconds", std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
  fact.set("loader_seconds", kNanosecond * metrics().metric_data("LoaderWaitTime").value_or(MetricData{}).accumulator);
  fact.set("counters", counters);
  append_fact(kind, fact);
}

}  // namespace

void record_step() {
  if (keeps_record() && !is_in_evaluation()) append_state("step");
}

void record_end() {
  if (keeps_record()) append_fact("end", JsonObject());
}

void run_evaluation(const std::function<void()>& evaluate) {
  {
    const OpenEvaluation open;
    evaluate();
  }
  if (keeps_record() && !is_in_evaluation()) append_state("evaluation");
}

}  // namespace tessera
