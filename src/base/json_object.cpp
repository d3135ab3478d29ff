// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/json_object.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"

namespace tessera {
namespace {

namespace json = boost::json;

void write(const json::value& value, int indent, std::string& out);

std::string new_line(int indent) { return "\n" + std::string(static_cast<std::size_t>(indent), ' '); }

void write_object(const json::object& object, int indent, std::string& out) {
  out += '{';
  for (const auto& member : object) {
    if (&member != &*object.begin()) out += ',';
    out += new_line(indent + 2) + json::serialize(json::string(member.key())) + ": ";
    write(member.value(), indent + 2, out);
  }
  out += new_line(indent) + '}';
}

// Writes lists of scalars on one line.
void write_array(const json::array& array, int indent, std::string& out) {
  const bool flat = std::none_of(array.begin(), array.end(), [](const json::value& v) { return v.is_structured(); });
  out += '[';
  for (const auto& item : array) {
    if (&item != array.data()) out += flat ? ", " : ",";
    if (!flat) out += new_line(indent + 2);
    write(item, indent + 2, out);
  }
  out += flat ? "]" : new_line(indent) + ']';
}

// JSON has no NaN or infinity; Python's reader and writer use these words.
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void write(const json::value& value, int indent, std::string& out) {
  if (value.is_object() && !value.get_object().empty())
    write_object(value.get_object(), indent, out);
  else if (value.is_array() && !value.get_array().empty())
    write_array(value.get_array(), indent, out);
  else
    out += value.is_double() ? number_text(value.get_double()) : json::serialize(value);
}

}  // namespace

struct JsonObject::Node {
  std::string origin;
  json::object members;

  [[nodiscard]] const json::value* find(std::string_view key) const { return members.if_contains(key); }
  [[noreturn]] void wrong_type(std::string_view key, std::string_view wanted, const json::value& value) const {
    fail("{}: {} must be {}, got {}", origin, key, wanted, excerpt(value));
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

JsonObject JsonObject::from_file(const std::string& path) {
  return reading_file([&] { return parse(read_file(path), path); });
}

namespace {

json::object object_of(json::value value, const std::string& origin) {
  require(value.is_object(), "{}: must hold a JSON object, got {}", origin, [&] { return excerpt(value); });
  return std::move(value.get_object());
}

}  // namespace

JsonObject JsonObject::parse(std::string_view text, std::string origin) {
  JsonObject out(std::move(origin));
  out.node_->members = object_of(parse_json(text, out.origin()), out.origin());
  return out;
}

JsonObject JsonObject::parse_line(std::string_view line, std::string place) {
  JsonObject out(std::move(place));
  out.node_->members = object_of(parse_line_of_json(line, out.origin()), out.origin());
  return out;
}

const std::string& JsonObject::origin() const { return node_->origin; }

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> out;
  for (const auto& member : node_->members) out.emplace_back(member.key());
  return out;
}

bool JsonObject::has(std::string_view key) const { return node_->find(key) != nullptr; }

bool JsonObject::is_null(std::string_view key) const {
  const json::value* value = node_->find(key);
  return value != nullptr && value->is_null();
}

bool JsonObject::is_bool(std::string_view key) const {
  const json::value* value = node_->find(key);
  return value != nullptr && value->is_bool();
}

bool JsonObject::is_string(std::string_view key) const {
  const json::value* value = node_->find(key);
  return value != nullptr && value->is_string();
}

bool JsonObject::is_object(std::string_view key) const {
  const json::value* value = node_->find(key);
  return value != nullptr && value->is_object();
}

std::string JsonObject::text(std::string_view key) const {
  const json::value* value = node_->find(key);
  if (value == nullptr) return "";
  return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

bool JsonObject::read(std::string_view key, bool& value) const {
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_bool()) node_->wrong_type(key, "true or false", *found);
  value = found->get_bool();
  return true;
}

bool JsonObject::read(std::string_view key, std::int64_t& value) const {
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_int64()) node_->wrong_type(key, "an integer", *found);
  value = found->get_int64();
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
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_number()) node_->wrong_type(key, "a number", *found);
  value = found->to_number<double>();
  return true;
}

bool JsonObject::read(std::string_view key, std::string& value) const {
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_string()) node_->wrong_type(key, "a string", *found);
  value = std::string(found->get_string());
  return true;
}

