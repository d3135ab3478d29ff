// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "collective_passes/collective_match.h"
#include "tessera/base/text.h"
#include "tessera/ops/async.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

/// The collectives to split into start and done, and the instruction before which each done is placed.
struct Splits {
  std::unordered_map<Id, std::vector<Id>> due;  // by the first instruction that reads one
  std::vector<bool> starts;                     // per instruction
};

bool may_split(const Instruction& instruction) {
  switch (instruction.op->collective) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kPermute: return true;
    default: return false;
  }
}

Splits splits_of(const Program& program, const Computation& computation) {
  Splits out;
  out.starts.assign(computation.instructions.size(), false);
  std::vector<Id> first_reader(computation.instructions.size(), -1);
  std::vector<double> flops_before = {0};  // of the instructions that precede each
  for (Id id = 0; id < computation.size(); ++id) {
    const Instruction& instruction = computation[id];
    flops_before.push_back(flops_before.back() + flops_of(view_of(program, computation, instruction)));
    for (const auto* list : {&instruction.operands, &instruction.control_predecessors})
      for (const Id before : *list)
        if (at(first_reader, before) < 0) first_reader[static_cast<std::size_t>(before)] = id;
  }
  for (Id id = 0; id < computation.size(); ++id) {
    const Id reader = at(first_reader, id);
    if (!may_split(computation[id]) || reader < 0 || at(flops_before, reader) == at(flops_before, id + 1)) continue;
    out.starts[static_cast<std::size_t>(id)] = true;
    out.due[reader].push_back(id);
  }
  return out;
}

class AsyncSplitter {
 public:
  AsyncSplitter(ComputationRewriter& r, const Splits& splits) : r_(r), splits_(splits) {}

  void run() {
    for (Id id = 0; id < r_.from().size(); ++id) {
      if (const auto due = splits_.due.find(id); due != splits_.due.end())
        for (const Id started : due->second) r_.replace(started, done(started));
      if (at(splits_.starts, id))
        starts_[id] = start(id);
      else
        r_.keep(id);
    }
  }

 private:
  // Start and done of an all-reduce return its result. The starts of other collectives return a tuple of operands and
  // results. Collectives without native start and done ops become asynchronous calls.
  Value start(Id id) {
    Instruction out = r_.translated(id);
    std::vector<Type> operands;
    for (const Id operand : r_.from()[id].operands) operands.push_back(r_.from()[operand].type);
    const Type given = operands.size() == 1 ? operands.front() : Type::tuple(operands);
    const Type result = out.type;
    const CollectiveKind kind = out.op->collective;
    const OpDef& start = start_op(*out.op);
    if (&start == &rows::kAsyncStart) {
      out.called = {wrapped(out, operands)};
      out.attributes = nullptr;
      out.type = Type::tuple({Type::tuple(operands), result});
    } else {
      if (kind != CollectiveKind::kAllReduce) out.type = Type::tuple({given, result});
    }
    out.op = &start;
    out.sharding = nullptr;
    out.name = fmt::format("{}.start", r_.from()[id].name);
    return r_.builder().append(std::move(out));
  }

  ComputationId wrapped(const Instruction& collective, const std::vector<Type>& operands) {
    ProgramBuilder& program = r_.builder().program();
    Builder inside = program.computation(fmt::format("{}.wrapped", collective.name));
    Instruction copy = collective;
    copy.operands.clear();
    for (std::size_t k = 0; k < operands.size(); ++k)
      copy.operands.push_back(ops::parameter(inside, static_cast<std::int64_t>(k), operands[k]).id);
    copy.control_predecessors.clear();
    const Value root = inside.append(std::move(copy));
    return program.add(std::move(inside), root);
  }

  Value done(Id id) {
    const Instruction& old = r_.from()[id];
    const Value started = starts_.at(id);
    Instruction out;
    out.op = &done_op(*started.instruction().op);
    out.operands = {started.id};
    if (out.op == &rows::kAsyncDone) out.called = started.instruction().called;
    out.type = old.type;
    out.sharding = old.sharding;
    out.name = old.name;
    return r_.builder().append(std::move(out));
  }

  ComputationRewriter& r_;
  const Splits& splits_;
  std::unordered_map<Id, Value> starts_;
};

}  // namespace

Program make_asynchronous(const Program& program) {
  std::unordered_map<const Computation*, Splits> found;
  for (const ComputationRef& computation : program.computations) {
    const auto& instructions = computation->instructions;
    if (std::none_of(instructions.begin(), instructions.end(), may_split)) continue;
    Splits splits = splits_of(program, *computation);
    if (!splits.due.empty()) found.emplace(computation.get(), std::move(splits));
  }
  if (found.empty()) return program;
  return rewrite_computations(
      program,
      [&](ComputationRewriter& r) {
        const auto splits = found.find(&r.from());
        if (splits != found.end()) return AsyncSplitter(r, splits->second).run();
        for (Id id = 0; id < r.from().size(); ++id) r.keep(id);
      },
      [&](const Computation& computation) { return found.contains(&computation); });
}

}  // namespace tessera
