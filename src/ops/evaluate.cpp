// SPDX-License-Identifier: Apache-2.0
// One evaluator for a single device and for all devices in lockstep: a computation runs on a list of devices,
// instruction by instruction. The evaluator runs calls, loops and branches itself, so that a collective inside them has
// the operands of all devices.
#include "tessera/ops/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "tessera/ir/op_def.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

using Devices = std::vector<std::int64_t>;
/// The values of each device: [device][k].
using PerDevice = std::vector<std::vector<Literal>>;

/// Data computed once per computation.
struct Prepared {
  std::vector<OpView> views;
  std::vector<std::vector<Id>> last_uses;  // values that no later instruction reads
  bool has_collective = false;             // in this computation or in those it calls
};

class Evaluator {
 public:
  Evaluator(const Program& program, const EvaluateOptions& options, bool lockstep)
      : program_(program), options_(options), lockstep_(lockstep), prepared_(program.computations.size()) {}

  std::vector<Literal> run(ComputationId id, const Devices& devices, PerDevice arguments);

 private:
  const Prepared& prepare(ComputationId id);
  std::vector<Literal> step(ComputationId id, Id at_id, const Devices& devices, const PerDevice& operands);
  std::vector<Literal> run_row(const Instruction& instruction, const OpView& view, const Devices& devices,
                               const PerDevice& operands);
  std::vector<Literal> run_collective(const Instruction& instruction, const OpView& view, const Devices& devices,
                                      const PerDevice& operands);
  std::vector<Literal> run_border(const Instruction& border, const Devices& devices, const PerDevice& operands);
  std::vector<Literal> run_while(const Instruction& loop, const Devices& devices, std::vector<Literal> state);
  std::vector<Literal> run_conditional(const Instruction& branch, const Devices& devices, const PerDevice& operands);
  /// Calls f for each device and collects the results.
  template <class F>
  static std::vector<Literal> one_by_one(const Devices& devices, F&& f);
  bool runs_together(const Instruction& instruction);

  const Program& program_;
  const EvaluateOptions& options_;
  const bool lockstep_;
  std::vector<std::optional<Prepared>> prepared_;
};

// Adds `at %name, train.cpp:41` to an error of a row.
[[noreturn]] void rethrow_at(Error& error, const Instruction& instruction) {
  error.prefix(fmt::format("{}: ", instruction.op->name));
  const std::string source = instruction.source();
  throw error.note_place(
      fmt::format("  at   %{}: {}{}", instruction.name, instruction.type.str(), source.empty() ? "" : "    " + source));
}

// Whether this is a border of a manual region that has a placement.
bool is_placed_border(const Instruction& instruction) {
  return manual_border(instruction) != ManualBorder::kNone &&
         instruction.frontend_attribute(kBorderPlacementAttribute) != nullptr;
}

const Prepared& Evaluator::prepare(ComputationId id) {
  auto& slot = at(prepared_, id);
  if (slot) return *slot;
  const Computation& computation = program_[id];
  Prepared out;
  out.last_uses.resize(computation.instructions.size());
  std::vector<bool> seen(computation.instructions.size(), false);
  seen[static_cast<std::size_t>(computation.root)] = true;
  for (Id i = computation.size() - 1; i >= 0; --i) {
    for (const Id operand : computation[i].operands) {
      if (!at(seen, operand)) at(out.last_uses, i).push_back(operand);
      seen[static_cast<std::size_t>(operand)] = true;
    }
  }
  for (const Instruction& instruction : computation.instructions) {
    out.views.push_back(view_of(program_, computation, instruction));
    out.has_collective |=
        instruction.op->evaluate_collective != nullptr || runs_together(instruction) || is_placed_border(instruction);
  }
  slot = std::move(out);
  return *slot;
}

bool Evaluator::runs_together(const Instruction& instruction) {
  const Role role = instruction.op->role;
  if (role != Role::kCall && role != Role::kWhile && role != Role::kConditional) return false;
  if (options_.observe_step) return true;
  return std::any_of(instruction.called.begin(), instruction.called.end(),
                     [&](ComputationId callee) { return prepare(callee).has_collective; });
}

