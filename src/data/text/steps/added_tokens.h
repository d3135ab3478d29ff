// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in a text before it is divided, such as <|endoftext|>.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool takes_space_before = false;  // lstrip
  bool takes_space_after = false;   // rstrip
};

/// Finds the leftmost token, and of several at one place the longest.
class AddedTokens {
 public:
  void add(AddedToken token);
  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// Whether a text between tokens keeps its white space.
  [[nodiscard]] bool keeps_space() const { return keeps_space_; }

  /// Calls `take` for each text between tokens that is not empty, and `found` for each token, in order.
  void split(std::string_view text, const std::function<void(std::string_view)>& take,
             const std::function<void(std::int32_t)>& found) const;

 private:
  // The token at the start of the text; null if there is none.
  [[nodiscard]] const AddedToken* at_start(std::string_view text) const;

  std::array<std::vector<AddedToken>, 256> by_first_byte_;  // the longest first
  int count_ = 0;
  bool keeps_space_ = true;
};

}  // namespace tessera::data
