// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/bpe_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <queue>
#include <tuple>

#include "bpe_vocabulary.h"
#include "byte_spelling.h"
#include "steps/utf8.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

// (rank, position, left id, right id). The queue returns the lowest rank first, then the leftmost position.
using Candidate = std::tuple<std::int32_t, int, std::int32_t, std::int32_t>;
using CandidateQueue = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

// Returns the byte of a token <0xNN>, or -1.
int byte_of_token(std::string_view token) {
  constexpr std::string_view kForm = "<0xNN>";
  if (token.size() != kForm.size() || !token.starts_with("<0x") || token.back() != '>') return -1;
  unsigned value = 0;
  const char* first = token.data() + 3;
  const auto [end, error] = std::from_chars(first, first + 2, value, 16);
  return error == std::errc() && end == first + 2 ? static_cast<int>(value) : -1;
}

std::string with_blanks(std::string_view token) {
  std::string out;
  while (!token.empty()) {
    const bool is_mark = token.starts_with(kBlankMark);
    out += is_mark ? ' ' : token.front();
    token.remove_prefix(is_mark ? kBlankMark.size() : 1);
  }
  return out;
}

// Whether merges never join a character with a mark after it, so that words can be merged separately.
bool merges_within_words(const std::unordered_map<std::string, std::int32_t>& tokens) {
  return tokens.contains(std::string(kBlankMark)) && std::all_of(tokens.begin(), tokens.end(), [](const auto& entry) {
           const std::string_view token = entry.first;
           std::size_t start = 0;
           while (token.substr(start).starts_with(kBlankMark)) start += kBlankMark.size();
           return token.find(kBlankMark, start) == std::string_view::npos;
         });
}

}  // namespace

// The symbols of a piece while they are merged: a doubly linked list in a vector.
struct BpeTokenizer::Symbol {
  std::int32_t id = 0;  // -1: merged into the previous symbol
  int previous = -1;
  int next = -1;
};

// A text between added tokens.
struct BpeTokenizer::Section {
  std::string_view text;
  bool is_first = false;  // nothing is before it in the text
  TextPlace place = TextPlace::kBegin;
};

// ---- tables -------------------------------------------------------------------------------------------------------------

BpeTokenizer BpeTokenizer::build(const Vocabulary& vocabulary, std::string name) {
  BpeTokenizer out(std::move(name));
  out.set_rules(vocabulary);
  out.set_tokens(vocabulary);
  const auto id_of = [&](const std::string& token) {
    const auto it = vocabulary.id_of.find(token);
    require(it != vocabulary.id_of.end(), "{}: a merge names {}, which is not a token", out.name_,
            [&] { return quote(token); });
    return it->second;
  };
  const bool is_byte_level = out.rules_->pre_tokenizer.is_byte_level();
  out.id_of_byte_.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (is_byte_level) at(out.id_of_byte_, byte) = id_of(spell_bytes({&c, 1}));
    if (!is_byte_level && out.rules_->has_byte_tokens)
      at(out.id_of_byte_, byte) = id_of(fmt::format("<0x{:02X}>", byte));
  }
  for (const auto& [left, right] : vocabulary.merges) {
    const Merge merge{static_cast<std::int32_t>(out.order_.size()), id_of(left + right)};
    const auto pair = std::make_pair(id_of(left), id_of(right));
    out.merges_.emplace(pair_key(pair.first, pair.second), merge);  // a repeated pair keeps its first rank
    out.order_.push_back(pair);
  }
  out.end_of_text_ = vocabulary.end_of_text;
  return out;
}

void BpeTokenizer::set_rules(const Vocabulary& vocabulary) {
  auto rules = std::make_shared<Rules>(vocabulary.rules);
  const bool is_byte_level = rules->pre_tokenizer.is_byte_level();
  for (const auto& [token, id] : vocabulary.id_of)
    if ((rules->ignores_merges || !is_byte_level) && !vocabulary.outside.contains(id))
      id_of_piece_.emplace(is_byte_level ? unspell_bytes(token) : token, id);
  if (!is_byte_level && rules->pre_tokenizer.takes_all() && !rules->ignores_merges &&
      merges_within_words(id_of_piece_)) {
    const std::string mark(kBlankMark);
    rules->pre_tokenizer.add(SplitPattern(mark + "*+[^" + mark + "]++|" + mark + "++"));
  }
  rules_ = std::move(rules);
}

