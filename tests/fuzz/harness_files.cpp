// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

#include "harness.h"
#include "tessera/base/checksum.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/data/bpe_tokenizer.h"
#include "tessera/data/image_folder.h"
#include "tessera/data/images.h"
#include "tessera/data/json_lines.h"
#include "tessera/data/token_file.h"
#include "tessera/data/wordpiece_tokenizer.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/nn/models/resnet.h"
#include "tessera/nn/models/vit.h"
#include "tessera/sharding/sharding.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/trainer/arguments.h"

namespace tessera::fuzz {

void demand(bool ok, const std::string& what) {
  if (!ok) throw std::logic_error(what);
}

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"hlo", check_hlo},           {"sharding", check_sharding}, {"safetensors", check_safetensors},
      {"json", check_json},         {"bpe", check_bpe},           {"wordpiece", check_wordpiece},
      {"idx", check_idx},           {"tokens", check_tokens},     {"images", check_images},
      {"jsonl", check_jsonl},       {"flags", check_flags},       {"values", check_values},
      {"manifest", check_manifest}, {"index", check_index},       {"graph", check_graph}};
  return all;
}

const Reader& reader(std::string_view name) {
  for (const auto& one : readers())
    if (one.name == name) return one;
  throw std::logic_error("no such reader");
}

bool check_safetensors(std::string_view bytes) {
  const auto as_bytes = std::as_bytes(std::span(bytes));
  SafetensorsFile file;
  if (!reads([&] { file = parse_safetensors(as_bytes, "fuzz.safetensors"); })) return false;
  must("a file that was read", [&] {
    const auto again = parse_safetensors(print_safetensors(file));
    demand(again.metadata == file.metadata && again.tensors.size() == file.tensors.size(), "reads back otherwise");
    for (std::size_t i = 0; i < file.tensors.size(); ++i) {
      const Literal* found = again.find(file.tensors[i].first);
      demand(found != nullptr && found->type() == file.tensors[i].second.type(), "a tensor reads back otherwise");
      const auto a = found->bytes();
      const auto b = file.tensors[i].second.bytes();
      demand(a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0), "bytes differ");
    }
  });
  return true;
}

namespace {

template <class Config>
void check_config(std::string_view text) {
  Config config;
  if (!reads([&] { config = Config::from_json(std::string(text), "fuzz.json"); })) return;
  must("a configuration that was read", [&] {
    const std::string printed = config.to_json();
    demand(Config::from_json(printed).to_json() == printed, "reads back otherwise:\n" + printed);
  });
}

}  // namespace

bool check_json(std::string_view text) {
  JsonObject json;
  if (!reads([&] { json = JsonObject::parse(text, "fuzz.json"); })) return false;
  must("an object that was read", [&] {
    const std::string printed = json.str();
    demand(JsonObject::parse(printed).str() == printed, "reads back otherwise:\n" + printed);
  });
  check_config<nn::GPT2Config>(text);
  check_config<nn::BertConfig>(text);
  check_config<nn::ViTConfig>(text);
  check_config<nn::ResNetConfig>(text);
  reads([&] { trainer::FsdpConfig::from_json(json); });
  return true;
}

namespace {

// Decoding the encoded text must give back all bytes, of every kind, unless the tokenizer changes texts.
void check_tokenizer(const data::BpeTokenizer& tokenizer) {
  const std::string text = "In the beginning\n  was 1 word\xc3\xa9\xff, don't!<|endoftext|>\t";
  const std::string back = tokenizer.decode(tokenizer.encode(text));
  demand(back == text || !tokenizer.keeps_text(), "a text does not come back");
}

}  // namespace

bool check_bpe(std::string_view text) {
  const auto zero = text.find('\0');
  if (zero != std::string_view::npos)
    return reads([&] {
      check_tokenizer(
          data::BpeTokenizer::from_vocab_and_merges(text.substr(0, zero), text.substr(zero + 1), "vocab.json"));
    });
  if (text.starts_with('{'))
    return reads([&] { check_tokenizer(data::BpeTokenizer::from_tokenizer_json(text, "tokenizer.json")); });
  return reads([&] {
    const auto tokenizer = data::BpeTokenizer::from_merges(text, "vocab.bpe");
    check_tokenizer(tokenizer);
    const auto again = data::BpeTokenizer::from_merges(tokenizer.merges_text(), "again.bpe");
    demand(again.merges_text() == tokenizer.merges_text(), "merges read back otherwise");
  });
}

bool check_wordpiece(std::string_view text) {
  const auto zero = std::min(text.find('\0'), text.size());
  const std::string_view vocab = text.substr(0, zero);
  const std::string_view rest = text.substr(std::min(zero + 1, text.size()));
  std::optional<data::WordPieceTokenizer> tokenizer;
  const bool is_json = vocab.starts_with('{');
  if (!reads([&] {
        tokenizer.emplace(is_json ? data::WordPieceTokenizer::from_tokenizer_json(vocab, "tokenizer.json")
                                  : data::WordPieceTokenizer::from_vocab(vocab, "vocab.txt"));
      }))
    return false;
  must("a vocabulary that was read", [&] {
    const auto pair = tokenizer->encode_pair(rest, rest.substr(rest.size() / 2), {.max_length = 20});
    demand(pair.input_ids.size() <= 20 && pair.input_ids.size() == pair.token_type_ids.size(), "a pair is too long");
    (void)tokenizer->decode(tokenizer->encode_text(rest).input_ids);
    if (is_json) return;
    const auto again = data::WordPieceTokenizer::from_vocab(tokenizer->vocab_text(), "again.txt");
    demand(again.vocab_text() == tokenizer->vocab_text() && again.encode(rest) == tokenizer->encode(rest),
           "the vocabulary reads back otherwise");
  });
  return true;
}

