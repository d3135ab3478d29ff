// SPDX-License-Identifier: Apache-2.0
// Training of a byte-level BPE. Each merge updates the pair counts, so that they are not counted again.
#include <algorithm>
#include <array>
#include <queue>
#include <unordered_set>

#include "bpe_vocabulary.h"
#include "byte_spelling.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/data/split_pattern.h"

namespace tessera::data {
namespace {

using Ids = std::pair<std::int32_t, std::int32_t>;

struct HashIds {
  std::size_t operator()(const Ids& ids) const {
    return hash_mix(static_cast<std::size_t>(ids.first), static_cast<std::size_t>(ids.second));
  }
};

// A distinct piece of the text, with its number of occurrences.
struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count = 0;
};

struct PairUse {
  std::int64_t count = 0;
  std::vector<std::int32_t> words;  // every word that contains the pair, and some that no longer do
};

struct Entry {
  std::int64_t count = 0;
  Ids pair;
  // The top of the heap is the most frequent pair. Among equally frequent pairs it is the one with the smallest ids.
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

class Trainer {
 public:
  explicit Trainer(std::string_view text) {
    std::array<std::int32_t, 256> id_of_byte{};
    for (int i = 0; i < 256; ++i) at(id_of_byte, at(gpt2_byte_order(), i)) = i;
    std::unordered_map<std::string_view, std::int64_t> pieces;
    while (!text.empty()) {  // by document: the mark between documents is not text
      const auto mark = text.find(kEndOfText);
      split_like_gpt2(text.substr(0, mark), [&](std::string_view piece) { ++pieces[piece]; });
      text.remove_prefix(mark == std::string_view::npos ? text.size() : mark + kEndOfText.size());
    }
    // Sort the pieces, so that the result does not depend on the order of a hash table.
    std::vector<std::pair<std::string_view, std::int64_t>> sorted(pieces.begin(), pieces.end());
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [piece, count] : sorted) {
      Word word{.ids = {}, .count = count};
      for (const char c : piece) word.ids.push_back(at(id_of_byte, static_cast<unsigned char>(c)));
      words_.push_back(std::move(word));
    }
    for (int w = 0; w < isize(words_); ++w) {
      const Word& word = at(words_, w);
      for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) add({word.ids[i], word.ids[i + 1]}, word.count, w);
    }
    for (const auto& [pair, use] : uses_) queue_.push({use.count, pair});
  }

  // Returns the pair to merge next, or nothing if no pair occurs twice.
  std::optional<Ids> most_frequent() {
    while (!queue_.empty()) {
      const Entry top = queue_.top();
      queue_.pop();
      const auto it = uses_.find(top.pair);
      const std::int64_t count = it == uses_.end() ? 0 : it->second.count;
      if (count == top.count && count >= 2) return top.pair;
      if (count >= 2) queue_.push({count, top.pair});  // its count has decreased since it was queued
    }
    return std::nullopt;
  }

  void merge(Ids pair, std::int32_t id) {
    const std::vector<std::int32_t> holders = std::move(uses_[pair].words);
    for (const std::int32_t w : holders) merge_in_word(w, pair, id);
    uses_.erase(pair);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const Ids& grown : grown_)
      if (const auto it = uses_.find(grown); it != uses_.end()) queue_.push({it->second.count, grown});
    grown_.clear();
  }

 private:
  void add(Ids pair, std::int64_t count, std::int32_t w) {
    PairUse& use = uses_[pair];
    use.count += count;
    if (use.words.empty() || use.words.back() != w) use.words.push_back(w);
  }
  void remove(Ids pair, std::int64_t count) { uses_[pair].count -= count; }

  void merge_in_word(std::int32_t w, Ids pair, std::int32_t id) {
    Word& word = at(words_, w);
    std::vector<std::int32_t> merged;
    merged.reserve(word.ids.size());
    for (std::size_t i = 0; i < word.ids.size(); ++i) {
      if (i + 1 == word.ids.size() || Ids(word.ids[i], word.ids[i + 1]) != pair) {
        merged.push_back(word.ids[i]);
        continue;
      }
      remove(pair, word.count);
      if (!merged.empty()) {
        remove({merged.back(), pair.first}, word.count);
        grow({merged.back(), id}, word.count, w);
      }
      if (i + 2 < word.ids.size()) {
        remove({pair.second, word.ids[i + 2]}, word.count);
        grow({id, word.ids[i + 2]}, word.count, w);
      }
      merged.push_back(id);
      ++i;
    }
    word.ids = std::move(merged);
  }
  void grow(Ids pair, std::int64_t count, std::int32_t w) {
    add(pair, count, w);
    grown_.push_back(pair);
  }

  std::vector<Word> words_;
  std::unordered_map<Ids, PairUse, HashIds> uses_;
  std::priority_queue<Entry> queue_;
  std::vector<Ids> grown_;
};

}  // namespace

BpeTokenizer BpeTokenizer::train(std::string_view text, int vocab_size) {
  require(vocab_size >= 257, "bpe:{}: a byte-level vocabulary has at least 257 ids (256 bytes and the end of text)",
          vocab_size);
  Vocabulary vocabulary = Vocabulary::of_bytes();
  std::vector<std::string> tokens(256);
  for (const auto& [token, id] : vocabulary.id_of) at(tokens, id) = token;
  Trainer trainer(text);
  std::unordered_set<Ids, HashIds> merged;
  while (isize(tokens) + 1 < vocab_size) {
    const auto pair = trainer.most_frequent();
    if (!pair) break;
    const std::string left = at(tokens, pair->first);
    const std::string right = at(tokens, pair->second);
    // "a"+"bc" and "ab"+"c" are the same token: the second merge creates no new id, and may restore an earlier pair.
    const auto [it, is_new] = vocabulary.id_of.emplace(left + right, static_cast<std::int32_t>(tokens.size()));
    if (is_new) tokens.push_back(left + right);
    if (merged.insert(*pair).second) vocabulary.merges.emplace_back(left, right);
    trainer.merge(*pair, it->second);
  }
  vocabulary.end_of_text = static_cast<std::int32_t>(tokens.size());
  vocabulary.add({std::string(kEndOfText), *vocabulary.end_of_text}, vocabulary.rules.raw_tokens);
  return build(vocabulary, fmt::format("bpe:{}", vocab_size));
}

}  // namespace tessera::data
