// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/tokenizer.h"

#include <charconv>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/wordpiece_tokenizer.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

// Returns the vocabulary file of a folder, with the same preference as Hugging Face.
std::string file_in_folder(const std::string& folder) {
  for (const char* name : {"tokenizer.json", "merges.txt", "vocab.bpe", "vocab.txt"})
    if (std::string path = (fs::path(folder) / name).string(); is_there(path)) return path;
  fail(
      "no vocabulary in {}; looked for tokenizer.json, merges.txt, vocab.bpe and vocab.txt; a model that was trained "
      "on "
      "bytes has none: name its tokenizer, as in --tokenizer_name bytes",
      folder);
}

// A tokenizer.json says which model it has; the vocabulary of WordPiece is called vocab.txt.
bool has_wordpieces(const fs::path& file) {
  if (file.filename() == "vocab.txt") return true;
  if (file.extension() != ".json" || file.filename() == "vocab.json") return false;
  JsonObject model;
  std::string type;
  const JsonObject root = JsonObject::from_file(file.string());
  try {
    if (root.read("model", model)) model.read("type", type);
  } catch (const Error&) {  // the reader of BPE explains it
  }
  return type == "WordPiece";
}

BpeTokenizer read_bpe(const std::string& path) {
  const fs::path file(path);
  if (file.extension() == ".json") {
    if (file.filename() != "vocab.json") return BpeTokenizer::from_tokenizer_json(read_file(path), path);
    return BpeTokenizer::from_vocab_and_merges(read_file(path), read_file((file.parent_path() / "merges.txt").string()),
                                               path);
  }
  const fs::path vocab = file.parent_path() / "vocab.json";
  if (file.filename() == "merges.txt" && is_there(vocab.string()))
    return BpeTokenizer::from_vocab_and_merges(read_file(vocab.string()), read_file(path), path);
  return BpeTokenizer::from_merges(read_file(path), path);
}

int parse_size(const std::string& spec) {
  const char* first = spec.data() + 4;
  const char* last = spec.data() + spec.size();
  int size = 0;
  const auto [end, error] = std::from_chars(first, last, size);
  require(error == std::errc() && end == last,
          "tokenizer {}: bpe: must be followed by the number of ids, as in bpe:1024", spec);
  constexpr int kLeast = 257;
  require(size >= kLeast, "{}: a byte-level vocabulary has at least {} ids (256 bytes and the end of text)", spec,
          kLeast);
  return size;
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode_document(std::string_view text) const {
  std::vector<std::int32_t> out = document_prefix();
  for (const auto& ids : {encode(text), document_suffix()}) out.insert(out.end(), ids.begin(), ids.end());
  if (!document_suffix().empty() && end_of_text() && out.back() == *end_of_text()) out.pop_back();
  return out;
}

void check_bpe_name(const std::string& spec) { (void)parse_size(spec); }

std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> out;
  out.reserve(text.size());
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  out.reserve(ids.size());
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < 256, "{}: id {} is not in 0..255", name_, id);
    out += static_cast<char>(id);
  }
  return out;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, std::string_view training_text) {
  if (spec == "bytes") return std::make_unique<ByteTokenizer>();
  if (spec.starts_with("bpe:"))
    return std::make_unique<BpeTokenizer>(BpeTokenizer::train(training_text, parse_size(spec)));
  const std::string reason = fs::is_directory(spec) ? "" : why_unreadable(spec);
  require(reason.empty(), "tokenizer \"{}\" is neither bytes, nor bpe:N, nor a vocabulary file: {}", spec, reason);
  const std::string path = fs::is_directory(spec) ? file_in_folder(spec) : spec;
  if (has_wordpieces(path)) return std::make_unique<WordPieceTokenizer>(WordPieceTokenizer::from_file(path));
  return std::make_unique<BpeTokenizer>(read_bpe(path));
}

}  // namespace tessera::data
