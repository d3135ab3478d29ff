// SPDX-License-Identifier: Apache-2.0
#include "remedies.h"

#include <algorithm>
#include <map>
#include <set>

#include "factor_sharding.h"
#include "insert_reshards.h"
#include "op_kinds.h"
#include "origins.h"
#include "reshard_notes.h"
#include "split_uses.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/partitioner/plan_reshard.h"

namespace tessera {
namespace {

struct Candidate {
  std::string name;  // as --annotate takes it
  Sharding sharding;
  bool is_result = false;  // "the result %y"
};

// A reshard with a remedy that names an annotation.
struct Reshard {
  ComputationId computation = -1;
  Id copy = -1;
  double cost = 0;
};

// Partitions the given program with one annotation more.
class Trials {
 public:
  Trials(const Program& given, const Trial& trial) : given_(given), trial_(trial) {
    constexpr std::int64_t kMostInstructions = 4'000;  // over all trials: seconds
    constexpr std::int64_t kMost = 64;
    left_ = std::min(kMost, kMostInstructions / std::max<std::int64_t>(1, isize(given)));
  }

  [[nodiscard]] bool is_spent() const { return left_ <= 0; }
  const TrialOutcome& before() {
    if (!before_) before_ = trial_(given_);
    return *before_;
  }
  /// Nothing where there is no such value, it cannot lie so, or no trial is left.
  std::optional<TrialOutcome> with(const Candidate& candidate) {
    const auto [known, is_new] = outcomes_.try_emplace({candidate.name, candidate.sharding.str()});
    if (!is_new || is_spent()) return known->second;
    const auto [computation, id] = find(candidate.name);
    if (id < 0 || !fits(given_[computation][id], candidate.sharding)) return std::nullopt;
    --left_;
    Program annotated = given_;
    auto made = std::make_shared<Computation>(given_[computation]);
    made->instructions[static_cast<std::size_t>(id)].sharding = make_sharding(candidate.sharding);
    at(annotated.computations, computation) = std::move(made);
    try {
      known->second = trial_(annotated);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it contradicts what else is said
    }
    return known->second;
  }
  [[nodiscard]] bool is_given(const std::string& name) const {
    const auto [computation, id] = find(name);
    if (id < 0 || !given_[computation][id].sharding) return false;
    const Sharding& sharding = given_[computation][id].sharding->front();
    return !is_derived(sharding) && !sharding.dims.empty();
  }

 private:
  static std::int64_t isize(const Program& program) { return static_cast<std::int64_t>(program.instruction_count()); }

  static bool fits(const Instruction& value, const Sharding& sharding) {
    return value.type.is_array() && value.type.ndim() == sharding.ndim();
  }

  [[nodiscard]] std::pair<ComputationId, Id> find(const std::string& name) const {
    const auto slash = name.find('/');
    for (ComputationId c = 0; c < tessera::isize(given_.computations); ++c) {
      const bool is_it = slash == std::string::npos ? c == given_.entry : given_[c].name == name.substr(0, slash);
      if (!is_it) continue;
      const std::string value = slash == std::string::npos ? name : name.substr(slash + 1);
      const auto& all = given_[c].instructions;
      const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == value; });
      if (found != all.end()) return {c, static_cast<Id>(found - all.begin())};
    }
    return {-1, -1};
  }

  const Program& given_;
  const Trial& trial_;
  std::int64_t left_ = 0;
  std::optional<TrialOutcome> before_;
  std::map<std::pair<std::string, std::string>, std::optional<TrialOutcome>> outcomes_;
};

class Remedies {
 public:
  Remedies(const Program& resharded, const Program& given, const Trial& trial)
      : program_(resharded), kinds_(resharded), trials_(given, trial) {}

  /// The better remedy, or the one there is.
  std::string of(const Reshard& reshard) {
    const Computation& computation = program_[reshard.computation];
    std::string old = *computation[reshard.copy].frontend_attribute(kRemedyAttribute);
    if (trials_.is_spent()) return old;
    const Candidate* best = nullptr;
    TrialOutcome least;
    const TrialOutcome before = trials_.before();
    const auto candidates = candidates_of(computation, reshard.copy, old);
    for (const Candidate& candidate : candidates) {
      const auto outcome = trials_.with(candidate);
      if (!outcome) continue;
      if (outcome->collectives < before.collectives && outcome->bytes < before.bytes)
        return text(candidate) + more_work(before, *outcome);
      if (best != nullptr && outcome->bytes >= least.bytes) continue;
      best = &candidate;
      least = *outcome;
    }
    if (best == nullptr || trials_.is_spent()) return old;
    if (least.bytes < before.bytes)
      return fmt::format("{}: {} bytes fewer, by other collectives{}", text(*best), before.bytes - least.bytes,
                         more_work(before, least));
    return fmt::format(
        "none found: with %{} as {} other collectives move {}", best->name, best->sharding.str(),
        least.bytes == before.bytes ? "as many bytes" : fmt::format("{} bytes more", least.bytes - before.bytes));
  }

