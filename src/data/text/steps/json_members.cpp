// SPDX-License-Identifier: Apache-2.0
#include "json_members.h"

#include "tessera/base/error.h"
#include "tessera/base/json.h"

namespace tessera::data {
namespace {

constexpr std::int64_t kMostIds = 1 << 26;  // a larger vocabulary is a mistake in the file

}  // namespace

const boost::json::value* given_member(const boost::json::value& object, std::string_view key) {
  const boost::json::value* found = find_member(object, key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool has_text(const boost::json::value& object, std::string_view key, std::string_view text) {
  const boost::json::value* found = find_member(object, key);
  return found != nullptr && found->is_string() && std::string_view(found->get_string()) == text;
}

std::string text_member(const boost::json::value& object, std::string_view key, const std::string& place) {
  const boost::json::value* found = given_member(object, key);
  if (found == nullptr) return "";
  require(found->is_string(), "{}: {} must be a string, got {}", place, key, [&] { return excerpt(*found); });
  return std::string(found->get_string());
}

bool flag_member(const boost::json::value& object, std::string_view key, bool absent, const std::string& place) {
  const boost::json::value* found = given_member(object, key);
  if (found == nullptr) return absent;
  require(found->is_bool(), "{}: {} must be true or false, got {}", place, key, [&] { return excerpt(*found); });
  return found->get_bool();
}

const boost::json::array& list_member(const boost::json::value& object, std::string_view key,
                                      const std::string& place) {
  const boost::json::value* found = given_member(object, key);
  require(found != nullptr && found->is_array(), "{}: {} must be a list", place, key);
  return found->get_array();
}

std::int32_t token_id(const boost::json::value* value) {
  const bool is_id = value != nullptr && value->is_int64() && value->get_int64() >= 0 && value->get_int64() < kMostIds;
  return is_id ? static_cast<std::int32_t>(value->get_int64()) : -1;
}

}  // namespace tessera::data
