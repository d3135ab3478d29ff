// SPDX-License-Identifier: Apache-2.0
// Combines collectives. One walk over a computation plans the buckets; a second walk emits them.
//
// Upward moves: a collective joins an open bucket if everything it reads, except for inexpensive instructions (a
// reshape, a get-tuple-element, a scaling), precedes the bucket's first member. Downward moves: the remaining
// collectives wait in a bucket until an instruction reads one of them, which closes the bucket. Inexpensive
// instructions wait with them, so a sequence of buckets may wait. Levels give their order: a member of level n reads
// only values that are computed or wait at a lower level, so buckets cannot depend on each other cyclically.
#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "collective_passes/collective_match.h"
#include "localize/localize.h"
#include "tessera/base/text.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"
#include "tessera/partitioner/collective_passes/collective_passes.h"
#include "tessera/passes/explanations.h"

namespace tessera {
namespace {

constexpr std::string_view kUnit = "tessera.unit";

/// Collectives that are combined into one.
struct Bucket {
  std::vector<Id> members;  // in program order
  std::int64_t bytes = 0;
  int level = 0;
  bool closed = false;
  bool moves_up = false;
  Id place = -1;  // the instruction with which it is emitted: its first or last member
};

struct Plan {
  std::vector<Bucket> buckets;
  std::vector<int> bucket_of;         // per instruction: its bucket; -1 if it is not combined with others
  std::vector<bool> waits;            // per inexpensive instruction: it is emitted when another one needs it
  std::vector<std::vector<int>> due;  // per instruction: the buckets that are emitted with it
};

class CombinePlanner {
 public:
  CombinePlanner(const Program& program, const Computation& computation, const CollectivePassOptions& options)
      : program_(program),
        computation_(computation),
        options_(options),
        ordered_(ordered_by_control(computation)),
        ready_(computation.instructions.size(), 0),
        level_(computation.instructions.size(), kDone) {
    plan_.bucket_of.assign(computation.instructions.size(), -1);
    plan_.waits.assign(computation.instructions.size(), false);
    is_constant_.assign(computation.instructions.size(), false);
  }

  Plan run() {
    move_upwards();
    wait_downwards();
    for (Id id = 0; id < computation_.size(); ++id) {
      int& bucket = at(plan_.bucket_of, id);
      if (bucket >= 0 && at(plan_.buckets, bucket).members.size() == 1) bucket = -1;
    }
    for (Id id = 0; id < computation_.size(); ++id)
      at(plan_.waits, id) = id != computation_.root && is_light(id) && any_operand(id, [&](Id operand) {
                              return at(plan_.waits, operand) || waits_in_bucket(operand);
                            });
    place_buckets();
    return std::move(plan_);
  }

 private:
  static constexpr int kDone = -1;  // computed at its place in the program

  [[nodiscard]] bool waits_in_bucket(Id id) const {
    const int bucket = at(plan_.bucket_of, id);
    return bucket >= 0 && !at(plan_.buckets, bucket).moves_up;
  }
  // Places each bucket at its last member, or later if a member reads a bucket that is placed later.
  void place_buckets() {
    std::vector<int> order;
    for (int b = 0; b < isize(plan_.buckets); ++b)
      if (at(plan_.buckets, b).members.size() > 1) order.push_back(b);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return at(plan_.buckets, a).level < at(plan_.buckets, b).level; });
    for (const int b : order) {
      Bucket& bucket = at(plan_.buckets, b);
      bucket.place = bucket.moves_up ? bucket.members.front() : bucket.members.back();
      if (bucket.moves_up || bucket.level == 0) continue;
      for (const Id member : bucket.members) bucket.place = std::max(bucket.place, place_of(member));
    }
    plan_.due.resize(computation_.instructions.size());
    for (const int b : order) at(plan_.due, at(plan_.buckets, b).place).push_back(b);
  }
  // The place of the last bucket that the instruction waits for; 0 if it waits for none.
  [[nodiscard]] Id place_of(Id id) const {
    Id place = 0;
    for (const Id operand : computation_[id].operands) {
      if (waits_in_bucket(operand))
        place = std::max(place, at(plan_.buckets, at(plan_.bucket_of, operand)).place);
      else if (at(plan_.waits, operand))
        place = std::max(place, place_of(operand));
    }
    return place;
  }

