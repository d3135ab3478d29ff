// SPDX-License-Identifier: Apache-2.0
// Boost.JSON with errors that name the text and the position in it.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace tessera {

/// Reads a JSON text. Objects keep the order of their keys. Doubles are read exactly (Boost.JSON 1.81 alone may be
/// wrong by one unit in the last place). Error, with `origin`, line, column and reason, if the text is not JSON or
/// nests lists and objects deeper than 200.
boost::json::value parse_json(std::string_view text, std::string_view origin);
/// The same for one line of a file. `place` names the file and the line, so errors add only the column. A lone
/// surrogate, such as `"\ud800"`, which Python's json.dumps writes, is read as U+FFFD; the first one of a rank is named
/// in a warning.
boost::json::value parse_line_of_json(std::string_view line, std::string_view place);
/// As parse_json(), but if an object has two members with one name, there is an Error instead of the last member.
boost::json::value parse_json_with_unique_keys(std::string_view text, std::string_view origin);

/// The member `key`; null if `object` is not an object or has no such member.
const boost::json::value* find_member(const boost::json::value& object, std::string_view key);

/// Returns the text as a JSON string with its quotation marks. Control characters, and bytes that are not UTF-8, become
/// `?`.
std::string json_quoted(std::string_view text);

/// Returns the value as text without blanks, truncated to about 40 characters. For error messages.
std::string excerpt(const boost::json::value& value);

}  // namespace tessera
