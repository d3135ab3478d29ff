// SPDX-License-Identifier: Apache-2.0
#include "explain/remedies.h"

#include <algorithm>
#include <map>
#include <set>

#include "normalize/duplicate_cheap_values.h"
#include "normalize/manual.h"
#include "pipeline/origins.h"
#include "propagation/factor_sharding.h"
#include "propagation/op_signatures.h"
#include "reshard_insertion/insert_reshards.h"
#include "reshard_insertion/reshard_notes.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/reshard_planning/plan_reshard.h"
#include "tessera/passes/explanations.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

// An annotation that may avoid a collective.
struct Candidate {
  Remedy remedy;
  std::string spec;  // as an argument of --annotate
  std::optional<Sharding>
      meaning{};  // of the spec, if an axis name could have another meaning on the program's first mesh
};

// The candidate of a remedy; nullopt if the remedy names no annotation.
std::optional<Candidate> candidate_of(const Remedy& remedy) {
  auto spec = remedy.annotation();
  return spec ? std::optional(Candidate{remedy, *std::move(spec)}) : std::nullopt;
}

// The purpose of a reshard.
struct Purpose {
  std::string consumer;
  std::string reason;
  bool is_reduction = false;
  // Whether both do the same for the same consumer; the required shardings may differ.
  [[nodiscard]] bool is_that_of(const Purpose& other) const {
    return is_reduction == other.is_reduction && consumer == other.consumer &&
           (!consumer.empty() || reason == other.reason);
  }
};

// The purposes of the reshards that exchange data.
std::vector<Purpose> purposes_of(const Program& resharded) {
  std::vector<Purpose> out;
  for (const auto& computation : resharded.computations)
    for (const Instruction& copy : computation->instructions) {
      const auto* reason = copy.frontend_attribute(kReasonAttribute);
      if (copy.op->role != Role::kCopy || reason == nullptr || !copy.type.is_array()) continue;
      const Sharding& from = (*computation)[copy.operands.front()].sharding->front();
      if (reshard_cost(copy.type, from, copy.sharding->front()) <= 0) continue;
      const auto* consumer = copy.frontend_attribute(kConsumerAttribute);
      out.push_back({consumer != nullptr ? *consumer : "", *reason, from.is_partial()});
    }
  return out;
}

// Whether the annotation of the value says how a manual region divides it. Another annotation would contradict the region.
bool is_divided_by_region(const Program& given, const Instruction& value) {
  const auto has_no_other_sharding = [](const Instruction& border, std::string_view key) {
    return border.frontend_attribute(key) == nullptr;
  };
  if (manual_border(value) == ManualBorder::kLeave) return has_no_other_sharding(value, kSdyOutShardings);
  for (const auto& computation : given.computations)
    for (const Instruction& border : computation->instructions)
      if (manual_border(border) == ManualBorder::kEnter && &(*computation)[border.operands.front()] == &value)
        return has_no_other_sharding(border, kSdyInShardings);
  return false;
}

struct Effect {
  std::vector<Purpose> purposes;
  double bytes = 0;
  double work = 0;
};
Effect effect_of(const EstimatedProgram& program) {
  return {purposes_of(program.resharded), program.bytes, program.work};
}

// Estimates the program with one additional annotation.
class Estimates {
 public:
  Estimates(const Program& given, Alternatives& alternatives, std::int64_t most)
      : given_(given), alternatives_(alternatives), left_(most) {}

  /// Whether the last call of with() had no estimate, but an annotation may be possible.
  [[nodiscard]] bool is_unknown() const { return is_unknown_; }
  /// Nullopt if the value cannot have this sharding, or if there is no estimate.
  std::optional<Effect> with(const Candidate& candidate) {
    is_unknown_ = false;
    const auto [known, is_new] = effects_.try_emplace({candidate.remedy.value, candidate.spec});
    if (!is_new) return known->second;
    try {
      const auto sharding = sharding_of(candidate);
      if (!sharding) return std::nullopt;
      const auto program = left_ > 0 ? alternatives_.with(candidate.remedy.value, *sharding) : std::nullopt;
      if (!program) {
        is_unknown_ = true;
        effects_.erase(known);
        return std::nullopt;
      }
      --left_;
      known->second = effect_of(*program);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): no such value, or annotations contradict each other
    }
    return known->second;
  }
  [[nodiscard]] bool is_given(const std::string& name) const {
    const Instruction& value = annotatable(given_, name);
    if (!value.sharding) return false;
    const Sharding& sharding = value.sharding->front();
    return !is_derived(sharding) && !sharding.dims.empty();
  }

 private:
  // The sharding that the command gives to the value with the text of the remedy.
  [[nodiscard]] std::optional<Sharding> sharding_of(const Candidate& candidate) const {
    if (given_.meshes.empty()) return std::nullopt;
    const std::string& name = candidate.remedy.value;
    if (is_divided_by_region(given_, annotatable(given_, name))) return std::nullopt;
    const Program annotated = annotate(without_annotation(given_, name), given_.meshes.front(), name, candidate.spec);
    const Instruction& value = annotatable(annotated, name);
    const Sharding& sharding = value.sharding->front();
    const bool means_it = !candidate.meaning || same_placement(value.type, sharding, *candidate.meaning);
    return means_it && annotated.num_partitions == given_.num_partitions ? std::optional(sharding) : std::nullopt;
  }

  const Program& given_;
  Alternatives& alternatives_;
  std::int64_t left_ = 0;
  bool is_unknown_ = false;
  std::map<std::pair<std::string, std::string>, std::optional<Effect>> effects_;
};