bool JsonObject::read(std::string_view key, std::vector<std::string>& value) const {
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  const json::array items = found->is_string()  ? json::array{*found}
                            : found->is_array() ? found->get_array()
                                                : json::array{{}};
  if (!std::all_of(items.begin(), items.end(), [](const json::value& item) { return item.is_string(); }))
    node_->wrong_type(key, "a list of strings", *found);
  value.clear();
  for (const json::value& item : items) value.emplace_back(item.get_string());
  return true;
}

bool JsonObject::read(std::string_view key, std::vector<std::int64_t>& value) const {
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  const json::array items = found->is_int64()   ? json::array{*found}
                            : found->is_array() ? found->get_array()
                                                : json::array{{}};
  if (!std::all_of(items.begin(), items.end(), [](const json::value& item) { return item.is_int64(); }))
    node_->wrong_type(key, "a list of integers", *found);
  value.clear();
  for (const json::value& item : items) value.push_back(item.get_int64());
  return true;
}

bool JsonObject::read(std::string_view key, std::vector<std::vector<std::int64_t>>& value) const {
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  const auto require_list = [&](const json::value& list) {
    if (!list.is_array()) node_->wrong_type(key, "a list of lists of integers", *found);
  };
  require_list(*found);
  value.clear();
  for (const json::value& list : found->get_array()) {
    require_list(list);
    std::vector<std::int64_t>& out = value.emplace_back();
    for (const json::value& item : list.get_array()) {
      if (!item.is_int64()) node_->wrong_type(key, "a list of lists of integers", *found);
      out.push_back(item.get_int64());
    }
  }
  return true;
}

bool JsonObject::read(std::string_view key, JsonObject& value) const {
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_object()) node_->wrong_type(key, "an object", *found);
  value = JsonObject(fmt::format("{}: {}", origin(), key));
  value.node_->members = found->get_object();
  return true;
}

bool JsonObject::read(std::string_view key, std::vector<JsonObject>& value) const {
  const json::value* found = node_->find(key);
  if (found == nullptr) return false;
  if (!found->is_array()) node_->wrong_type(key, "a list of objects", *found);
  value.clear();
  for (const json::value& item : found->get_array()) {
    if (!item.is_object()) node_->wrong_type(key, "a list of objects", *found);
    value.emplace_back(fmt::format("{}: {}", origin(), key));
    value.back().node_->members = item.get_object();
  }
  return true;
}

void JsonObject::set(std::string_view key, bool value) { node_->members[key] = value; }
void JsonObject::set(std::string_view key, std::int64_t value) { node_->members[key] = value; }
void JsonObject::set(std::string_view key, double value) { node_->members[key] = value; }
void JsonObject::set(std::string_view key, const std::string& value) { node_->members[key] = value; }
void JsonObject::set(std::string_view key, const std::vector<std::string>& value) {
  node_->members[key] = json::array(value.begin(), value.end());
}
void JsonObject::set(std::string_view key, const std::vector<std::int64_t>& value) {
  node_->members[key] = json::array(value.begin(), value.end());
}
void JsonObject::set(std::string_view key, const JsonObject& value) { node_->members[key] = value.node_->members; }
void JsonObject::set(std::string_view key, const std::vector<JsonObject>& value) {
  json::array list;
  for (const auto& item : value) list.emplace_back(item.node_->members);
  node_->members[key] = std::move(list);
}
void JsonObject::set_null(std::string_view key) { node_->members[key] = nullptr; }

void JsonObject::set_from(std::string_view key, const JsonObject& other) {
  const json::value* value = other.node_->find(key);
  require(value != nullptr, "{}: {} is missing", other.origin(), key);
  node_->members[key] = *value;
}

void JsonObject::require_known(const std::vector<std::string>& known) const {
  for (const auto& key : keys()) {
    const bool is_known = std::find(known.begin(), known.end(), key) != known.end();
    require(is_known, "{}: unknown key \"{}\"{}", origin(), key, [&] { return suggest_name(key, known); });
  }
}

std::string JsonObject::str() const {
  std::string out;
  write(node_->members, 0, out);
  return out + "\n";
}

void JsonObject::save(const std::string& path) const { write_file(path, str()); }

}  // namespace tessera
