// SPDX-License-Identifier: Apache-2.0
// Lists what the arena contains when it is fullest.
#include "tessera/schedule/arena_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "tessera/base/text.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

// The step at which the buffers of the arena that are in use have the most bytes.
std::int32_t peak_step(const Schedule& schedule) {
  std::map<std::int32_t, std::int64_t> changes;  // of the bytes in use, at the start of a step
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.place != Place::kArena) continue;
    changes[buffer.first] += buffer.bytes;
    changes[buffer.last + 1] -= buffer.bytes;
  }
  std::int64_t used = 0;
  std::int64_t most = -1;
  std::int32_t out = 0;
  for (const auto& [step, change] : changes) {
    used += change;
    if (used <= most) continue;
    most = used;
    out = step;
  }
  return out;
}

// The value that each buffer holds first, or -1.
std::vector<Id> first_values(const Schedule& schedule) {
  std::vector<Id> out(schedule.buffers.size(), -1);
  for (const Step& step : schedule.steps)
    for (const Id id : step.instructions)
      for (const Access& access : at(schedule.access, id))
        if (access.buffer != kNoBuffer && at(out, access.buffer) < 0 && access.source == id)
          at(out, access.buffer) = id;
  return out;
}

std::map<BufferId, Id> scratch_of_steps(const Schedule& schedule) {
  std::map<BufferId, Id> out;
  for (const Step& step : schedule.steps)
    if (step.scratch != kNoBuffer) out[step.scratch] = step.instructions.back();
  return out;
}

std::string_view scope_of(const Instruction& instruction) {
  return instruction.notes ? std::string_view(instruction.notes->op_name) : std::string_view();
}

constexpr std::string_view kOptimizer = "optimizer";

// The scopes in which the front end reads gradients.
bool reads_gradients(const Instruction& instruction) {
  const std::string_view scope = scope_of(instruction);
  return scope == kOptimizer || scope == "clip_grad_norm" || scope == "grad_scaler";
}

// Whether each buffer holds a gradient, or a partial sum that is reduced to one.
std::vector<bool> gradients_of(const Computation& computation, const Schedule& schedule) {
  std::vector<bool> out(schedule.buffers.size());
  const auto is_gradient = [&](const Access& access) {
    return access.buffer != kNoBuffer && out[static_cast<std::size_t>(access.buffer)];
  };
  for (Id id = computation.size() - 1; id >= 0; --id) {
    const Instruction& reader = computation[id];
    const bool reduces =
        reader.op->role == Role::kCollective && std::ranges::any_of(at(schedule.access, id), is_gradient);
    if (!reduces && !reads_gradients(reader)) continue;
    for (const Id operand : reader.operands)
      for (const Access& access : at(schedule.access, operand))
        if (access.buffer != kNoBuffer && scope_of(computation[operand]) != kOptimizer)
          out[static_cast<std::size_t>(access.buffer)] = true;
  }
  return out;
}

// The path of the module that computes the value. Programs of JAX have long paths, whose ends tell more.
std::string module_of(const Instruction& instruction) {
  constexpr std::size_t kMost = 48;
  const std::string path = instruction.notes ? instruction.notes->op_name : "";
  return path.size() <= kMost ? path : ".." + path.substr(path.size() - kMost);
}

std::string name_of(const Instruction& instruction) {
  std::string place(instruction.op->name);
  for (const std::string& part : {module_of(instruction), instruction.source()})
    if (!part.empty()) place += ", " + part;
  const std::string type = instruction.type.is_array() ? instruction.type.str() + " " : "";
  return fmt::format("{}%{} ({})", type, instruction.name, place);
}

// What the buffers of a schedule contain.
struct Contents {
  std::vector<Id> values;          // the first one that each buffer holds, or -1
  std::vector<bool> is_gradient;   // of each buffer
  std::map<BufferId, Id> scratch;  // the instruction whose scratch memory a buffer is
};

// The sum to which a buffer belongs.
std::int64_t& sum_of(ArenaPeak& peak, const Computation& computation, const Contents& contents, BufferId buffer) {
  if (const auto of_step = contents.scratch.find(buffer); of_step != contents.scratch.end())
    return computation[of_step->second].op->role == Role::kCollective ? peak.messages : peak.scratch;
  const Id value = at(contents.values, buffer);
  if (value >= 0 && computation[value].op->collective == CollectiveKind::kAllGather) return peak.gathered;
  return contents.is_gradient[static_cast<std::size_t>(buffer)] ? peak.gradients : peak.values;
}

}  // namespace

ArenaPeak arena_peak(const Program& program, const Schedule& schedule) {
  const Computation& computation = program[schedule.computation];
  const std::int32_t step = peak_step(schedule);
  const Contents contents{first_values(schedule), gradients_of(computation, schedule), scratch_of_steps(schedule)};
  ArenaPeak out;
  std::vector<BufferId> in_use;
  for (BufferId id = 0; id < isize(schedule.buffers); ++id) {
    const Buffer& buffer = at(schedule.buffers, id);
    if (buffer.place != Place::kArena || buffer.bytes == 0 || buffer.first > step || buffer.last < step) continue;
    in_use.push_back(id);
    sum_of(out, computation, contents, id) += buffer.bytes;
  }
  std::stable_sort(in_use.begin(), in_use.end(), [&](BufferId a, BufferId b) {
    return at(schedule.buffers, a).bytes > at(schedule.buffers, b).bytes;
  });
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < std::min(kShown, in_use.size()); ++i) {
    const auto of_step = contents.scratch.find(in_use[i]);
    const bool is_scratch = of_step != contents.scratch.end();
    const Id value = is_scratch ? of_step->second : at(contents.values, in_use[i]);
    const char* prefix = is_scratch ? "scratch memory of " : "";
    out.largest.push_back({at(schedule.buffers, in_use[i]).bytes,
                           value < 0 ? "a copy of a result" : prefix + name_of(computation[value])});
  }
  return out;
}

}  // namespace tessera