std::vector<Literal> Evaluator::run(ComputationId id, const Devices& devices, PerDevice arguments) {
  const Prepared& prepared = prepare(id);
  const Computation& computation = program_[id];
  std::vector<std::vector<Literal>> values(devices.size(), std::vector<Literal>(computation.instructions.size()));
  PerDevice operands(devices.size());
  for (Id i = 0; i < computation.size(); ++i) {
    const Instruction& instruction = computation[i];
    for (std::size_t k = 0; k < devices.size(); ++k) {
      operands[k].clear();
      if (instruction.op->role == Role::kParameter)
        operands[k] = {at(arguments[k], attributes_as<ParameterAttributes>(instruction.attributes).number)};
      for (const Id operand : instruction.operands) operands[k].push_back(at(values[k], operand));
    }
    auto results = step(id, i, devices, operands);
    if (options_.observe_step) options_.observe_step({computation, i, devices, operands}, results);
    for (std::size_t k = 0; k < devices.size(); ++k) {
      if (options_.observe) options_.observe(devices[k], computation, i, results[k]);
      at(values[k], i) = std::move(results[k]);
      for (const Id dead : at(prepared.last_uses, i)) at(values[k], dead) = Literal();
    }
  }
  std::vector<Literal> out;
  for (auto& row : values) out.push_back(std::move(at(row, computation.root)));
  return out;
}

template <class F>
std::vector<Literal> Evaluator::one_by_one(const Devices& devices, F&& f) {
  std::vector<Literal> out;
  for (std::size_t k = 0; k < devices.size(); ++k) out.push_back(f(Devices{devices[k]}, k).front());
  return out;
}

std::vector<Literal> Evaluator::step(ComputationId id, Id at_id, const Devices& devices, const PerDevice& operands) {
  const Instruction& instruction = program_[id][at_id];
  const OpView& view = at(prepare(id).views, at_id);
  if (is_placed_border(instruction)) return run_border(instruction, devices, operands);
  switch (instruction.op->role) {
    case Role::kParameter: {
      std::vector<Literal> out;
      for (const auto& row : operands) out.push_back(row.front());
      return out;
    }
    case Role::kCall:
      if (runs_together(instruction)) return run(instruction.called[0], devices, operands);
      return one_by_one(
          devices, [&](const Devices& one, std::size_t k) { return run(instruction.called[0], one, {operands[k]}); });
    case Role::kWhile: {
      std::vector<Literal> state;
      for (const auto& row : operands) state.push_back(row.front());
      if (runs_together(instruction)) return run_while(instruction, devices, std::move(state));
      return one_by_one(devices,
                        [&](const Devices& one, std::size_t k) { return run_while(instruction, one, {state[k]}); });
    }
    case Role::kConditional:
      if (runs_together(instruction)) return run_conditional(instruction, devices, operands);
      return one_by_one(
          devices, [&](const Devices& one, std::size_t k) { return run_conditional(instruction, one, {operands[k]}); });
    default: break;
  }
  if (instruction.op->evaluate_collective != nullptr) return run_collective(instruction, view, devices, operands);
  return run_row(instruction, view, devices, operands);
}

std::vector<Literal> Evaluator::run_row(const Instruction& instruction, const OpView& view, const Devices& devices,
                                        const PerDevice& operands) {
  std::vector<Literal> out;
  try {
    require(instruction.op->evaluate != nullptr, "has no reference evaluation");
    for (std::size_t k = 0; k < devices.size(); ++k) {
      const EvalContext context{view, operands[k],
                                [&](int which, const std::vector<Literal>& arguments) {
                                  return run(at(instruction.called, which), {devices[k]}, {arguments}).front();
                                },
                                devices[k], program_.num_partitions};
      out.push_back(instruction.op->evaluate(context));
    }
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    rethrow_at(error, instruction);
  }
  return out;
}

