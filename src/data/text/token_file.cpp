// SPDX-License-Identifier: Apache-2.0
// Reads token files.
#include "tessera/data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/data/bpe_tokenizer.h"
#include "token_layout.h"

namespace tessera::data {
namespace {

struct Mapping {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

Mapping map_file(const std::string& path) {
  check_readable(path);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  struct stat status {};
  const bool is_file = descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<std::size_t>(status.st_size);
  void* start = is_file && size > 0 ? mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  require(is_file, "{}: a token file must be a regular file", path);
  require(size > 0, "{}: not a token file: it is empty", path);
  require(start != MAP_FAILED, "cannot map {}: {}", path, [&] { return std::generic_category().message(error); });
  return {.owner = std::shared_ptr<const void>(start, [size](void* p) { munmap(p, size); }),
          .bytes = {static_cast<const std::byte*>(start), size}};
}

// Returns the header, whose counts then are positive 63-bit numbers.
TokenHeader read_header(std::span<const std::byte> bytes, const std::string& name) {
  TokenHeader header;
  const bool has_magic =
      bytes.size() >= kTokenMagic.size() && std::memcmp(bytes.data(), kTokenMagic.data(), kTokenMagic.size()) == 0;
  require(has_magic, "{}: not a token file; `tessera tokenize` writes them", name);
  require(bytes.size() >= sizeof(header), "{}: truncated: the header has {} bytes, the file {}", name, sizeof(header),
          bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(header));
  require(header.version == kTokenVersion || header.version == kTokenVersionWithoutSums,
          "{}: token file of version {}; this build reads the versions {} and {}", name, header.version,
          kTokenVersionWithoutSums, kTokenVersion);
  const std::size_t texts = std::size_t{header.name_bytes} + header.vocabulary_bytes;
  require(texts <= bytes.size() - sizeof(header),
          "{}: truncated or damaged: name and vocabulary of the tokenizer have {} bytes, the file {}", name, texts,
          bytes.size());
  const std::uint64_t checksum = checksum_of(header, bytes.subspan(sizeof(header), texts));
  require(checksum == header.checksum, "{}: the header is damaged: its checksum is {:016x}, not {:016x}", name,
          checksum, header.checksum);
  return header;
}

void check_header(const TokenHeader& header, const std::string& name) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  constexpr auto kMostIds = std::uint64_t{1} << 31U;
  require(header.token_bytes == 2 || header.token_bytes == 4,
          "{}: its tokens have {} bytes each; they must have 2 or 4", name, header.token_bytes);
  require(header.vocab_size >= 1 && header.vocab_size <= kMostIds,
          "{}: its vocabulary has {} ids; it must have 1 to {}", name, header.vocab_size, kMostIds);
  require(header.end_of_text >= -1 && header.end_of_text < static_cast<std::int64_t>(header.vocab_size),
          "{}: the end of text is {}, but the vocabulary has {} ids", name, header.end_of_text, header.vocab_size);
  require(header.tokens <= kMost && header.documents <= header.tokens && header.text_bytes <= kMost,
          "{}: {} tokens in {} documents of {} bytes of text are impossible", name, header.tokens, header.documents,
          header.text_bytes);
  require((header.documents == 0) == (header.tokens == 0), "{}: {} tokens in {} documents are impossible", name,
          header.tokens, header.documents);
}

// Copies and converts. Returns the largest token.
template <class T>
std::uint32_t copy_tokens(std::span<const std::byte> from, std::span<std::int32_t> into) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < into.size(); ++i) {
    T token;
    std::memcpy(&token, from.data() + i * sizeof(T), sizeof(T));
    largest = std::max(largest, std::uint32_t{token});
    into[i] = static_cast<std::int32_t>(token);
  }
  return largest;
}

}  // namespace

TokenFile TokenFile::open(const std::string& path) {
  const Mapping mapping = map_file(path);
  TokenFile out = parse(mapping.bytes, path);
  out.mapping_ = mapping.owner;
  return out;
}

