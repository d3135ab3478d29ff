// SPDX-License-Identifier: Apache-2.0
// Attention without complete scores. The product of queries and keys is larger than both. The values computed from it
// (mask, softmax, dropout, and in the backward pass the gradients of all these) are computed for a few batches and
// heads, or rows of queries, at a time. Instead of keeping scores for the backward pass, it rematerializes them from
// queries and keys (Dao et al., FlashAttention, 2022), with the maxima and sums of rows, which are kept.
#include <algorithm>
#include <boost/container/flat_set.hpp>
#include <boost/dynamic_bitset.hpp>
#include <map>

#include "chunk_region.h"
#include "tessera/base/text.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/rows.h"
#include "tessera/passes/rewriter.h"

namespace tessera {
namespace {

using Ids = boost::container::flat_set<Id>;

bool is_as_large(const Type& type, std::int64_t elements) {
  return type.is_array() && type.element_count() == elements;
}

// Whether the product is larger than its operands together, and has batch dims or as many rows as columns.
bool makes_scores(const Computation& computation, Id id, std::int64_t most_bytes) {
  const Instruction& dot = computation[id];
  if (dot.op != &rows::kDot || dot.type.byte_size() <= most_bytes || !can_be_chunked(dot)) return false;
  std::int64_t operands = 0;
  for (const Id operand : dot.operands) operands += computation[operand].type.element_count();
  if (dot.type.element_count() <= operands) return false;
  return !attributes_as<DotAttributes>(dot.attributes).lhs_batch_dims.empty() ||
         (dot.type.ndim() == 2 && dot.type.dim(0) == dot.type.dim(1));
}

// A rewritten program, and the original instruction of each of its instructions.
struct Traced {
  Program program;
  std::vector<Id> origin;
};

// The scores that are still to be chunked.
class LargeScores {
 public:
  LargeScores(const Program& program, std::int64_t most_bytes)
      : most_bytes_(most_bytes), given_up_(program.entry_computation().instructions.size()) {}
  [[nodiscard]] bool contain(const Computation& computation, Id id, Id origin) const {
    return !at(given_up_, origin) && makes_scores(computation, id, most_bytes_);
  }
  [[nodiscard]] std::int64_t most_bytes() const { return most_bytes_; }
  void give_up(Id origin) { at(given_up_, origin) = true; }

 private:
  std::int64_t most_bytes_;
  boost::dynamic_bitset<> given_up_;
};

// ---- rematerialization ----------------------------------------------------------------------------------------------

// The values computed from one product of scores by other ops than products, and their readers after a product of them,
// which are the backward pass.
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
  /// The members that late readers need rematerialized. Small ones are kept instead.
  [[nodiscard]] Ids rematerialized() const {
    Ids out;
    for (const Id reader : late_)
      for (const Id operand : computation_[reader].operands) need(operand, out);
    return out;
  }
  /// The readers of members after a product of them, in order.
  [[nodiscard]] const std::vector<Id>& late() const { return late_; }