void BpeTokenizer::set_tokens(const Vocabulary& vocabulary) {
  const auto count = vocabulary.id_of.size();
  bytes_of_id_.resize(count);
  std::vector<bool> seen(count, false);
  const auto check_id = [&](const std::string& token, std::int32_t id) {
    require(
        id < isize(bytes_of_id_), "{}: token {} has id {}, but there are {} tokens: ids must be 0..{}", name_,
        [&] { return quote(token); }, id, count, count - 1);
  };
  for (const auto& [token, id] : vocabulary.id_of) {
    check_id(token, id);
    require(!at(seen, id), "{}: two tokens have id {}", name_, id);
    at(seen, id) = true;
    at(bytes_of_id_, id) = vocabulary.outside.contains(id) ? token : text_of(token);
    const bool is_clear =
        !rules_->pre_tokenizer.is_byte_level() || !vocabulary.added.contains(id) || at(bytes_of_id_, id) == token;
    require(is_clear, "{}: added token {} is also the spelling of other bytes in the vocabulary", name_,
            [&, one = token] { return quote(one); });
  }
  for (const auto* ids : {&rules_->prefix, &rules_->suffix})
    for (const std::int32_t id : *ids) check_id("of post_processor", id);
}

std::string BpeTokenizer::text_of(const std::string& token) const {
  if (rules_->pre_tokenizer.is_byte_level()) return unspell_bytes(token);
  const int byte = rules_->has_byte_tokens ? byte_of_token(token) : -1;
  return byte >= 0 ? std::string(1, static_cast<char>(byte)) : with_blanks(token);
}

// ---- encoding -----------------------------------------------------------------------------------------------------------

// Merges pairs of neighbours in the order of training.
void BpeTokenizer::merge(std::vector<Symbol>& symbols) const {
  CandidateQueue queue;
  const auto propose = [&](int left) {
    const int right = left < 0 ? -1 : at(symbols, left).next;
    if (right < 0) return;
    const std::int32_t a = at(symbols, left).id;
    const std::int32_t b = at(symbols, right).id;
    const auto it = merges_.find(pair_key(a, b));
    if (it != merges_.end()) queue.emplace(it->second.rank, left, a, b);
  };
  for (int i = 0; i + 1 < isize(symbols); ++i) propose(i);

  while (!queue.empty()) {
    const auto [rank, left, a, b] = queue.top();
    queue.pop();
    Symbol& first = at(symbols, left);
    // One of the two was merged in the meantime.
    if (first.id != a || first.next < 0 || at(symbols, first.next).id != b) continue;
    Symbol& second = at(symbols, first.next);
    first.id = merges_.at(pair_key(a, b)).id;
    first.next = second.next;
    second.id = -1;
    if (first.next >= 0) at(symbols, first.next).previous = left;
    propose(first.previous);
    propose(left);
  }
}

void BpeTokenizer::append_character(std::string_view character, std::vector<std::int32_t>& out) const {
  if (const auto it = id_of_piece_.find(std::string(character)); it != id_of_piece_.end()) {
    out.push_back(it->second);
  } else if (rules_->has_byte_tokens) {
    for (const char c : character) out.push_back(at(id_of_byte_, static_cast<unsigned char>(c)));
  } else if (!rules_->fuses_unknown || out.empty() || out.back() != *rules_->unknown) {
    out.push_back(*rules_->unknown);
  }
}

// The tokens of the bytes, or of the characters, of a piece.
std::vector<std::int32_t> BpeTokenizer::first_ids(std::string_view piece) const {
  std::vector<std::int32_t> out;
  out.reserve(piece.size());
  if (rules_->pre_tokenizer.is_byte_level()) {
    for (const char c : piece) out.push_back(at(id_of_byte_, static_cast<unsigned char>(c)));
    return out;
  }
  while (!piece.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_length(piece), 1);
    append_character(piece.substr(0, length), out);
    piece.remove_prefix(length);
  }
  return out;
}

void BpeTokenizer::encode_piece(std::string_view piece, std::vector<std::int32_t>& out) const {
  if (rules_->ignores_merges)
    if (const auto it = id_of_piece_.find(std::string(piece)); it != id_of_piece_.end())
      return out.push_back(it->second);
  const std::vector<std::int32_t> ids = first_ids(piece);
  std::vector<Symbol> symbols(ids.size());
  for (int i = 0; i < isize(symbols); ++i) at(symbols, i) = {at(ids, i), i - 1, i + 1};
  symbols.back().next = -1;
  merge(symbols);
  for (int i = 0; i >= 0; i = at(symbols, i).next) out.push_back(at(symbols, i).id);
}