  template <class F>
  bool any_operand(Id id, F&& f) const {
    const auto& operands = computation_[id].operands;
    return std::any_of(operands.begin(), operands.end(), f);
  }
  // Whether the instruction is inexpensive to move: data movement, or an elementwise op with at most one operand that
  // is not a constant.
  [[nodiscard]] bool is_light(Id id) const {
    const Instruction& instruction = computation_[id];
    const OpDef& op = *instruction.op;
    if (at(ordered_, id) || !instruction.called.empty() || has_side_effect(instruction)) return false;
    if (op.role != Role::kPlain)
      return op.role == Role::kGetTupleElement || op.role == Role::kCopy || op.role == Role::kTuple ||
             op.role == Role::kOptBarrier;
    const auto variables = std::count_if(instruction.operands.begin(), instruction.operands.end(),
                                         [&](Id operand) { return !at(is_constant_, operand); });
    if (variables > 1 || !instruction.type.is_array()) return false;
    return op.elementwise || (op.linearity != nullptr && flops_of(view_of(program_, computation_, instruction)) == 0);
  }

  [[nodiscard]] std::int64_t bytes_of(Id id) const {
    const Instruction& instruction = computation_[id];
    return std::max(instruction.type.byte_size(), computation_[instruction.operands[0]].type.byte_size());
  }
  static bool may_join(const Instruction& instruction) {
    for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
                            CollectiveKind::kPermute})
      if (is_single(instruction, kind)) return true;
    return false;
  }
  [[nodiscard]] bool fit(Id a, Id b) const {
    const Instruction& first = computation_[a];
    const Instruction& second = computation_[b];
    return first.type.dtype() == second.type.dtype() && same_exchange(program_, first, second) &&
           equal_bindings(first, second, {kGlobalDimsAttribute});
  }
  [[nodiscard]] std::size_t key_of(Id id, int level) const {
    const Instruction& instruction = computation_[id];
    const auto key = hash_mix(hash_exchange(instruction), static_cast<std::size_t>(instruction.type.dtype()));
    return hash_mix(hash_mix(key, hash_bindings(instruction, {kGlobalDimsAttribute})), static_cast<std::size_t>(level));
  }
  // Moving a collective that changes sizes over a long distance lengthens the lifetimes of large values. Collectives of
  // FSDP units may combine regardless of distance.
  [[nodiscard]] bool is_near(Id first, Id id) const {
    const Instruction& instruction = computation_[id];
    const auto kind = instruction.op->collective;
    const bool resizes = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter;
    return !resizes || id - first <= options_.window || instruction.frontend_attribute(kUnit) != nullptr;
  }

  // Adds the collective to the open bucket of its key, or opens a bucket.
  int join(Id id, std::unordered_map<std::size_t, int>& open, int level, bool moves_up) {
    const auto [found, fresh] = open.try_emplace(key_of(id, level), -1);
    if (!fresh) {
      Bucket& bucket = at(plan_.buckets, found->second);
      const Id first = bucket.members.front();
      const bool joins = !bucket.closed && bucket.bytes + bytes_of(id) <= options_.memory_bound && fit(first, id) &&
                         is_near(first, id) && (!moves_up || at(ready_, id) < first);
      if (joins) {
        bucket.members.push_back(id);
        bucket.bytes += bytes_of(id);
        return found->second;
      }
    }
    found->second = isize(plan_.buckets);
    plan_.buckets.push_back({{id}, bytes_of(id), level, false, moves_up, -1});
    return found->second;
  }

  // ready_: the last instruction that must precede this one if it moves up.
  void move_upwards() {
    std::unordered_map<std::size_t, int> open;
    for (Id id = 0; id < computation_.size(); ++id) {
      const Instruction& instruction = computation_[id];
      Id ready = -1;
      const bool is_light_here = is_light(id);
      at(is_constant_, id) = instruction.op->role == Role::kConstant ||
                             (is_light_here && !instruction.operands.empty() &&
                              !any_operand(id, [&](Id operand) { return !at(is_constant_, operand); }));
      for (const Id operand : instruction.operands) ready = std::max(ready, at(ready_, operand));
      const bool joins = !at(ordered_, id) && may_join(instruction);
      const bool moves =
          instruction.op->role == Role::kParameter || is_constant_[static_cast<std::size_t>(id)] || is_light_here;
      at(ready_, id) = moves ? ready : id;
      if (!joins) continue;
      const Id before = std::exchange(at(ready_, id), ready);
      at(plan_.bucket_of, id) = join(id, open, 0, true);
      at(ready_, id) = before;
    }
  }

  // level_: the level at which the value waits; kDone if it is computed.
  void wait_downwards() {
    std::unordered_map<std::size_t, int> open;
    for (Id id = 0; id < computation_.size(); ++id) {
      const Instruction& instruction = computation_[id];
      int& bucket = at(plan_.bucket_of, id);
      if (bucket >= 0 && at(plan_.buckets, bucket).members.size() > 1) {
        if (at(plan_.buckets, bucket).members.front() == id)
          for (const Id member : at(plan_.buckets, bucket).members) close_above(member, id);
        continue;
      }
      int level = kDone;
      for (const Id operand : instruction.operands) level = std::max(level, at(level_, operand));
      if (may_join(instruction) && !at(ordered_, id) && id != computation_.root) {
        bucket = join(id, open, level + 1, false);
        at(level_, id) = level + 1;
      } else if (level != kDone && is_light(id) && id != computation_.root) {
        at(level_, id) = level;
      } else {
        for (const Id operand : instruction.operands) close(operand);
        for (const Id before : instruction.control_predecessors) close(before);
      }
    }
  }

  void close(Id id) {
    if (at(level_, id) == kDone) return;
    at(level_, id) = kDone;
    const int b = at(plan_.bucket_of, id);
    if (b >= 0) {
      at(plan_.buckets, b).closed = true;
      for (const Id member : at(plan_.buckets, b).members) close(member);
    }
    for (const Id operand : computation_[id].operands) close(operand);
  }
  // Closes the buckets that the operands of a member need when the member moves up to `place`.
  void close_above(Id id, Id place) {
    for (const Id operand : computation_[id].operands) {
      if (operand < place)
        close(operand);
      else
        close_above(operand, place);
    }
  }

  const Program& program_;
  const Computation& computation_;
  const CollectivePassOptions& options_;
  std::vector<bool> ordered_;
  std::vector<bool> is_constant_;
  std::vector<Id> ready_;
  std::vector<int> level_;
  Plan plan_;
};