 private:
  static std::string more_work(const TrialOutcome& before, const TrialOutcome& after) {
    constexpr double kNotable = 1.05;
    if (before.flops <= 0 || after.flops < kNotable * before.flops) return "";
    return fmt::format(" (each device then computes {:.2g} times as much)", after.flops / before.flops);
  }

  [[nodiscard]] std::string text(const Candidate& candidate) const {
    const std::string sharding = candidate.sharding.str();
    if (trials_.is_given(candidate.name))
      return fmt::format("{}%{} to {}", kChangeAnnotation, candidate.name, sharding);
    return fmt::format("{}{} with {}", candidate.is_result ? kAnnotateResult : kAnnotateValue, candidate.name,
                       sharding);
  }

  // What the remedy says, and what of the values above would make the copy's operand lie as it needs it.
  std::vector<Candidate> candidates_of(const Computation& computation, Id copy, const std::string& remedy) {
    const Instruction& reshard = computation[copy];
    const Sharding target = reshard.sharding->front();
    const Sharding now = computation[reshard.operands[0]].sharding->front().without_partial();
    const bool is_result = remedy.starts_with(kAnnotateResult);
    const auto first = remedy.find('%') + 1;
    std::vector<Candidate> out;
    out.push_back({remedy.substr(first, remedy.find(' ', first) - first),
                   remedy.ends_with(" " + target.str()) ? target : now, is_result});
    if (!remedy.starts_with(kAnnotateValue)) return out;
    constexpr std::size_t kMost = 6;
    std::vector<std::pair<Id, Sharding>> front{{before_reshards(computation, reshard.operands[0]), target}};
    for (std::size_t next = 0; next < front.size() && out.size() < kMost; ++next) {
      const auto [value, wanted] = front[next];
      for (auto& [operand, sharding] : wanted_of_operands(computation, computation[value], wanted)) {
        const std::string name = annotatable_name(computation[operand]);
        const bool is_known = std::any_of(out.begin(), out.end(), [&](const auto& one) { return one.name == name; });
        if (is_known) continue;
        out.push_back({name, sharding, false});
        front.emplace_back(operand, std::move(sharding));
      }
    }
    return out;
  }

  // How the operands of an op would lie for its result to lie as wanted, without those that do so already.
  std::vector<std::pair<Id, Sharding>> wanted_of_operands(const Computation& computation, const Instruction& value,
                                                          const Sharding& wanted) {
    std::vector<std::pair<Id, Sharding>> out;
    const FactorMap& map = *kinds_.of(computation, value).map;
    if (map.results.size() != 1 || map.operands.size() != value.operands.size()) return out;
    const Strategy strategy = project(map, map.results[0], wanted);
    for (int i = 0; i < isize(value.operands); ++i) {
      const Id operand = before_reshards(computation, at(value.operands, i));
      const Instruction& made = computation[operand];
      if (!made.type.is_array() || made.type.ndim() == 0 || is_made_anywhere(computation, made)) continue;
      Sharding sharding = unproject(wanted.mesh, map, at(map.operands, i), strategy);
      if (sharding != made.sharding->front()) out.emplace_back(operand, std::move(sharding));
    }
    return out;
  }

  const Program& program_;
  OpKinds kinds_;
  Trials trials_;
};

bool names_an_annotation(std::string_view remedy) {
  return remedy.starts_with(kAnnotateValue) || remedy.starts_with(kAnnotateResult) ||
         (remedy.starts_with(kChangeAnnotation) && remedy.substr(kChangeAnnotation.size()).starts_with('%'));
}

// Those that move something, most first.
std::vector<Reshard> reshards_of(const Program& program, const Topology& topology) {
  std::vector<Reshard> out;
  for (ComputationId c = 0; c < isize(program.computations); ++c)
    for (Id i = 0; i < program[c].size(); ++i) {
      const Instruction& copy = program[c][i];
      const auto* remedy = copy.frontend_attribute(kRemedyAttribute);
      if (copy.op->role != Role::kCopy || remedy == nullptr || !names_an_annotation(*remedy)) continue;
      const Sharding& from = program[c][copy.operands[0]].sharding->front();
      const Sharding& to = copy.sharding->front();
      const bool is_plain = from.is_tiled() && to.is_tiled() && from.manual.empty() && to.manual.empty();
      const double cost = is_plain ? reshard_cost(copy.type, from, to, topology) : 0;
      if (cost > 0) out.push_back({c, i, cost});
    }
  std::stable_sort(out.begin(), out.end(), [](const Reshard& a, const Reshard& b) { return a.cost > b.cost; });
  return out;
}

}  // namespace

Program with_tried_remedies(const Program& resharded, const Program& given, const Topology& topology,
                            const Trial& trial) {
  Program out = resharded;
  Remedies remedies(resharded, given, trial);
  for (const Reshard& reshard : reshards_of(resharded, topology)) {
    const std::string remedy = remedies.of(reshard);
    auto made = std::make_shared<Computation>(out[reshard.computation]);
    Instruction& copy = made->instructions[static_cast<std::size_t>(reshard.copy)];
    copy.notes = with_frontend_attribute(copy.notes, kRemedyAttribute, remedy);
    at(out.computations, reshard.computation) = std::move(made);
  }
  return out;
}

}  // namespace tessera
