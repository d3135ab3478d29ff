// SPDX-License-Identifier: Apache-2.0
// Attention without whole scores. The product of queries and keys is larger than both; what is made of it (mask, softmax, dropout, and in
// the backward pass the gradients of all these) is computed a few batches and heads at a time. What the backward pass would keep of the
// scores is made there again from queries and keys (Dao et al., FlashAttention, 2022), with the rows' maxima and sums that are kept.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "cut_region.h"
#include "prepare.h"
#include "tessera/ops/contraction.h"
#include "tessera/passes/rewriter.h"
#include "tessera/schedule/schedule.h"

namespace tessera {
namespace {

bool is_as_large(const Type& type, std::int64_t elements) {
  return type.is_array() && type.element_count() == elements;
}

// A product within batch dims, larger than its operands together.
bool makes_scores(const Computation& computation, Id id, std::int64_t most_bytes) {
  const Instruction& dot = computation[id];
  if (dot.op->name != "dot" || dot.type.byte_size() <= most_bytes || !can_be_cut(dot)) return false;
  std::int64_t operands = 0;
  for (const Id operand : dot.operands) operands += computation[operand].type.element_count();
  return dot.type.element_count() > operands && !attributes_as<DotAttributes>(dot.attributes).lhs_batch_dims.empty();
}

// ---- what is made again -------------------------------------------------------------------------------------------------------

// What is made of one product of scores by other ops than products, and who reads it after a product of it: the backward pass.
class Chain {
 public:
  Chain(const Computation& computation, Id seed)
      : computation_(computation), elements_(computation[seed].type.element_count()) {
    what_.assign(computation.instructions.size(), What::kElse);
    what_[static_cast<std::size_t>(seed)] = What::kMember;
    members_.push_back(seed);
    for (Id id = seed + 1; works_ && id < computation.size(); ++id) add(id);
  }
  [[nodiscard]] bool works() const { return works_; }
  [[nodiscard]] const std::vector<Id>& members() const { return members_; }
  /// Members that late readers need made again. Small ones are kept instead.
  [[nodiscard]] std::set<Id> again() const {
    std::set<Id> out;
    for (const Id reader : late_)
      for (const Id operand : computation_[reader].operands) need(operand, out);
    return out;
  }
  /// Who reads members after a product of them, in order.
  [[nodiscard]] const std::vector<Id>& late() const { return late_; }

 private:
  enum class What : std::uint8_t { kElse, kMember, kAfter };  // kAfter: a product of members, or what depends on one

  void add(Id id) {
    const Instruction& reader = computation_[id];
    const auto any = [&](What what) {
      return std::any_of(reader.operands.begin(), reader.operands.end(),
                         [&](Id operand) { return at(what_, operand) == what; });
    };
    What& what = what_[static_cast<std::size_t>(id)];
    const bool reads = any(What::kMember);
    if (any(What::kAfter)) {
      what = What::kAfter;
      if (reads) late_.push_back(id);
    } else if (reads && reader.op->name == "dot") {
      what = What::kAfter;
      works_ = !is_as_large(reader.type, elements_);
    } else if (reads) {
      what = What::kMember;
      members_.push_back(id);
      works_ = can_be_cut(reader) && id != computation_.root;
    }
  }
  void need(Id id, std::set<Id>& out) const {
    if (at(what_, id) != What::kMember || !is_as_large(computation_[id].type, elements_) || !out.insert(id).second)
      return;
    for (const Id operand : computation_[id].operands) need(operand, out);
  }

  const Computation& computation_;
  std::int64_t elements_;
  std::vector<What> what_;
  std::vector<Id> members_;
  std::vector<Id> late_;
  bool works_ = true;
};

// Gives late readers copies of the members, made just before the first of them.
class Remaking {
 public:
  void add(const Chain& chain) {
    const std::set<Id> again = chain.again();
    if (again.empty()) return;
    at_[chain.late().front()].insert(again.begin(), again.end());
    for (const Id reader : chain.late()) late_[reader].insert(again.begin(), again.end());
  }
  [[nodiscard]] Program run(const Program& program) const {
    const Computation* entry = &program.entry_computation();
    return rewrite_computations(
        program, [&](ComputationRewriter& rewriter) { rewrite(rewriter); },
        [&](const Computation& computation) { return &computation == entry; });
  }

