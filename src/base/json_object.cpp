// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/json_object.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/files.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// "line 3, column 7" of a byte offset.
std::string place(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const auto line_start = before.rfind('\n');
  const std::size_t column = line_start == std::string_view::npos ? offset + 1 : offset - line_start;
  return fmt::format("line {}, column {}", line, column);
}

std::string type_text(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 40 ? fmt::format("{} ...", text.substr(0, 40)) : text;
}

// JSON has no NaN or infinity; Python's reader and writer use these words.
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return Json(value).dump();
}

void write(const Json& value, int indent, std::string& out);

void write_items(const Json& value, int indent, std::string& out) {
  const bool keyed = value.is_object();
  // Lists of plain values stay on one line.
  const bool flat = !keyed && std::none_of(value.begin(), value.end(), [](const Json& v) { return v.is_structured(); });
  const std::string line = flat ? "" : "\n" + std::string(static_cast<std::size_t>(indent + 2), ' ');
  out += keyed ? '{' : '[';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) out += flat ? ", " : ",";
    first = false;
    out += line;
    if (keyed) out += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
    write(item, indent + 2, out);
  }
  if (!flat) out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
  out += keyed ? '}' : ']';
}

void write(const Json& value, int indent, std::string& out) {
  if (value.is_structured() && !value.empty()) {
    write_items(value, indent, out);
  } else if (value.is_number_float()) {
    out += number_text(value.get<double>());
  } else {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

}  // namespace

void check_json_depth(std::string_view text, std::string_view origin) {
  constexpr int kDeepest = 200;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == ']' || c == '}') --depth;
    if ((c == '[' || c == '{') && ++depth > kDeepest)
      fail("{}: lists and objects nested deeper than {} at {}", origin, kDeepest, place(text, i));
  }
}

struct JsonObject::Node {
  std::string origin;
  Json json = Json::object();

  const Json* find(std::string_view key) const {
    const auto it = json.find(std::string(key));
    return it == json.end() ? nullptr : &*it;
  }
  [[noreturn]] void wrong_type(std::string_view key, std::string_view wanted, const Json& value) const {
    fail("{}: {} must be {}, got {}", origin, key, wanted, type_text(value));
  }
};

JsonObject::JsonObject(std::string origin) : node_(std::make_unique<Node>()) { node_->origin = std::move(origin); }
JsonObject::JsonObject(const JsonObject& other) : node_(std::make_unique<Node>(*other.node_)) {}
JsonObject::JsonObject(JsonObject&&) noexcept = default;
JsonObject& JsonObject::operator=(JsonObject other) noexcept {
  node_ = std::move(other.node_);
  return *this;
}
JsonObject::~JsonObject() = default;

JsonObject JsonObject::from_file(const std::string& path) { return parse(read_file(path), path); }

JsonObject JsonObject::parse(std::string_view text, std::string origin) {
  JsonObject out(std::move(origin));
  check_json_depth(text, out.origin());
  try {
    out.node_->json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::string what = error.what();
    const auto reason = what.find("syntax error");
    fail("{}: no JSON at {}: {}", out.origin(), place(text, error.byte == 0 ? 0 : error.byte - 1),
         reason == std::string::npos ? what : what.substr(reason));
  } catch (const Json::exception& error) {  // a number out of range
    fail("{}: {}", out.origin(), error.what());
  }
  require(out.node_->json.is_object(), "{}: must hold a JSON object, got {}", out.origin(),
          [&] { return type_text(out.node_->json); });
  return out;
}

const std::string& JsonObject::origin() const { return node_->origin; }

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : node_->json.items()) out.push_back(key);
  return out;
}

bool JsonObject::has(std::string_view key) const { return node_->find(key) != nullptr; }

bool JsonObject::is_null(std::string_view key) const {
  const Json* value = node_->find(key);
  return value != nullptr && value->is_null();
}

bool JsonObject::read(std::string_view key, bool& value) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_boolean()) node_->wrong_type(key, "true or false", *found);
  value = found->get<bool>();
  return true;
}

bool JsonObject::read(std::string_view key, std::int64_t& value) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return false;
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = found->is_number_integer() && !(found->is_number_unsigned() && found->get<std::uint64_t>() > kMax);
  if (!fits) node_->wrong_type(key, "an integer", *found);
  value = found->get<std::int64_t>();
  return true;
}

bool JsonObject::read(std::string_view key, int& value) const {
  std::int64_t wide = 0;
  if (!read(key, wide)) return false;
  const bool fits = wide >= std::numeric_limits<int>::min() && wide <= std::numeric_limits<int>::max();
  require(fits, "{}: {} must fit 32 bits, got {}", origin(), key, wide);
  value = static_cast<int>(wide);
  return true;
}

bool JsonObject::read(std::string_view key, double& value) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_number()) node_->wrong_type(key, "a number", *found);
  value = found->get<double>();
  return true;
}

bool JsonObject::read(std::string_view key, std::string& value) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_string()) node_->wrong_type(key, "a string", *found);
  value = found->get<std::string>();
  return true;
}

bool JsonObject::read(std::string_view key, std::vector<std::string>& value) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return false;
  if (found->is_string()) {
    value = {found->get<std::string>()};
    return true;
  }
  const bool all_text =
      found->is_array() && std::all_of(found->begin(), found->end(), [](const Json& item) { return item.is_string(); });
  if (!all_text) node_->wrong_type(key, "a list of strings", *found);
  value = found->get<std::vector<std::string>>();
  return true;
}

bool JsonObject::read(std::string_view key, JsonObject& value) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_object()) node_->wrong_type(key, "an object", *found);
  value = JsonObject(fmt::format("{}: {}", origin(), key));
  value.node_->json = *found;
  return true;
}

void JsonObject::set(std::string_view key, bool value) { node_->json[std::string(key)] = value; }
void JsonObject::set(std::string_view key, std::int64_t value) { node_->json[std::string(key)] = value; }
void JsonObject::set(std::string_view key, double value) { node_->json[std::string(key)] = value; }
void JsonObject::set(std::string_view key, const std::string& value) { node_->json[std::string(key)] = value; }
void JsonObject::set(std::string_view key, const std::vector<std::string>& value) {
  node_->json[std::string(key)] = value;
}
void JsonObject::set(std::string_view key, const JsonObject& value) {
  node_->json[std::string(key)] = value.node_->json;
}
void JsonObject::set(std::string_view key, const std::vector<JsonObject>& value) {
  Json list = Json::array();
  for (const auto& item : value) list.push_back(item.node_->json);
  node_->json[std::string(key)] = std::move(list);
}
void JsonObject::set_null(std::string_view key) { node_->json[std::string(key)] = nullptr; }

void JsonObject::require_known(const std::vector<std::string>& known) const {
  for (const auto& key : keys()) {
    const bool is_known = std::find(known.begin(), known.end(), key) != known.end();
    require(is_known, "{}: unknown key \"{}\"{}", origin(), key, [&] { return suggest_name(key, known); });
  }
}

std::string JsonObject::str() const {
  std::string out;
  write(node_->json, 0, out);
  return out + "\n";
}

void JsonObject::save(const std::string& path) const { write_file(path, str()); }

}  // namespace tessera