namespace {

// Uses a file in memory, because gzipped data is read from files only.
bool check_gzipped_idx(std::string_view bytes) {
  const int descriptor = memfd_create("fuzz.idx.gz", MFD_CLOEXEC);
  demand(descriptor >= 0 && write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
         "no memory file");
  const bool is_read = reads([&] { (void)data::read_idx(fmt::format("/proc/self/fd/{}", descriptor)); });
  close(descriptor);
  return is_read;
}

}  // namespace

bool check_idx(std::string_view bytes) {
  if (bytes.starts_with("\x1f\x8b")) return check_gzipped_idx(bytes);
  Literal array;
  if (!reads([&] { array = data::parse_idx(bytes, "fuzz.idx"); })) return false;
  const auto header = 4 + 4 * static_cast<std::size_t>(array.type().ndim());
  demand(array.bytes().size() + header == bytes.size(), "the array is not as large as the file");
  return true;
}

namespace {

bool check_token_file(std::string_view bytes) {
  std::optional<data::TokenFile> file;
  if (!reads([&] { file.emplace(data::TokenFile::parse(std::as_bytes(std::span(bytes)), "fuzz.tokens")); }))
    return false;
  reads([&] { file->verify(); });
  const std::int64_t count = file->info().tokens;
  demand(count * file->info().token_bytes <= static_cast<std::int64_t>(bytes.size()), "more tokens than bytes");
  std::vector<std::int32_t> last(1);
  if (count > 0) reads([&] { file->read(count - 1, last); });
  demand(!reads([&] { file->read(count, last); }), "a token after the last was read");
  return true;
}

}  // namespace

bool check_tokens(std::string_view bytes) {
  // Most mutations damage the checksum of the header. Repair it, so that they reach the code after it.
  std::string repaired(bytes);
  constexpr std::size_t kHeader = 72;
  constexpr std::size_t kChecksum = 64;
  std::array<std::uint32_t, 2> lengths{};
  if (repaired.size() >= kHeader) std::memcpy(lengths.data(), repaired.data() + 56, sizeof(lengths));
  const std::size_t texts = std::size_t{lengths[0]} + lengths[1];
  if (repaired.size() >= kHeader + texts) {
    Checksum sum;
    sum.add(std::as_bytes(std::span(repaired)).first(kChecksum));
    sum.add(std::as_bytes(std::span(repaired)).subspan(kHeader, texts));
    const std::uint64_t value = sum.value();
    std::memcpy(repaired.data() + kChecksum, &value, sizeof(value));
  }
  const bool is_read = check_token_file(bytes);
  return check_token_file(repaired) || is_read;
}

bool check_images(std::string_view bytes) {
  bool any = false;
  for (const int channels : {1, 3}) {
    Literal image;
    if (!reads([&] { image = data::parse_image(bytes, "fuzz.png", channels); })) continue;
    any = true;
    demand(image.type().ndim() == 3 && image.type().dim(2) == channels, "not an image of these channels");
    // Deflate packs at most 1032 bytes, of 8 pixels each, into one.
    const std::int64_t pixels = image.type().dim(0) * image.type().dim(1);
    demand(pixels <= (static_cast<std::int64_t>(bytes.size()) + 1) * 8 * 1032, "more pixels than the file can have");
  }
  return any;
}

bool check_jsonl(std::string_view text) {
  data::JsonLinesOptions options{.tokenizer = std::make_shared<data::ByteTokenizer>(), .columns = {}};
  bool any = false;
  for (const auto& line : split(text, '\n')) {
    options.columns = {};
    any |= reads([&] { (void)data::parse_json_line(line, "fuzz.jsonl, line 1", options); });
    options.columns = {"label", "score"};
    reads([&] { (void)data::parse_json_line(line, "fuzz.jsonl, line 1", options); });
  }
  return any;
}

bool check_flags(std::string_view text) {
  const Mesh mesh({{"x", 2}, {"y", 6}});
  bool any = false;
  std::vector<std::string> words;
  for (const auto& line : split(text, '\n')) {
    words.push_back(line);
    any |= reads([&] {
      const Mesh read = Mesh::parse(line, 12);
      demand(read.device_count() == 12, "a mesh of another size");
    });
    any |= reads([&] {
      const auto spec = PartitionSpec::parse(line);
      const auto sharding = Sharding::from_spec(mesh, spec, static_cast<int>(spec.entries().size()));
      demand(PartitionSpec::parse(spec.str().substr(1, spec.str().size() - 2)).str() == spec.str(),
             "a spec reads back otherwise");
      (void)sharding.str();
    });
    any |= reads([&] { trainer::parse_fsdp_mode(line); });
  }
  trainer::TrainingArguments arguments;
  ArgumentParser parser("fuzz", "");
  arguments.add_flags(parser);
  std::erase_if(words, [](const std::string& word) { return word.ends_with(".json"); });  // no files
  any |= reads([&] {
    if (parser.parse(words)) arguments.check();
  });
  return any;
}

}  // namespace tessera::fuzz