 private:
  void rewrite(ComputationRewriter& rewriter) const {
    const Computation& from = rewriter.from();
    std::map<Id, Id> copies;
    const auto append = [&](Id id, auto&& is_copied) {
      Instruction made = rewriter.translated(id);
      for (std::size_t i = 0; i < made.operands.size(); ++i)
        if (const Id operand = from[id].operands[i]; is_copied(operand)) made.operands[i] = copies.at(operand);
      return rewriter.builder().append(std::move(made));
    };
    for (Id id = 0; id < from.size(); ++id) {
      if (from[id].op->role == Role::kParameter) continue;
      if (const auto found = at_.find(id); found != at_.end())
        for (const Id member : found->second)
          copies[member] = append(member, [&](Id operand) { return found->second.contains(operand); }).id;
      const auto late = late_.find(id);
      rewriter.replace(id,
                       append(id, [&](Id operand) { return late != late_.end() && late->second.contains(operand); }));
    }
  }

  std::map<Id, std::set<Id>> at_;    // by the first late reader: what is made there
  std::map<Id, std::set<Id>> late_;  // by reader: of what it reads the copy
};

// The program in which no scores are needed after the product that they are made for; nothing where some can't be made again.
std::optional<Program> remake_scores(const Program& program, std::int64_t most_bytes) {
  const Computation& entry = program.entry_computation();
  Remaking remaking;
  std::set<Id> seen;
  bool any = false;
  for (Id id = 0; id < entry.size(); ++id) {
    if (!makes_scores(entry, id, most_bytes)) continue;
    const Chain chain(entry, id);
    if (!chain.works()) return std::nullopt;
    for (const Id member : chain.members())
      if (!seen.insert(member).second) return std::nullopt;
    remaking.add(chain);
    any = true;
  }
  return any ? std::optional(remaking.run(program)) : std::nullopt;
}

// ---- what many read -----------------------------------------------------------------------------------------------------------

// Masks, constants and random numbers as large as scores, and made of what is small, are shared by layers and by passes. Each place that
// computes scores gets its own, so that they do not tie the places together.
class PrivateFeeds {
 public:
  PrivateFeeds(const Computation& computation, std::int64_t most_bytes) : computation_(computation) {
    std::set<std::int64_t> sizes;
    for (Id id = 0; id < computation.size(); ++id)
      if (makes_scores(computation, id, most_bytes)) sizes.insert(computation[id].type.element_count());
    place_.resize(computation.instructions.size());
    std::iota(place_.begin(), place_.end(), 0);
    for (Id id = 0; id < computation.size(); ++id) {
      const Instruction& instruction = computation[id];
      is_large_.push_back(instruction.type.is_array() && sizes.contains(instruction.type.element_count()));
      const auto is_fed = [&](Id operand) { return !at(is_large_, operand) || at(is_feed_, operand); };
      is_feed_.push_back(is_large_.back() && can_be_cut(instruction) && instruction.op->name != "dot" &&
                         std::all_of(instruction.operands.begin(), instruction.operands.end(), is_fed));
      if (is_feed_.back()) continue;
      for (const Id operand : instruction.operands)
        if (!is_fed(operand)) place_[static_cast<std::size_t>(root_of(operand))] = root_of(id);
    }
    for (Id id = 0; id < computation.size(); ++id)
      if (makes_scores(computation, id, most_bytes)) with_scores_.insert(root_of(id));
  }

