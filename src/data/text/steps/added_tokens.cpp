// SPDX-License-Identifier: Apache-2.0
#include "added_tokens.h"

#include <algorithm>
#include <utility>

#include "utf8.h"

namespace tessera::data {

void AddedTokens::add(AddedToken token) {
  if (token.content.empty()) return;
  if (token.takes_space_before || token.takes_space_after) keeps_space_ = false;
  auto& list = by_first_byte_[static_cast<unsigned char>(token.content.front())];
  const auto place = std::find_if(list.begin(), list.end(),
                                  [&](const AddedToken& other) { return other.content.size() < token.content.size(); });
  list.insert(place, std::move(token));
  ++count_;
}

const AddedToken* AddedTokens::at_start(std::string_view text) const {
  for (const AddedToken& token : by_first_byte_[static_cast<unsigned char>(text.front())])
    if (text.starts_with(token.content)) return &token;
  return nullptr;
}

void AddedTokens::split(std::string_view text, const std::function<void(std::string_view)>& take,
                        const std::function<void(std::int32_t)>& found) const {
  std::size_t start = 0;  // of the text since the last token
  std::size_t place = 0;
  while (!empty() && place < text.size()) {
    const AddedToken* token = at_start(text.substr(place));
    if (token == nullptr) {
      ++place;
      continue;
    }
    std::string_view before = text.substr(start, place - start);
    if (token->takes_space_before) before.remove_suffix(white_space_at_end(before));
    if (!before.empty()) take(before);
    found(token->id);
    place += token->content.size();
    start = place;
    if (token->takes_space_after) start = place += white_space_at_start(text.substr(place));
  }
  if (start < text.size()) take(text.substr(start));
}

}  // namespace tessera::data