TokenFile TokenFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  const TokenHeader header = read_header(bytes, name);
  check_header(header, name);
  const TokenPlaces places = places_of(header);
  const auto size = static_cast<std::int64_t>(bytes.size());
  require(places.size.value_or_most() >= size, "{}: longer than its header states: {} bytes instead of {}", name, size,
          places.size.value_or_most());
  require(places.size.fits() && places.size.value() == size, "{}: truncated: {} bytes instead of {}", name, size,
          places.size.value_or_most());
  const char* texts = reinterpret_cast<const char*>(bytes.data()) + sizeof(header);
  TokenFile out;
  out.path_ = name;
  out.info_ = {.token_bytes = static_cast<int>(header.token_bytes),
               .tokens = static_cast<std::int64_t>(header.tokens),
               .documents = static_cast<std::int64_t>(header.documents),
               .vocab_size = static_cast<std::int64_t>(header.vocab_size),
               .end_of_text = std::nullopt,
               .text_bytes = static_cast<std::int64_t>(header.text_bytes),
               .tokenizer = std::string(texts, header.name_bytes),
               .vocabulary = std::string(texts + header.name_bytes, header.vocabulary_bytes),
               .checksum = header.checksum};
  if (header.end_of_text >= 0) out.info_.end_of_text = static_cast<std::int32_t>(header.end_of_text);
  out.blocks_begin_ = static_cast<std::size_t>(places.tokens.value());
  out.tokens_ = bytes.subspan(out.blocks_begin_, static_cast<std::size_t>(header.tokens * header.token_bytes));
  const auto sums = static_cast<std::size_t>(places.sums.value());
  out.offsets_ = bytes.first(sums).subspan(static_cast<std::size_t>(places.offsets.value()));
  out.blocks_ = bytes.first(sums).subspan(out.blocks_begin_);
  out.sums_ = bytes.subspan(sums);
  out.verified_ = std::make_shared<std::vector<std::atomic<bool>>>(out.sums_.size() / sizeof(std::uint64_t));
  if (out.info_.documents > 0)
    require(out.document_end(out.info_.documents - 1) == out.info_.tokens,
            "{}: the last document ends at token {}, but the file has {} tokens", name,
            out.document_end(out.info_.documents - 1), out.info_.tokens);
  return out;
}

bool TokenFile::is_token_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // NOLINT(*-vararg)
  if (descriptor < 0) return false;
  std::array<char, kTokenMagic.size()> start{};
  const bool is_read = pread(descriptor, start.data(), start.size(), 0) == static_cast<ssize_t>(start.size());
  close(descriptor);
  return is_read && start == kTokenMagic;
}

void TokenFile::read(std::int64_t start, std::span<std::int32_t> into) const {
  const auto count = static_cast<std::int64_t>(into.size());
  require(start >= 0 && start <= info_.tokens && count <= info_.tokens - start,
          "{}: tokens {} to {} were requested, but the file has {}", path_, start, start + count, info_.tokens);
  const auto from = tokens_.subspan(static_cast<std::size_t>(start * info_.token_bytes),
                                    static_cast<std::size_t>(count * info_.token_bytes));
  verify_blocks_of(from);
  const std::uint32_t largest =
      info_.token_bytes == 2 ? copy_tokens<std::uint16_t>(from, into) : copy_tokens<std::uint32_t>(from, into);
  if (largest < info_.vocab_size) return;
  const auto wrong = std::find_if(into.begin(), into.end(), [&](std::int32_t token) {
    return static_cast<std::uint32_t>(token) >= info_.vocab_size;
  });
  fail("{}: token {} has the id {}, but the vocabulary has {} ids; the file is damaged", path_,
       start + (wrong - into.begin()), static_cast<std::uint32_t>(*wrong), info_.vocab_size);
}