// Finds other values whose annotation would give the operand of a reshard the required sharding.
class ValuesAbove {
 public:
  explicit ValuesAbove(const Program& resharded) : program_(resharded) {
    for (const auto& computation : program_.computations)
      for (Id i = 0; i < computation->size(); ++i) {
        const Instruction& copy = (*computation)[i];
        const auto* from = copy.frontend_attribute(kFromAttribute);
        const auto* to = copy.frontend_attribute(kToAttribute);
        if (copy.op->role == Role::kCopy && from != nullptr && to != nullptr)
          reshards_.try_emplace({*from, *to}, computation.get(), i);
      }
  }

  [[nodiscard]] std::vector<Candidate> of(const CollectiveNote& note) {
    std::vector<Candidate> out;
    const auto reshard = reshards_.find({note.from, note.to});
    if (reshard == reshards_.end() || note.remedy.kind != Remedy::Kind::kAnnotate) return out;
    const auto& [computation, copy] = reshard->second;
    constexpr std::size_t kMost = 5;
    std::vector<std::pair<Id, Sharding>> front{
        {before_reshards(*computation, (*computation)[copy].operands[0]), (*computation)[copy].sharding->front()}};
    std::set<std::string> known{annotatable_name((*computation)[front.front().first])};
    for (std::size_t next = 0; next < front.size() && out.size() < kMost; ++next) {
      const auto [value, wanted] = front[next];
      for (auto& [operand, sharding] : wanted_of_operands(*computation, (*computation)[value], wanted)) {
        const std::string name = annotatable_name((*computation)[operand]);
        if (!known.insert(name).second) continue;
        const bool has_spec = sharding.is_tiled() && !sharding.is_partial() && sharding.manual.empty();
        auto candidate = candidate_of(
            {.kind = Remedy::Kind::kAnnotate, .value = name, .spec = sharding.str(), .mesh = sharding.mesh.str()});
        if (has_spec && candidate) {
          candidate->meaning = sharding;
          out.push_back(*std::move(candidate));
        }
        front.emplace_back(operand, std::move(sharding));
      }
    }
    return out;
  }

 private:
  // The operand shardings that would give the result the wanted sharding, without operands that already have them.
  std::vector<std::pair<Id, Sharding>> wanted_of_operands(const Computation& computation, const Instruction& value,
                                                          const Sharding& wanted) {
    std::vector<std::pair<Id, Sharding>> out;
    const FactorMap& map = *signatures_.of(program_, computation, value).map;
    if (map.results.size() != 1 || map.operands.size() != value.operands.size()) return out;
    const Strategy strategy = project(map, map.results[0], wanted);
    for (int i = 0; i < isize(value.operands); ++i) {
      const Id operand = before_reshards(computation, at(value.operands, i));
      const Instruction& made = computation[operand];
      if (!made.type.is_array() || made.type.ndim() == 0 || is_rematerializable(computation, made)) continue;
      Sharding sharding = unproject(wanted.mesh, map, at(map.operands, i), strategy);
      if (sharding != made.sharding->front()) out.emplace_back(operand, std::move(sharding));
    }
    return out;
  }

  const Program& program_;
  OpSignatures signatures_;
  // By the texts of both shardings.
  std::map<std::pair<std::string, std::string>, std::pair<const Computation*, Id>> reshards_;
};

class Remedies {
 public:
  Remedies(const ExplainedProgram& explained, std::int64_t most_estimates)
      : before_(effect_of(explained.alternatives.chosen())),
        above_(explained.resharded),
        estimates_(explained.given, explained.alternatives, most_estimates) {}

