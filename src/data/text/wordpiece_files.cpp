// SPDX-License-Identifier: Apache-2.0
// Reads the vocabulary of WordPiece: vocab.txt with tokenizer_config.json, or tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/data/wordpiece_tokenizer.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

// A special token is a string, or an object with its content.
void read_token(const JsonObject& json, const char* key, std::string& token) {
  if (!json.has(key) || json.is_null(key)) return;
  JsonObject entry;
  try {
    json.read(key, token);
  } catch (const Error&) {
    json.read(key, entry);
    entry.read("content", token);
  }
}

void read_flag(const JsonObject& json, const char* key, bool& value) {
  if (json.has(key) && !json.is_null(key)) json.read(key, value);
}

// Reads tokenizer_config.json.
WordPieceOptions options_beside(const fs::path& vocab) {
  WordPieceOptions out;
  const std::string path = (vocab.parent_path() / "tokenizer_config.json").string();
  if (!fs::exists(path)) return out;
  const JsonObject json = JsonObject::from_file(path);
  read_flag(json, "do_lower_case", out.lower_case);
  read_flag(json, "tokenize_chinese_chars", out.handle_chinese_chars);
  json.read("strip_accents", out.strip_accents);
  read_token(json, "unk_token", out.unk_token);
  read_token(json, "cls_token", out.cls_token);
  read_token(json, "sep_token", out.sep_token);
  read_token(json, "pad_token", out.pad_token);
  read_token(json, "mask_token", out.mask_token);
  return out;
}

void read_normalizer(const JsonObject& root, const std::string& name, WordPieceOptions& options) {
  JsonObject normalizer;
  std::string type;
  const bool is_given = !root.is_null("normalizer") && root.read("normalizer", normalizer);
  if (is_given) normalizer.read("type", type);
  require(type == "BertNormalizer", "{}: normalizer.type must be BertNormalizer, got {}", name,
          is_given ? type : "none");
  read_flag(normalizer, "lowercase", options.lower_case);
  read_flag(normalizer, "handle_chinese_chars", options.handle_chinese_chars);
  normalizer.read("strip_accents", options.strip_accents);
  bool cleans = true;
  read_flag(normalizer, "clean_text", cleans);
  require(cleans, "{}: normalizer.clean_text must be true", name);
}

// Puts a token at its place in the list of pieces.
void put_piece(const std::string& name, std::string token, std::int64_t id, std::vector<std::string>& pieces,
               std::vector<bool>& has_id) {
  constexpr std::int64_t kMost = 1 << 24;
  require(id >= 0 && id < kMost, "{}: \"{}\" has the id {}; ids are from 0 to {}", name, printable(token), id,
          kMost - 1);
  const auto place = static_cast<std::size_t>(id);
  if (place >= pieces.size()) {
    pieces.resize(place + 1);
    has_id.resize(place + 1);
  }
  require(!has_id[place] || pieces[place] == token, "{}: \"{}\" and \"{}\" have the id {}", name,
          printable(pieces[place]), printable(token), id);
  pieces[place] = std::move(token);
  has_id[place] = true;
}

std::vector<std::string> read_pieces(const JsonObject& root, const JsonObject& model, const std::string& name) {
  JsonObject vocab;
  require(model.read("vocab", vocab), "{}: model must have a vocab", name);
  std::vector<std::string> pieces;
  std::vector<bool> has_id;
  for (const std::string& token : vocab.keys()) {
    std::int64_t id = -1;
    vocab.read(token, id);
    put_piece(name, token, id, pieces, has_id);
  }
  std::vector<JsonObject> added;
  if (!root.is_null("added_tokens")) root.read("added_tokens", added);
  for (const JsonObject& entry : added) {
    std::string content;
    std::int64_t id = -1;
    require(entry.read("content", content) && entry.read("id", id), "{}: an added token needs content and id", name);
    put_piece(name, content, id, pieces, has_id);
  }
  const auto hole = std::find(has_id.begin(), has_id.end(), false);
  require(hole == has_id.end(), "{}: no piece has the id {}", name, hole - has_id.begin());
  return pieces;
}

}  // namespace

WordPieceTokenizer WordPieceTokenizer::from_vocab(std::string_view text, std::string name, WordPieceOptions options) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors write it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    while (line.ends_with('\r')) line.remove_suffix(1);
    pieces.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {std::move(pieces), std::move(name), std::move(options)};
}

WordPieceTokenizer WordPieceTokenizer::from_tokenizer_json(std::string_view json, std::string name) {
  const JsonObject root = JsonObject::parse(json, name);
  JsonObject model;
  std::string type;
  require(root.read("model", model), "{}: has no model", name);
  model.read("type", type);
  require(type == "WordPiece", "{}: model.type must be WordPiece, got {}", name, type.empty() ? "none" : type);
  std::string prefix = "##";
  model.read("continuing_subword_prefix", prefix);
  require(prefix == "##", "{}: continuing_subword_prefix must be \"##\", got \"{}\"", name, printable(prefix));
  WordPieceOptions options;
  model.read("unk_token", options.unk_token);
  model.read("max_input_chars_per_word", options.max_word_characters);
  read_normalizer(root, name, options);
  std::vector<std::string> pieces = read_pieces(root, model, name);
  return {std::move(pieces), std::move(name), std::move(options)};
}

WordPieceTokenizer WordPieceTokenizer::from_file(const std::string& path) {
  fs::path file(path);
  if (fs::is_directory(file)) {
    const fs::path folder = file;
    file = is_there((folder / "vocab.txt").string()) ? folder / "vocab.txt" : folder / "tokenizer.json";
    require(is_there(file.string()), "no vocabulary of WordPiece in {}; looked for vocab.txt and tokenizer.json", path);
  }
  const std::string text = read_file(file.string());
  if (file.extension() == ".json") return from_tokenizer_json(text, file.string());
  return from_vocab(text, file.string(), options_beside(file));
}

}  // namespace tessera::data