std::vector<Literal> Evaluator::run_collective(const Instruction& instruction, const OpView& view,
                                               const Devices& devices, const PerDevice& operands) {
  PerDevice of_all(static_cast<std::size_t>(program_.num_partitions));
  for (std::size_t k = 0; k < devices.size(); ++k) at(of_all, devices[k]) = operands[k];
  if (options_.exchange) of_all = options_.exchange(instruction, operands.front());
  try {
    auto results = instruction.op->evaluate_collective(
        {view, of_all, [&](int which, const std::vector<Literal>& arguments) {
           return run(at(instruction.called, which), {devices.front()}, {arguments}).front();
         }});
    std::vector<Literal> out;
    for (const auto device : devices) out.push_back(std::move(at(results, device)));
    return out;
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    if (!lockstep_ && !options_.exchange) error.note("  evaluate the program on all devices in lockstep");
    rethrow_at(error, instruction);
  }
}

// The devices by their coordinate along `axes`; entries k of all groups have the same coordinate along the other axes.
std::vector<std::vector<std::int64_t>> groups_along(const Mesh& mesh, const std::vector<AxisRef>& axes) {
  std::vector<std::vector<std::int64_t>> groups(static_cast<std::size_t>(axes_size(axes)));
  for (std::int64_t device = 0; device < mesh.device_count(); ++device)
    at(groups, mesh.coordinate(mesh.position_of(device), axes)).push_back(device);
  for (auto& group : groups)
    std::sort(group.begin(), group.end(),
              [&](std::int64_t a, std::int64_t b) { return mesh.position_of(a) < mesh.position_of(b); });
  return groups;
}

// Outside of a region, every device has the complete value; inside, its part.
std::vector<Literal> Evaluator::run_border(const Instruction& border, const Devices& devices,
                                           const PerDevice& operands) {
  require(lockstep_ || program_.num_partitions == 1,
          "%{}: a manual region among {} devices needs the values of all; evaluate the program in lockstep",
          border.name, program_.num_partitions);
  const Sharding placed = *border_placement(program_, border);
  std::vector<Literal> out;
  if (manual_border(border) == ManualBorder::kEnter) {
    for (std::size_t k = 0; k < devices.size(); ++k) out.push_back(take_shard(operands[k].front(), placed, devices[k]));
    return out;
  }
  // A region in a region: devices with different coordinates along other axes may hold different values, so each of
  // these sets assembles its own value.
  const auto groups = groups_along(placed.mesh, placed.used_axes());
  std::vector<const Literal*> held(static_cast<std::size_t>(program_.num_partitions), nullptr);
  for (std::size_t k = 0; k < devices.size(); ++k) at(held, devices[k]) = &operands[k].front();
  std::vector<Literal> global_values(held.size());
  for (std::size_t rest = 0; rest < groups.front().size(); ++rest) {
    const bool here = at(held, groups.front()[rest]) != nullptr;
    std::vector<Literal> parts(held.size());
    for (const auto& group : groups) {
      require((at(held, group[rest]) != nullptr) == here,
              "%{}: one of the devices {} and {} executes it, the other took another branch", border.name,
              groups.front()[rest], group[rest]);
      if (here)
        for (const auto device : group) at(parts, device) = *at(held, group[rest]);
    }
    if (!here) continue;
    const Literal global_value = assemble(border.type, placed, parts);
    for (const auto& group : groups) at(global_values, group[rest]) = global_value;
  }
  for (const auto device : devices) out.push_back(std::move(at(global_values, device)));
  return out;
}

// Runs f() on `here`, a subset of `devices`, which errors mention.
template <class F>
std::vector<Literal> on_some(const Instruction& instruction, const Devices& devices, const Devices& here, F&& f) {
  try {
    return f();
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    if (here.size() == devices.size()) throw;
    throw error.note(fmt::format("  in   {} %{}, where devices {{{}}} of {{{}}} took this branch", instruction.op->name,
                                 instruction.name, fmt::join(here, ","), fmt::join(devices, ",")));
  }
}

PerDevice as_arguments(const std::vector<Literal>& state) {
  PerDevice out;
  for (const Literal& one : state) out.push_back({one});
  return out;
}

template <class T>
std::vector<T> picked(const std::vector<T>& all, const std::vector<std::size_t>& which) {
  std::vector<T> out;
  for (const auto k : which) out.push_back(all[k]);
  return out;
}