// Emits instructions in the old order, and waiting ones when they are needed. Computation ids stay the same. It uses no
// rewriter, because a table of all names is expensive in a large program.
class CombinedEmitter {
 public:
  CombinedEmitter(const Computation& from, const Plan& plan)
      : from_(from), plan_(plan), new_ids_(from.instructions.size(), -1), out_(std::make_shared<Computation>()) {
    for (const Instruction& instruction : from.instructions) {
      names_.insert(instruction.name);
      most_waiting_ += 1 + instruction.operands.size() + instruction.control_predecessors.size();
    }
    out_->name = from.name;
    out_->execution_thread = from.execution_thread;
    out_->instructions.reserve(from.instructions.size());
  }

  ComputationRef run() {
    for (Id id = 0; id < from_.size(); ++id) {
      if (!at(plan_.waits, id) && at(plan_.bucket_of, id) < 0) emit(id);
      for (const int b : at(plan_.due, id)) emit(at(plan_.buckets, b).members.front());
    }
    for (Id id = 0; id < from_.size(); ++id) emit(id);
    for (const Id id : from_.parameters) out_->parameters.push_back(at(new_ids_, id));
    out_->root = at(new_ids_, from_.root);
    return std::move(out_);
  }

 private:
  // Depth first without recursion, because chains of waiting instructions may be long.
  void emit(Id wanted) {
    std::vector<Id> stack = {wanted};
    while (!stack.empty()) {
      const Id id = stack.back();
      const std::size_t before = stack.size();
      const int b = at(plan_.bucket_of, id);
      if (at(new_ids_, id) < 0) {
        ensure(stack.size() <= most_waiting_, "combined collectives wait for one another at %{}", from_[id].name);
        if (b >= 0)
          for (const Id member : at(plan_.buckets, b).members) push_missing(member, stack);
        else
          push_missing(id, stack);
        if (stack.size() != before) continue;
        if (b >= 0)
          emit_together(at(plan_.buckets, b).members);
        else
          append(id, translated(id));
      }
      stack.pop_back();
    }
  }
  void push_missing(Id id, std::vector<Id>& stack) const {
    for (const auto* list : {&from_[id].operands, &from_[id].control_predecessors})
      for (const Id before : *list)
        if (at(new_ids_, before) < 0) stack.push_back(before);
  }