 private:
  // kAfter: a product of members, or a value that depends on one.
  enum class What : std::uint8_t { kElse, kMember, kAfter };

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
    } else if (reads && reader.op == &rows::kDot) {
      what = What::kAfter;
      works_ = !is_as_large(reader.type, elements_);
    } else if (reads && !can_be_chunked(reader)) {  // small values are kept
      what = What::kAfter;
      works_ = std::none_of(reader.operands.begin(), reader.operands.end(), [&](Id operand) {
        return at(what_, operand) == What::kMember && is_as_large(computation_[operand].type, elements_);
      });
    } else if (reads) {
      what = What::kMember;
      members_.push_back(id);
      works_ = id != computation_.root;
    }
  }
  void need(Id id, Ids& out) const {
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

// Gives late readers copies of the members, which are computed just before the first of these readers.
class Rematerialization {
 public:
  void add(const Chain& chain) {
    const Ids rematerialized = chain.rematerialized();
    if (rematerialized.empty()) return;
    at_[chain.late().front()].insert(rematerialized.begin(), rematerialized.end());
    for (const Id reader : chain.late()) late_[reader].insert(rematerialized.begin(), rematerialized.end());
  }
  [[nodiscard]] Traced run(const Program& program) const {
    const Computation* entry = &program.entry_computation();
    std::vector<Id> origin;
    Program out = rewrite_computations(
        program, [&](ComputationRewriter& rewriter) { origin = rewrite(rewriter); },
        [&](const Computation& computation) { return &computation == entry; });
    return {std::move(out), std::move(origin)};
  }

 private:
  std::vector<Id> rewrite(ComputationRewriter& rewriter) const {
    const Computation& from = rewriter.from();
    std::map<Id, Id> copies;
    std::vector<Id> origin = from.parameters;
    const auto append = [&](Id id, auto&& is_copied) {
      Instruction made = rewriter.translated(id);
      for (std::size_t i = 0; i < made.operands.size(); ++i)
        if (const Id operand = from[id].operands[i]; is_copied(operand)) made.operands[i] = copies.at(operand);
      origin.push_back(id);
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
    return origin;
  }

  std::map<Id, Ids> at_;    // by the first late reader: the members to copy
  std::map<Id, Ids> late_;  // by reader: the members of which it reads the copy
};

// Rewrites the program such that no scores are needed after the product for which they are computed. Scores that cannot
// be rematerialized are given up.
Traced rematerialize_scores(const Program& program, LargeScores& scores) {
  const Computation& entry = program.entry_computation();
  Rematerialization rematerialization;
  std::map<Id, Id> seen;  // by member: its scores
  std::map<Id, Chain> chains;
  for (Id id = 0; id < entry.size(); ++id) {
    if (!scores.contain(entry, id, id)) continue;
    Chain chain(entry, id);
    bool works = chain.works();
    for (const Id member : chain.members())
      if (const auto [found, is_new] = seen.emplace(member, id); !is_new) {  // several scores of one sum
        works = false;
        scores.give_up(found->second);
        chains.erase(found->second);
      }
    if (works)
      chains.emplace(id, std::move(chain));
    else
      scores.give_up(id);
  }
  for (const auto& [id, chain] : chains) rematerialization.add(chain);
  return rematerialization.run(program);
}

// ---- chunks ---------------------------------------------------------------------------------------------------------

// Chunks should stay in the second-level cache.
std::int64_t part_bytes(std::int64_t most_bytes) {
  constexpr std::int64_t kCached = 1 << 20;
  return std::min(most_bytes, kCached);
}

// The batch dim with the best chunks: the fewest that are small enough, else the most.
std::pair<int, std::int64_t> best_batch_chunks(const Instruction& dot, std::int64_t most_bytes) {
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

// Chooses the chunks of the computations of scores: along a batch dim or, if there is none or its chunks are too large,
// along rows of queries.
class ChunkPlanner {
 public:
  ChunkPlanner(const Program& program, std::int64_t most_bytes)
      : program_(program),
        entry_(program.entry_computation()),
        users_(entry_.users()),
        most_bytes_(most_bytes),
        taken_(entry_.instructions.size()) {}
  [[nodiscard]] bool is_taken(Id id) const { return at(taken_, id); }
  [[nodiscard]] const std::vector<ChunkPlan>& plans() const { return plans_; }

  /// Returns whether the scores can be chunked.
  bool add(Id seed) {
    ChunkPlan plan;
    const auto [dim, parts] = best_batch_chunks(entry_[seed], part_bytes(most_bytes_));
    if (parts > 1)
      if (ChunkRegion region = region_of(seed, dim); region.works()) plan.push_back({std::move(region), parts});
    const std::int64_t left = entry_[seed].type.byte_size() / (plan.empty() ? 1 : parts);
    if (left > most_bytes_) add_rows(seed, left, plan);
    if (plan.empty()) return false;
    const ChunkRegion region = plan.front().region;
    if (!add_plan(program_, plans_, std::move(plan))) return false;
    for (const auto& [member, dim] : region.dims())
      if (!region.is_own(member)) at(taken_, member) = true;
    return true;
  }

 private:
  // Chunks along the keys are impossible, because scores are normalized over the keys.
  void add_rows(Id seed, std::int64_t bytes, ChunkPlan& plan) const {
    const Instruction& dot = entry_[seed];
    for (int d = isize(attributes_as<DotAttributes>(dot.attributes).lhs_batch_dims); d < dot.type.ndim(); ++d) {
      if (dot.type.dim(d) < 2) continue;
      ChunkRegion region = region_of(seed, d);
      if (!region.works() || !(plan.empty() || same_members(region, plan.front().region))) continue;
      const std::int64_t most = most_parts(region) / (plan.empty() ? 1 : plan.front().parts);
      const std::int64_t parts = std::min({ceil_div(bytes, part_bytes(most_bytes_)), dot.type.dim(d), most});
      if (parts < 2) return;
      plan.push_back({std::move(region), parts});
      return;
    }
  }
  // Each chunk has its own instructions.
  static std::int64_t most_parts(const ChunkRegion& region) {
    constexpr std::int64_t kMostParts = 64;
    constexpr std::int64_t kMostInstructions = 4096;
    return std::min(kMostParts, kMostInstructions / isize(region.dims()));
  }
  [[nodiscard]] ChunkRegion region_of(Id seed, int dim) const {
    const std::int64_t elements = entry_[seed].type.element_count();
    return {program_, entry_, users_, seed, dim, [elements](const Type& type) { return is_as_large(type, elements); }};
  }

  const Program& program_;
  const Computation& entry_;
  std::vector<std::vector<Id>> users_;
  std::int64_t most_bytes_;
  std::vector<ChunkPlan> plans_;
  boost::dynamic_bitset<> taken_;
};

// Nullopt if scores had to be given up, because their rematerialized values are then useless.
std::optional<Program> split(const Traced& traced, LargeScores& scores) {
  const Computation& entry = traced.program.entry_computation();
  ChunkPlanner planner(traced.program, scores.most_bytes());
  bool all = true;
  for (Id id = 0; id < entry.size(); ++id) {
    const Id origin = at(traced.origin, id);
    if (planner.is_taken(id) || !scores.contain(entry, id, origin) || planner.add(id)) continue;
    scores.give_up(origin);
    all = false;
  }
  if (!all || planner.plans().empty()) return std::nullopt;
  return chunk_regions(traced.program, planner.plans());
}

bool has_scores(const Program& program, const LargeScores& scores) {
  const Computation& entry = program.entry_computation();
  for (Id id = 0; id < entry.size(); ++id)
    if (scores.contain(entry, id, id)) return true;
  return false;
}

}  // namespace

std::optional<Program> chunk_attention(const Program& program, std::int64_t most_bytes) {
  LargeScores scores(program, most_bytes);
  while (has_scores(program, scores))
    if (auto out = split(rematerialize_scores(program, scores), scores)) return out;
  return std::nullopt;
}

}  // namespace tessera
