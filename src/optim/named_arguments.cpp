// SPDX-License-Identifier: Apache-2.0
#include "named_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::optim {
namespace {

template <class T>
bool read_all(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

void set_value(JsonObject& out, const std::string& name, const std::string& text) {
  std::int64_t integer = 0;
  double number = 0;
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "true" || lower == "false")
    out.set(name, lower == "true");
  else if (read_all(text, integer))
    out.set(name, integer);
  else if (read_all(text, number))
    out.set(name, number);
  else
    out.set(name, text);
}

}  // namespace

JsonObject named_arguments(const std::string& text, const std::string& what) {
  std::string plain = text;
  std::erase(plain, ' ');
  if (plain.starts_with("{")) return JsonObject::parse(text, what);
  JsonObject out(what);
  if (plain.empty()) return out;
  for (const std::string& pair : split(plain, ',')) {
    const auto equal = pair.find('=');
    require(equal != std::string::npos && equal > 0, "{}: \"{}\" must have the form name=value", what, pair);
    set_value(out, pair.substr(0, equal), pair.substr(equal + 1));
  }
  return out;
}

void require_known(const JsonObject& arguments, const std::vector<std::string>& known, const std::string& owner) {
  for (const std::string& name : arguments.keys())
    require(std::ranges::find(known, name) != known.end(), "{}: {} does not use {}{}", arguments.origin(), owner, name,
            [&] {
              return known.empty() ? std::string("; it has no arguments")
                                   : fmt::format("; its arguments are {}", fmt::join(known, ", "));
            });
}

}  // namespace tessera::optim