  [[nodiscard]] Instruction translated(Id id) const {
    Instruction out = from_[id];
    for (Id& operand : out.operands) operand = at(new_ids_, operand);
    for (Id& before : out.control_predecessors) before = at(new_ids_, before);
    return out;
  }
  Id append(Id old, Instruction instruction) {
    const Id id = out_->size();
    out_->instructions.push_back(std::move(instruction));
    if (old >= 0) at(new_ids_, old) = id;
    return id;
  }
  std::string fresh_name(std::string_view base) {
    std::string name(base);
    for (int k = 1; names_.contains(name); ++k) name = fmt::format("{}.{}", base, k);
    return *made_names_.emplace(made_names_.end(), std::move(name));
  }

  void emit_together(const std::vector<Id>& members) {
    Instruction combined = translated(members.front());
    std::vector<Type> types;
    std::vector<const Instruction*> parts;
    combined.operands.clear();
    for (const Id member : members) {
      const Instruction& part = from_[member];
      types.push_back(part.type);
      parts.push_back(&part);
      combined.operands.push_back(at(new_ids_, part.operands[0]));
    }
    combined.type = Type::tuple(types);
    combined.sharding = nullptr;
    combined.notes = with_frontend_attribute(merged_notes(parts), kGlobalDimsAttribute, std::nullopt);
    combined.name = fresh_name(fmt::format("{}.combined", combined.op->name));
    names_.insert(made_names_.back());
    const Id together = append(-1, std::move(combined));
    for (std::size_t k = 0; k < members.size(); ++k) append(members[k], part_of(together, k, *parts[k]));
  }
  static Instruction part_of(Id together, std::size_t k, const Instruction& alone) {
    Instruction part;
    part.op = &rows::kGetTupleElement;
    part.type = alone.type;
    part.operands = {together};
    part.attributes = make_attributes(IndexAttributes{static_cast<std::int64_t>(k)});
    part.sharding = alone.sharding;
    part.name = alone.name;
    if (const auto* dims = alone.frontend_attribute(kGlobalDimsAttribute))
      part.notes = with_frontend_attribute(nullptr, kGlobalDimsAttribute, *dims);
    return part;
  }

  const Computation& from_;
  const Plan& plan_;
  std::vector<Id> new_ids_;
  std::shared_ptr<Computation> out_;
  std::size_t most_waiting_ = 1;
  std::unordered_set<std::string_view> names_;
  std::deque<std::string> made_names_;  // owns the strings of names_
};

}  // namespace

Program combine_collectives(const Program& program, const CollectivePassOptions& options) {
  Program out = program;
  for (ComputationId c = 0; c < isize(program.computations); ++c) {
    const Computation& computation = program[c];
    const auto collectives = std::count_if(computation.instructions.begin(), computation.instructions.end(),
                                           [](const auto& i) { return i.op->role == Role::kCollective; });
    if (collectives < 2) continue;
    const Plan plan = CombinePlanner(program, computation, options).run();
    const bool combines = std::any_of(plan.buckets.begin(), plan.buckets.end(),
                                      [](const Bucket& bucket) { return bucket.members.size() > 1; });
    if (combines) at(out.computations, c) = CombinedEmitter(computation, plan).run();
  }
  return out;
}

}  // namespace tessera