std::int64_t TokenFile::document_end(std::int64_t i) const {
  std::int64_t end = 0;
  const auto from = offsets_.subspan(static_cast<std::size_t>(i) * sizeof(end), sizeof(end));
  verify_blocks_of(from);
  std::memcpy(&end, from.data(), sizeof(end));
  return end;
}

// Once for each block. The mapping is read-only, so threads that verify a block at the same time get the same result.
void TokenFile::verify_blocks_of(std::span<const std::byte> part) const {
  if (part.empty() || verified_->empty()) return;
  const auto begin = static_cast<std::size_t>(part.data() - blocks_.data());
  for (std::size_t n = begin / kTokenBlock; n * kTokenBlock < begin + part.size(); ++n) {
    std::atomic<bool>& is_verified = (*verified_)[n];
    if (is_verified.load(std::memory_order_relaxed)) continue;
    const std::size_t first = n * kTokenBlock;
    const auto block = blocks_.subspan(first, std::min(kTokenBlock, blocks_.size() - first));
    std::uint64_t sum = 0;
    std::memcpy(&sum, sums_.data() + n * sizeof(sum), sizeof(sum));
    require(tessera::checksum_of(block) == sum,
            "{}: damaged: the bytes {} to {} do not have the checksum with which they were saved", path_,
            blocks_begin_ + first, blocks_begin_ + first + block.size());
    is_verified.store(true, std::memory_order_relaxed);
  }
}

Interval TokenFile::document(std::int64_t i) const {
  require(i >= 0 && i < info_.documents, "{}: document {} was requested, but the file has {}", path_, i,
          info_.documents);
  const Interval out{i == 0 ? 0 : document_end(i - 1), document_end(i)};
  require(out.start >= 0 && out.start < out.limit && out.limit <= info_.tokens,
          "{}: document {} of {} has the tokens {} to {} of {}; the offsets do not increase, so the file is damaged",
          path_, i, info_.documents, out.start, out.limit, info_.tokens);
  return out;
}

void TokenFile::verify() const {
  for (std::int64_t i = 0; i < info_.documents; ++i) (void)document(i);
  constexpr std::int64_t kAtOnce = 1 << 16;
  std::vector<std::int32_t> tokens;
  for (std::int64_t start = 0; start < info_.tokens; start += kAtOnce) {
    tokens.resize(static_cast<std::size_t>(std::min(kAtOnce, info_.tokens - start)));
    read(start, tokens);
  }
}

std::unique_ptr<Tokenizer> TokenFile::make_tokenizer() const {
  std::unique_ptr<Tokenizer> out;
  if (!info_.vocabulary.empty()) {
    out = std::make_unique<BpeTokenizer>(BpeTokenizer::from_merges(info_.vocabulary, info_.tokenizer));
  } else {
    require(!info_.tokenizer.starts_with("bpe:"), "{}: the vocabulary of the tokenizer {} is missing", path_,
            info_.tokenizer);
    try {
      out = data::make_tokenizer(info_.tokenizer, "");
    } catch (Error& error) {
      throw error.prefix(path_ + " was written with ");
    }
  }
  require(out->vocab_size() == info_.vocab_size && out->end_of_text() == info_.end_of_text,
          "{} was written with a vocabulary of {} ids, but the tokenizer {} now has {} ids{}", path_, info_.vocab_size,
          info_.tokenizer, out->vocab_size(),
          out->end_of_text() == info_.end_of_text ? "" : " and another end of text");
  return out;
}

bool TokenFile::was_written_with(const Tokenizer& tokenizer) const {
  if (info_.vocab_size != tokenizer.vocab_size() || info_.end_of_text != tokenizer.end_of_text()) return false;
  const std::string merges = tokenizer.vocabulary();
  if (!info_.vocabulary.empty() && !merges.empty()) return info_.vocabulary == merges;
  std::unique_ptr<Tokenizer> own;
  try {
    own = make_tokenizer();
  } catch (const Error&) {  // its file is gone, or has become another one
    return true;
  }
  return is_same_tokenizer(*own, tokenizer);
}

}  // namespace tessera::data
