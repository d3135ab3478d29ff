// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/wordpiece_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "basic_tokenizer.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

constexpr std::string_view kContinues = "##";

// Shortens two texts so that both have at most `room` tokens: the longer one first, to equal lengths if that is not enough.
// The second text keeps one more if the room is odd and both are long.
void truncate_pair(std::vector<std::int32_t>& first, std::vector<std::int32_t>& second, std::int64_t room) {
  const auto a = static_cast<std::int64_t>(first.size());
  const auto b = static_cast<std::int64_t>(second.size());
  if (a + b <= room) return;
  const std::int64_t half = room / 2;
  const std::int64_t rest = room - half;
  std::int64_t keep_first = 0;
  if (a <= b) {
    keep_first = a <= half ? a : half;
  } else {
    keep_first = b <= half ? room - b : rest;
  }
  first.resize(static_cast<std::size_t>(keep_first));
  second.resize(static_cast<std::size_t>(room - keep_first));
}

std::int64_t room_for(const EncodeOptions& options, std::int64_t special_tokens) {
  require(options.max_length == 0 || options.max_length >= special_tokens,
          "max_length {} leaves no room for {} special tokens", options.max_length, special_tokens);
  return options.max_length - special_tokens;
}

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(std::vector<std::string> pieces, std::string name, WordPieceOptions options)
    : pieces_(std::move(pieces)), name_(std::move(name)), options_(std::move(options)) {
  require(!pieces_.empty(), "{}: has no pieces", name_);
  for (std::size_t i = 0; i < pieces_.size(); ++i) ids_.insert_or_assign(pieces_[i], static_cast<std::int32_t>(i));
  const std::array<std::pair<std::int32_t*, const std::string*>, 5> special = {{{&unk_id_, &options_.unk_token},
                                                                                {&cls_id_, &options_.cls_token},
                                                                                {&sep_id_, &options_.sep_token},
                                                                                {&pad_id_, &options_.pad_token},
                                                                                {&mask_id_, &options_.mask_token}}};
  for (const auto& [id, token] : special) {
    const auto found = id_of(*token);
    require(found.has_value(), "{}: the special token \"{}\" is missing; a vocabulary of WordPiece contains it", name_,
            *token);
    *id = *found;
  }
}

std::optional<std::int32_t> WordPieceTokenizer::id_of(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string& WordPieceTokenizer::piece(std::int32_t id) const {
  require(id >= 0 && id < vocab_size(), "{}: id {} is not in 0..{}", name_, id, vocab_size() - 1);
  return pieces_[static_cast<std::size_t>(id)];
}

std::string WordPieceTokenizer::vocab_text() const {
  std::string out;
  for (const std::string& piece : pieces_) out += piece + "\n";
  return out;
}

// ---- text to ids --------------------------------------------------------------------------------------------------------

// Takes the longest piece of the vocabulary again and again.
void WordPieceTokenizer::encode_word(const std::string& word, std::vector<std::int32_t>& out) const {
  const std::size_t before = out.size();
  const bool fits = static_cast<std::int64_t>(count_characters(word)) <= options_.max_word_characters;
  std::size_t start = 0;
  std::string piece;
  while (fits && start < word.size()) {
    std::size_t limit = word.size();
    std::optional<std::int32_t> id;
    for (; limit > start; --limit) {
      piece = start == 0 ? "" : kContinues;
      piece.append(word, start, limit - start);
      id = id_of(piece);
      if (id) break;
    }
    if (!id) break;
    out.push_back(*id);
    start = limit;
  }
  if (start == word.size()) return;
  out.resize(before);
  out.push_back(unk_id_);
}

void WordPieceTokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& out) const {
  const BasicTokenizerOptions basic{.lower_case = options_.lower_case,
                                    .strip_accents = options_.strip_accents.value_or(options_.lower_case),
                                    .handle_chinese_chars = options_.handle_chinese_chars};
  for (const std::string& word : basic_words(text, basic)) encode_word(word, out);
}

std::vector<std::int32_t> WordPieceTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> out;
  std::size_t begin = 0;  // of what is not encoded yet
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::int32_t special = -1;
    for (const std::int32_t id : special_ids())
      if (text.substr(i).starts_with(piece(id)) && (special < 0 || piece(id).size() > piece(special).size()))
        special = id;
    if (special < 0 || piece(special).empty()) continue;
    encode_plain(text.substr(begin, i - begin), out);
    out.push_back(special);
    begin = i + piece(special).size();
    i = begin - 1;
  }
  encode_plain(text.substr(begin), out);
  return out;
}

TokenizedText WordPieceTokenizer::encode_text(std::string_view text, const EncodeOptions& options) const {
  std::vector<std::int32_t> ids = encode(text);
  if (const std::int64_t room = room_for(options, 2); options.max_length > 0 && isize(ids) > room)
    ids.resize(static_cast<std::size_t>(room));
  TokenizedText out;
  out.input_ids.push_back(cls_id_);
  out.input_ids.insert(out.input_ids.end(), ids.begin(), ids.end());
  out.input_ids.push_back(sep_id_);
  out.token_type_ids.assign(out.input_ids.size(), 0);
  return out;
}

TokenizedText WordPieceTokenizer::encode_pair(std::string_view first, std::string_view second,
                                              const EncodeOptions& options) const {
  std::vector<std::int32_t> a = encode(first);
  std::vector<std::int32_t> b = encode(second);
  if (const std::int64_t room = room_for(options, 3); options.max_length > 0) truncate_pair(a, b, room);
  TokenizedText out;
  out.input_ids.push_back(cls_id_);
  out.input_ids.insert(out.input_ids.end(), a.begin(), a.end());
  out.input_ids.push_back(sep_id_);
  out.token_type_ids.assign(out.input_ids.size(), 0);
  out.input_ids.insert(out.input_ids.end(), b.begin(), b.end());
  out.input_ids.push_back(sep_id_);
  out.token_type_ids.resize(out.input_ids.size(), 1);
  return out;
}

std::string WordPieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) {
    const std::string& text = piece(id);
    const bool continues = text.starts_with(kContinues) && !out.empty();
    if (!out.empty() && !continues) out += ' ';
    out += continues ? text.substr(kContinues.size()) : text;
  }
  return out;
}

}  // namespace tessera::data