  /// The better of the estimated remedy and the existing one.
  Remedy of(const CollectiveNote& note) {
    const auto named = candidate_of(note.remedy);
    if (!named) return note.remedy;
    std::vector<Candidate> candidates = above_.of(note);
    candidates.insert(candidates.begin(), *named);
    std::optional<Remedy> best;
    bool is_unknown = false;
    for (const Candidate& candidate : candidates) {
      const auto effect = estimates_.with(candidate);
      is_unknown = is_unknown || estimates_.is_unknown();
      if (!effect) continue;
      Remedy judged_one = judged(candidate, note, *effect);
      if (judged_one.trial == Remedy::Trial::kWorks) return judged_one;
      if (!best || judged_one.bytes_saved > best->bytes_saved) best = std::move(judged_one);
    }
    if (best) return *best;
    Remedy out = note.remedy;
    out.trial = is_unknown ? Remedy::Trial::kSkipped : Remedy::Trial::kImpossible;
    return out;
  }

 private:
  // A note that no reshard explains belongs to a halo. Without it, a device receives fewer bytes.
  [[nodiscard]] bool is_gone(const CollectiveNote& note, const Effect& after) const {
    const OpDef* op = op_table().find(note.opcode);
    const bool is_reduction = op != nullptr && (op->collective == CollectiveKind::kAllReduce ||
                                                op->collective == CollectiveKind::kReduceScatter);
    const Purpose purpose{note.consumer, note.reason, is_reduction};
    const auto has = [&](const Effect& effect) {
      return std::any_of(effect.purposes.begin(), effect.purposes.end(),
                         [&](const Purpose& other) { return other.is_that_of(purpose); });
    };
    return has(before_) ? !has(after) : before_.bytes - after.bytes >= static_cast<double>(note.bytes);
  }

  // The remedy with its effect. If the value is annotated already, the remedy is a change of that annotation.
  [[nodiscard]] Remedy judged(const Candidate& candidate, const CollectiveNote& note, const Effect& after) const {
    Remedy out = candidate.remedy;
    if (estimates_.is_given(out.value))
      out.kind = Remedy::Kind::kChange;
    else if (out.kind == Remedy::Kind::kChange)
      out.kind = Remedy::Kind::kAnnotate;
    out.removes_collective = is_gone(note, after);
    out.bytes_saved = static_cast<std::int64_t>(before_.bytes - after.bytes);
    if (before_.work > 0) out.work = after.work / before_.work;
    const bool works =
        out.removes_collective && after.purposes.size() <= before_.purposes.size() && out.bytes_saved > 0;
    out.trial = works ? Remedy::Trial::kWorks : out.bytes_saved > 0 ? Remedy::Trial::kHelps : Remedy::Trial::kFails;
    return out;
  }

  Effect before_;
  ValuesAbove above_;
  Estimates estimates_;
};

// The key of a remedy: the two shardings, the reason and the remedy itself.
using RemedyKey = std::tuple<std::string, std::string, std::string, std::string>;

// The instruction's notes with the better remedies; null if there are none.
NotesRef notes_with_remedies(const Instruction& instruction, const std::map<RemedyKey, std::string>& found) {
  if (instruction.frontend_attribute(kRemedyAttribute) == nullptr) return nullptr;
  std::vector<std::string> texts;
  for (std::size_t part = 0; part < std::max<std::size_t>(1, instruction.operands.size()); ++part) {
    const auto explained = [&](std::string_view key) { return explanation(instruction, key, part); };
    const auto better = found.find(
        {explained(kFromAttribute), explained(kToAttribute), explained(kReasonAttribute), explained(kRemedyAttribute)});
    texts.push_back(better != found.end() ? better->second : explained(kRemedyAttribute));
  }
  return with_explanation(instruction.notes, kRemedyAttribute, texts);
}

}  // namespace

Program with_estimated_remedies(const Program& partitioned, const ExplainedProgram& explained,
                                std::int64_t most_estimates) {
  std::vector<CollectiveNote> notes = explained.notes;
  std::stable_sort(notes.begin(), notes.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  Remedies remedies(explained, most_estimates);
  std::map<RemedyKey, std::string> found;
  for (const CollectiveNote& note : notes)
    if (const auto [better, is_new] = found.try_emplace({note.from, note.to, note.reason, note.remedy.attribute()});
        is_new)
      better->second = remedies.of(note).attribute();
  Program out = partitioned;
  for (ComputationRef& computation : out.computations) {
    auto made = std::make_shared<Computation>(*computation);
    bool is_other = false;
    for (Instruction& instruction : made->instructions)
      if (NotesRef better = notes_with_remedies(instruction, found)) {
        instruction.notes = std::move(better);
        is_other = true;
      }
    if (is_other) computation = std::move(made);
  }
  return out;
}

}  // namespace tessera
