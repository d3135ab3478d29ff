// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/bpe_tokenizer.h"

#include <functional>
#include <queue>
#include <tuple>

#include "bpe_vocabulary.h"
#include "byte_spelling.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/data/split_pattern.h"

namespace tessera::data {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

// The symbols of a piece while they are merged: a doubly linked list in a vector.
struct Symbol {
  std::int32_t id = 0;  // -1: merged into the previous symbol
  int previous = -1;
  int next = -1;
};

// (rank, position, left id, right id). The queue returns the lowest rank first, then the leftmost position.
using Candidate = std::tuple<std::int32_t, int, std::int32_t, std::int32_t>;
using CandidateQueue = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

}  // namespace

BpeTokenizer BpeTokenizer::build(const Vocabulary& vocabulary, std::string name) {
  BpeTokenizer out(std::move(name));
  const auto count = vocabulary.id_of.size();
  out.bytes_of_id_.resize(count);
  std::vector<bool> seen(count, false);
  for (const auto& [token, id] : vocabulary.id_of) {
    require(
        id < isize(out.bytes_of_id_), "{}: token {} has id {}, but there are {} tokens: ids must be 0..{}", out.name_,
        [&] { return quote(token); }, id, count, count - 1);
    require(!at(seen, id), "{}: two tokens have id {}", out.name_, id);
    at(seen, id) = true;
    at(out.bytes_of_id_, id) = unspell_bytes(token);
  }
  const auto id_of = [&](const std::string& token) {
    const auto it = vocabulary.id_of.find(token);
    require(it != vocabulary.id_of.end(), "{}: a merge names {}, which is not a token", out.name_,
            [&] { return quote(token); });
    return it->second;
  };
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    at(out.id_of_byte_, byte) = id_of(spell_bytes({&c, 1}));
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

void BpeTokenizer::encode_piece(std::string_view piece, std::vector<std::int32_t>& out) const {
  std::vector<Symbol> symbols(piece.size());
  for (int i = 0; i < isize(symbols); ++i)
    at(symbols, i) = {at(id_of_byte_, static_cast<unsigned char>(at(piece, i))), i - 1, i + 1};
  symbols.back().next = -1;

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
  for (int i = 0; i >= 0; i = at(symbols, i).next) out.push_back(at(symbols, i).id);
}

void BpeTokenizer::encode_document(std::string_view text, std::vector<std::int32_t>& out) const {
  // A piece that occurred before is copied from its first encoding.
  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> known;
  split_like_gpt2(text, [&](std::string_view piece) {
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

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> out;
  while (end_of_text_) {
    const auto mark = text.find(kEndOfText);
    if (mark == std::string_view::npos) break;
    encode_document(text.substr(0, mark), out);
    out.push_back(*end_of_text_);
    text.remove_prefix(mark + kEndOfText.size());
  }
  encode_document(text, out);
  return out;
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < vocab_size(), "{}: id {} is not in 0..{}", name_, id, vocab_size() - 1);
    out += at(bytes_of_id_, id);
  }
  return out;
}

std::string BpeTokenizer::merges_text() const {
  std::string out = "#version: 0.2\n";
  for (const auto& [left, right] : order_)
    out += spell_bytes(at(bytes_of_id_, left)) + ' ' + spell_bytes(at(bytes_of_id_, right)) + '\n';
  return out;
}

std::string BpeTokenizer::vocabulary() const {
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
