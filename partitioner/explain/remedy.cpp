// SPDX-License-Identifier: Apache-2.0
#include "tessera/partitioner/explain/remedy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 11> kRemedyKinds = {
    "unknown",       "none",        "annotate",  "annotate_result", "change",     "change_either",
    "give_sharding", "give_summed", "keep_dims", "keep_dim",        "change_size"};
constexpr std::array<std::string_view, 6> kRemedyTrials = {"none", "skipped", "impossible", "works", "helps", "fails"};

template <std::size_t kCount>
std::size_t number_of_name(const std::array<std::string_view, kCount>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? 0 : static_cast<std::size_t>(found - names.begin());
}

// Replaces `%` and `|` by their character numbers.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '%' ? "%25" : c == '|' ? "%7C" : std::string(1, c);
  return out;
}
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view code = text.substr(i, 3);
    const bool is_code = code == "%25" || code == "%7C";
    out += !is_code ? text[i] : code == "%25" ? '%' : '|';
    if (is_code) i += 2;
  }
  return out;
}

template <class Number>
Number number_in(std::string_view text, Number otherwise) {
  Number out = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? out : otherwise;
}

// The text of the remedy without its effect.
std::string advice(const Remedy& remedy) {
  using enum Remedy::Kind;
  const std::string& value = remedy.value;
  const std::string& spec = remedy.spec;
  switch (remedy.kind) {
    case kUnknown: return "";
    case kNone: return "none: " + remedy.detail;
    case kAnnotate: return fmt::format("annotate %{} with {}", value, spec);
    case kAnnotateResult: return fmt::format("annotate the result %{} with {}", value, spec);
    case kChange:
      return fmt::format("change the annotation of {} to {}", value.empty() ? "the result" : "%" + value, spec);
    case kChangeEither: return fmt::format("both sides are annotated: change {}", remedy.detail);
    case kGiveSharding: return fmt::format("give {} the sharding {} in the text", remedy.detail, spec);
    case kGiveSummed: return fmt::format("pass %{} summed, with the sharding {}", value, spec);
    case kKeepDims:
      return fmt::format("do not shard the dims that {} sums over: remove {} from the shardings of its operands",
                         remedy.detail, spec);
    case kKeepDim: return "do not shard " + remedy.detail;
    case kChangeSize: return "make " + remedy.detail;
  }
  return "";
}

std::string more_work(const Remedy& remedy) {
  constexpr double kNotable = 1.05;
  return remedy.work < kNotable ? "" : fmt::format(" (each device then computes {:.2g} times as much)", remedy.work);
}

}  // namespace

std::optional<std::string> Remedy::annotation() const {
  const bool names_one = kind == Kind::kAnnotate || kind == Kind::kAnnotateResult || kind == Kind::kChange;
  const bool is_plain = spec.size() >= 2 && spec.front() == '{' && spec.find('}') + 1 == spec.size();
  return names_one && !value.empty() && is_plain ? std::optional(spec.substr(1, spec.size() - 2)) : std::nullopt;
}

std::string Remedy::text() const {
  switch (trial) {
    case Trial::kNone: return advice(*this);
    case Trial::kSkipped: return advice(*this) + " (not tested)";
    case Trial::kImpossible:
      return fmt::format(
          "none found: %{} cannot be annotated with {}: it contradicts other annotations or the sizes in a manual "
          "region, or the first mesh cannot express it",
          value, spec);
    case Trial::kWorks: return advice(*this) + more_work(*this);
    case Trial::kHelps:
      return fmt::format("{}: about {} bytes fewer, {}{}", advice(*this), bytes_saved,
                         removes_collective ? "with other collectives" : "but this collective remains",
                         more_work(*this));
    case Trial::kFails:
      return fmt::format("none found: with %{} as {} other collectives receive {}", value, spec,
                         bytes_saved == 0 ? "as many bytes" : fmt::format("about {} bytes more", -bytes_saved));
  }
  return "";
}

std::string_view Remedy::kind_name() const { return kRemedyKinds[static_cast<std::size_t>(kind)]; }
std::string_view Remedy::trial_name() const { return kRemedyTrials[static_cast<std::size_t>(trial)]; }

std::string Remedy::attribute() const {
  if (kind == Kind::kUnknown) return "";
  std::string out =
      fmt::format("{}|{}|{}|{}|{}", kind_name(), escaped(value), escaped(spec), escaped(mesh), escaped(detail));
  if (trial != Trial::kNone)
    out += fmt::format("|{}|{}|{}|{}", trial_name(), removes_collective ? 1 : 0, bytes_saved, work);
  return out;
}

Remedy Remedy::from_attribute(std::string_view text) {
  Remedy out;
  std::vector<std::string> fields = split(text, '|');
  constexpr std::size_t kFields = 9;
  fields.resize(std::max(fields.size(), kFields));
  out.kind = static_cast<Kind>(number_of_name(kRemedyKinds, fields[0]));
  out.value = unescaped(fields[1]);
  out.spec = unescaped(fields[2]);
  out.mesh = unescaped(fields[3]);
  out.detail = unescaped(fields[4]);
  out.trial = static_cast<Trial>(number_of_name(kRemedyTrials, fields[5]));
  out.removes_collective = fields[6] == "1";
  out.bytes_saved = number_in<std::int64_t>(fields[7], 0);
  out.work = number_in<double>(fields[8], 1);
  return out;
}

}  // namespace tessera