// Devices whose condition is false keep their state while the others continue.
std::vector<Literal> Evaluator::run_while(const Instruction& loop, const Devices& devices, std::vector<Literal> state) {
  std::vector<std::size_t> active(devices.size());
  std::iota(active.begin(), active.end(), std::size_t{0});
  for (std::int64_t round = 0;; ++round) {
    const auto now = picked(devices, active);
    const auto predicates =
        on_some(loop, devices, now, [&] { return run(loop.called[0], now, as_arguments(picked(state, active))); });
    std::vector<std::size_t> going;
    for (std::size_t k = 0; k < active.size(); ++k)
      if (element_as_int(predicates[k], 0) != 0) going.push_back(active[k]);
    if (going.empty()) return state;
    if (options_.trip_limit > 0 && round >= options_.trip_limit) {
      require(options_.stopped_loops != nullptr, "while %{}: still running after {} rounds, the trip limit", loop.name,
              options_.trip_limit);
      options_.stopped_loops->insert(loop.name);
      return state;
    }
    active = going;
    const auto still = picked(devices, active);
    auto next =
        on_some(loop, devices, still, [&] { return run(loop.called[1], still, as_arguments(picked(state, active))); });
    for (std::size_t k = 0; k < active.size(); ++k) state[active[k]] = std::move(next[k]);
  }
}

// A pred takes the first branch if true; an index beyond the branches takes the last one.
std::size_t chosen_branch(const Instruction& branch, const Literal& selector) {
  const auto last = static_cast<std::int64_t>(branch.called.size()) - 1;
  const std::int64_t index = element_as_int(selector, 0);
  if (selector.type().dtype() == DType::kPred) return index != 0 ? 0 : 1;
  return static_cast<std::size_t>(index < 0 || index > last ? last : index);
}

std::vector<Literal> Evaluator::run_conditional(const Instruction& branch, const Devices& devices,
                                                const PerDevice& operands) {
  std::vector<std::vector<std::size_t>> by_branch(branch.called.size());
  for (std::size_t k = 0; k < devices.size(); ++k) by_branch[chosen_branch(branch, operands[k].front())].push_back(k);
  std::vector<Literal> out(devices.size());
  for (std::size_t choice = 0; choice < by_branch.size(); ++choice) {
    if (by_branch[choice].empty()) continue;
    PerDevice arguments;
    for (const auto k : by_branch[choice]) arguments.push_back({operands[k][1 + choice]});
    const auto here = picked(devices, by_branch[choice]);
    auto results =
        on_some(branch, devices, here, [&] { return run(branch.called[choice], here, std::move(arguments)); });
    for (std::size_t k = 0; k < here.size(); ++k) out[by_branch[choice][k]] = std::move(results[k]);
  }
  return out;
}

void check_arguments(const Program& program, const std::vector<Literal>& arguments) {
  const Computation& entry = program.entry_computation();
  require(arguments.size() == entry.parameters.size(), "%{} takes {} arguments, got {}", entry.name,
          entry.parameters.size(), arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Instruction& parameter = entry[entry.parameters[i]];
    const auto number = attributes_as<ParameterAttributes>(parameter.attributes).number;
    if (at(arguments, number).type() == parameter.type) continue;
    Error error(fmt::format("argument {} is {}, %{} is {}", number, at(arguments, number).type().str(), parameter.name,
                            parameter.type.str()));
    rethrow_at(error, parameter);
  }
}

}  // namespace

Literal evaluate(const Program& program, const std::vector<Literal>& arguments, const EvaluateOptions& options) {
  check_arguments(program, arguments);
  return Evaluator(program, options, false).run(program.entry, {options.partition}, {arguments}).front();
}

std::vector<Literal> evaluate_lockstep(const Program& program, const std::vector<std::vector<Literal>>& arguments,
                                       const EvaluateOptions& options) {
  require(static_cast<std::int64_t>(arguments.size()) == program.num_partitions,
          "the program is for {} devices, but there are arguments for {}", program.num_partitions, arguments.size());
  Devices devices;
  for (const auto& one : arguments) {
    check_arguments(program, one);
    devices.push_back(isize(devices));
  }
  return Evaluator(program, options, true).run(program.entry, devices, arguments);
}

}  // namespace tessera
