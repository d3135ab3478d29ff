// SPDX-License-Identifier: Apache-2.0
#include "normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "json_members.h"
#include "tessera/base/error.h"
#include "tessera/base/json.h"
#include "utf8.h"

namespace tessera::data {
namespace {

struct FreeText {
  void operator()(utf8proc_uint8_t* text) const { std::free(text); }  // NOLINT(cppcoreguidelines-no-malloc)
};

// The canonical composition (NFC).
std::string composed_utf8(std::string_view text) {
  utf8proc_uint8_t* raw = nullptr;
  constexpr auto kForm = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &raw, kForm);
  const std::unique_ptr<utf8proc_uint8_t, FreeText> owner(raw);
  ensure(size >= 0, "utf8proc does not compose {} bytes: {}", text.size(), utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(raw), static_cast<std::size_t>(size)};
}

std::string composed(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = utf8_prefix(text);
    if (valid > 0) out += composed_utf8(text.substr(0, valid));
    text.remove_prefix(valid);
    const std::size_t other = not_utf8_prefix(text);
    out += text.substr(0, other);
    text.remove_prefix(other);
  }
  return out;
}

std::string with_replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t found = text.find(from); found != std::string_view::npos; found = text.find(from)) {
    out += text.substr(0, found);
    out += to;
    text.remove_prefix(found + from.size());
  }
  out += text;
  return out;
}

}  // namespace

Normalizer Normalizer::from_json(const boost::json::value* json, const std::string& place) {
  Normalizer out;
  if (json != nullptr && !json->is_null()) out.read_step(*json, place);
  return out;
}

void Normalizer::read_step(const boost::json::value& json, const std::string& place) {
  const std::string type = text_member(json, "type", place);
  if (type == "Sequence") {
    for (const auto& one : list_member(json, "normalizers", place)) read_step(one, place);
  } else if (type == "NFC") {
    steps_.push_back({Kind::kCompose, {}, {}});
  } else if (type == "Prepend") {
    steps_.push_back({Kind::kPrepend, {}, text_member(json, "prepend", place)});
  } else if (type == "Replace") {
    const boost::json::value* pattern = given_member(json, "pattern");
    const std::string from = pattern == nullptr ? "" : text_member(*pattern, "String", place);
    require(!from.empty(), "{}: Replace needs the pattern of a String that is not empty, got {}", place,
            [&] { return pattern == nullptr ? "none" : excerpt(*pattern); });
    steps_.push_back({Kind::kReplace, from, text_member(json, "content", place)});
  } else {
    fail("{}: {} is not supported; NFC, Prepend, Replace and Sequence are", place, type.empty() ? excerpt(json) : type);
  }
}

bool Normalizer::prepends() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.kind == Kind::kPrepend; });
}

std::string Normalizer::apply(std::string_view text, TextPlace place) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (step.kind == Kind::kCompose) out = composed(out);
    if (step.kind == Kind::kPrepend && place == TextPlace::kBegin && !out.empty()) out.insert(0, step.to);
    if (step.kind == Kind::kReplace) out = with_replaced(out, step.from, step.to);
  }
  return out;
}

}  // namespace tessera::data