void BpeTokenizer::encode_pieces(std::string_view text, std::vector<std::int32_t>& out) const {
  // A piece that occurred before is copied from its first encoding.
  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> known;
  rules_->pre_tokenizer.split(text, [&](std::string_view piece) {
    const auto it = known.find(piece);
    if (it != known.end()) {
      for (std::size_t i = 0; i < it->second.second; ++i) out.push_back(out[it->second.first + i]);
      return;
    }
    const std::size_t start = out.size();
    encode_piece(piece, out);
    known.emplace(piece, std::make_pair(start, out.size() - start));
  });
}

void BpeTokenizer::encode_section(const Section& section, std::vector<std::int32_t>& out) const {
  std::string normalized;
  std::string_view text = section.text;
  if (!rules_->normalizer.changes_nothing()) text = normalized = rules_->normalizer.apply(text, section.place);
  bool is_first = section.is_first;
  TextPlace place = section.place;
  const auto begin_next = [&] {
    is_first = false;
    place = TextPlace::kBegin;
  };
  rules_->normalized_tokens.split(
      text,
      [&](std::string_view part) {
        const PreTokenizer& pre_tokenizer = rules_->pre_tokenizer;
        if (pre_tokenizer.changes_text()) {
          encode_pieces(pre_tokenizer.changed(part, is_first, place), out);
        } else {
          encode_pieces(part, out);
        }
        begin_next();
      },
      [&](std::int32_t id) {
        out.push_back(id);
        begin_next();
      });
}

std::vector<std::int32_t> BpeTokenizer::encode_from(std::string_view text, bool begins_document) const {
  std::vector<std::int32_t> out;
  Section section{{}, begins_document, begins_document ? TextPlace::kBegin : TextPlace::kInside};
  const auto begin_next = [&] { section = {{}, false, TextPlace::kBegin}; };
  rules_->raw_tokens.split(
      text,
      [&](std::string_view part) {
        section.text = part;
        encode_section(section, out);
        begin_next();
      },
      [&](std::int32_t id) {
        out.push_back(id);
        begin_next();
      });
  return out;
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const { return encode_from(text, true); }
std::vector<std::int32_t> BpeTokenizer::encode_continued(std::string_view text) const {
  return encode_from(text, false);
}
std::vector<std::int32_t> BpeTokenizer::document_prefix() const { return rules_->prefix; }
std::vector<std::int32_t> BpeTokenizer::document_suffix() const { return rules_->suffix; }
const std::string& BpeTokenizer::fingerprint() const { return rules_->fingerprint; }

bool BpeTokenizer::keeps_text() const {
  return rules_->pre_tokenizer.is_byte_level() && rules_->pre_tokenizer.keeps_text() &&
         rules_->normalizer.changes_nothing() && rules_->raw_tokens.keeps_space() &&
         rules_->normalized_tokens.keeps_space();
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < vocab_size(), "{}: id {} is not in 0..{}", name_, id, vocab_size() - 1);
    out += at(bytes_of_id_, id);
  }
  const bool has_blank = rules_->normalizer.prepends() || rules_->pre_tokenizer.prepends();
  if (has_blank && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::string BpeTokenizer::merges_text() const {
  std::string out = "#version: 0.2\n";
  for (const auto& [left, right] : order_)
    out += spell_bytes(at(bytes_of_id_, left)) + ' ' + spell_bytes(at(bytes_of_id_, right)) + '\n';
  return out;
}

std::string BpeTokenizer::vocabulary() const {
  if (!rules_->fingerprint.empty()) return {};
  std::string out = merges_text();
  try {
    const BpeTokenizer again = from_merges(out, name_);
    const bool is_equal = again.bytes_of_id_ == bytes_of_id_ && again.order_ == order_ &&
                          again.id_of_byte_ == id_of_byte_ && again.end_of_text_ == end_of_text_;
    return is_equal ? out : std::string();
  } catch (const Error&) {  // a vocabulary whose ids are not in GPT-2's order
    return {};
  }
}

}  // namespace tessera::data
