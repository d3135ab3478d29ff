// SPDX-License-Identifier: Apache-2.0
// Members of the objects in a tokenizer.json. A member that is null counts as absent.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace tessera::data {

/// The member; null if there is none.
const boost::json::value* given_member(const boost::json::value& object, std::string_view key);
/// True if the member is this text.
bool has_text(const boost::json::value& object, std::string_view key, std::string_view text);
/// The text of the member; "" if there is none. Error, which begins with `place`, if it is no string.
std::string text_member(const boost::json::value& object, std::string_view key, const std::string& place);
/// True or false; `absent` if there is none. Error if it is neither.
bool flag_member(const boost::json::value& object, std::string_view key, bool absent, const std::string& place);
/// The list. Error if there is none.
const boost::json::array& list_member(const boost::json::value& object, std::string_view key, const std::string& place);
/// The id; -1 if the value is none.
std::int32_t token_id(const boost::json::value* value);

}  // namespace tessera::data
