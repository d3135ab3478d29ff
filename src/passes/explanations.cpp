// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/explanations.h"

#include <algorithm>
#include <array>

#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr std::string_view kSource = "tessera.source";
constexpr std::array<std::string_view, 11> kExplanations = {
    "tessera.origin", "tessera.why", "tessera.reason", "tessera.consumer",
    "tessera.from",   "tessera.to",  "tessera.next",   "tessera.remedy",
    "tessera.asked",  kSource,       "tessera.subject"};

using Attribute = std::pair<std::string, std::string>;

const std::vector<Attribute>& attributes_of(const Instruction& instruction) {
  static const std::vector<Attribute> kNone;
  return instruction.notes ? instruction.notes->frontend_attributes : kNone;
}

// Attributes for compilers have names like `xla.sdy.sharding`, `tessera.recompute`, `_xla_stream_annotation`. Other
// attributes are comments of a front end: PyTorch marks products with `grad_x`.
bool is_for_compilers(std::string_view key) { return key.find('.') != std::string_view::npos || key.starts_with('_'); }

// Calls f with each frontend attribute for compilers that does more than explain the instruction.
template <class F>
void for_each_binding(const Instruction& instruction, const std::vector<std::string_view>& but, F&& f) {
  for (const Attribute& item : attributes_of(instruction))
    if (is_for_compilers(item.first) && !only_explains(item.first) &&
        std::find(but.begin(), but.end(), item.first) == but.end())
      f(item);
}

std::string key_of_part(std::string_view key, std::size_t part) { return fmt::format("{}.{}", key, part); }

}  // namespace

bool only_explains(std::string_view key) {
  const auto end = key.find_last_not_of("0123456789");
  if (end != std::string_view::npos && end + 1 < key.size() && key[end] == '.') key = key.substr(0, end);
  return std::find(kExplanations.begin(), kExplanations.end(), key) != kExplanations.end();
}

NotesRef merged_notes(const std::vector<const Instruction*>& parts) {
  const Instruction& first = *parts.front();
  auto out = std::make_shared<Notes>(first.notes ? *first.notes : Notes());
  for (std::size_t k = 1; k < parts.size(); ++k)
    for (const std::string_view key : kExplanations) {
      const std::string* here = parts[k]->frontend_attribute(key);
      const std::string* there = first.frontend_attribute(key);
      const std::string text = key == kSource ? parts[k]->source() : here != nullptr ? *here : "";
      const std::string base = key == kSource ? first.source() : there != nullptr ? *there : "";
      if (text != base) out->frontend_attributes.emplace_back(key_of_part(key, k), text);
    }
  return out;
}

std::string explanation(const Instruction& instruction, std::string_view key, std::size_t part) {
  const std::string* of_part = part > 0 ? instruction.frontend_attribute(key_of_part(key, part)) : nullptr;
  const std::string* found = of_part != nullptr ? of_part : instruction.frontend_attribute(key);
  return found != nullptr ? *found : "";
}

NotesRef with_explanation(const NotesRef& notes, std::string_view key, const std::vector<std::string>& by_part) {
  NotesRef out = with_frontend_attribute(notes, key, by_part.front());
  for (std::size_t part = 1; part < by_part.size(); ++part) {
    const bool is_same = by_part[part] == by_part.front();
    out = with_frontend_attribute(out, key_of_part(key, part), is_same ? std::nullopt : std::optional(by_part[part]));
  }
  return out;
}

std::string source_of_part(const Instruction& instruction, std::size_t part) {
  const std::string* of_part = part > 0 ? instruction.frontend_attribute(key_of_part(kSource, part)) : nullptr;
  return of_part != nullptr ? *of_part : instruction.source();
}

bool equal_bindings(const Instruction& a, const Instruction& b, const std::vector<std::string_view>& but) {
  if (a.notes == b.notes) return true;
  std::vector<const Attribute*> left;
  for_each_binding(a, but, [&](const Attribute& item) { left.push_back(&item); });
  std::size_t count = 0;
  bool equal = true;
  for_each_binding(b, but, [&](const Attribute& item) {
    equal = equal && count < left.size() && *left[count] == item;
    ++count;
  });
  return equal && count == left.size();
}

std::size_t hash_bindings(const Instruction& instruction, const std::vector<std::string_view>& but) {
  std::size_t key = 0;
  for_each_binding(instruction, but, [&](const Attribute& item) { key = hash_mix(key, hash_text(item.second)); });
  return key;
}

}  // namespace tessera