  [[nodiscard]] Program run(const Program& program) {
    const Computation* entry = &program.entry_computation();
    return rewrite_computations(
        program,
        [&](ComputationRewriter& rewriter) {
          for (Id id = 0; id < computation_.size(); ++id)
            if (computation_[id].op->role != Role::kParameter) rewriter.replace(id, append(rewriter, id, root_of(id)));
        },
        [&](const Computation& computation) { return &computation == entry; });
  }

 private:
  Id root_of(Id id) {
    while (at(place_, id) != id) id = place_[static_cast<std::size_t>(id)] = at(place_, at(place_, id));
    return id;
  }
  // The instruction with feeds of its place's own.
  Value append(ComputationRewriter& rewriter, Id id, Id place) {
    Instruction made = rewriter.translated(id);
    for (std::size_t i = 0; i < made.operands.size() && with_scores_.contains(place); ++i)
      if (const Id operand = computation_[id].operands[i]; at(is_feed_, operand))
        made.operands[i] = own(rewriter, operand, place);
    return rewriter.builder().append(std::move(made));
  }
  Id own(ComputationRewriter& rewriter, Id feed, Id place) {
    if (const auto found = own_.find({place, feed}); found != own_.end()) return found->second;
    return own_[{place, feed}] = append(rewriter, feed, place).id;
  }

  const Computation& computation_;
  std::vector<bool> is_large_;
  std::vector<bool> is_feed_;
  std::vector<Id> place_;  // a forest: large values that read one another
  std::set<Id> with_scores_;
  std::map<std::pair<Id, Id>, Id> own_;  // by place and feed
};

// ---- parts --------------------------------------------------------------------------------------------------------------------

// Parts are to stay in the second level of cache.
std::int64_t part_bytes(std::int64_t most_bytes) {
  constexpr std::int64_t kCached = 1 << 20;
  return std::min(most_bytes, kCached);
}

// The batch dim whose parts fit best: the fewest that are small enough, else the most.
std::pair<int, std::int64_t> best_cut(const Instruction& dot, std::int64_t most_bytes) {
  const int batch_dims = isize(attributes_as<DotAttributes>(dot.attributes).lhs_batch_dims);
  const std::int64_t bytes = dot.type.byte_size();
  std::pair<int, std::int64_t> best{-1, 1};
  for (int d = 0; d < batch_dims; ++d) {
    const std::int64_t parts = equal_parts(dot.type.dim(d), bytes, most_bytes);
    const bool fits = bytes / parts <= most_bytes;
    const bool best_fits = bytes / best.second <= most_bytes;
    if (best.first < 0 || (fits && !best_fits) ||
        (fits == best_fits && (fits ? parts < best.second : parts > best.second)))
      best = {d, parts};
  }
  return best;
}

std::optional<Program> split(const Program& program, std::int64_t most_bytes) {
  const Computation& entry = program.entry_computation();
  const auto users = entry.users();
  std::vector<CutPlan> plans;
  std::set<Id> taken;
  for (Id id = 0; id < entry.size(); ++id) {
    if (taken.contains(id) || !makes_scores(entry, id, most_bytes)) continue;
    const auto [dim, parts] = best_cut(entry[id], part_bytes(most_bytes));
    if (parts < 2) return std::nullopt;
    const std::int64_t elements = entry[id].type.element_count();
    CutRegion region(program, entry, users, id, dim,
                     [elements](const Type& type) { return is_as_large(type, elements); });
    if (!region.works()) return std::nullopt;
    for (const auto& [member, cut] : region.cut()) taken.insert(member);
    plans.push_back({std::move(region), parts});
  }
  return plans.empty() ? std::nullopt : cut_regions(program, plans);
}

}  // namespace

Program split_scores(const Program& program, std::int64_t most_bytes) {
  const auto remade = remake_scores(program, most_bytes);
  if (!remade) return program;
  auto out = split(PrivateFeeds(remade->entry_computation(), most_bytes).run(*remade), most_bytes);
  const bool gains = out && make_schedule(*out)->arena_bytes < make_schedule(program)->arena_bytes;
  return gains ? *std::move(out) : program;
}

}  // namespace tessera
