// SPDX-License-Identifier: Apache-2.0
// Writes token files. Tokens go to a temporary file beside the result, offsets to a second one that is appended at the
// end, so the memory does not depend on the number of tokens or documents.
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/random_access.h"
#include "tessera/base/rank_context.h"
#include "tessera/data/token_file.h"
#include "token_layout.h"

namespace tessera::data {
namespace {

// The process of a temporary file NAME.tmpPROCESS.RANK or NAME.tmpPROCESS.RANK.documents; 0 if it is another file.
pid_t process_of(std::string_view file, std::string_view name) {
  if (!file.starts_with(name)) return 0;
  file.remove_prefix(name.size());
  constexpr std::string_view kTemporary = ".tmp";
  pid_t process = 0;
  if (!file.starts_with(kTemporary)) return 0;
  file.remove_prefix(kTemporary.size());
  const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), process);
  return error == std::errc() && end != file.data() + file.size() && *end == '.' ? process : 0;
}

// Deletes what killed writers of the same file have left.
void remove_left_files(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const std::string name = std::filesystem::path(path).filename().string();
  std::error_code error;
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.empty() ? "." : folder, error)) {
    const pid_t process = process_of(entry.path().filename().string(), name);
    if (process > 0 && kill(process, 0) != 0 && errno == ESRCH) left.push_back(entry.path().string());
  }
  for (const std::string& one : left)
    if (std::filesystem::remove(one, error)) log_warning("deleted {}, which an interrupted process left", one);
}

// The file is renamed to `path` at the end, which would replace a folder or a device.
std::string checked_path(const std::string& path) {
  require(!std::filesystem::exists(path) || std::filesystem::is_regular_file(path), "cannot write {}: it is not a file",
          path);
  std::string target = target_of_links(path);
  remove_left_files(target);
  return target;
}

// A file that must be there later is recorded with its complete path.
std::string recorded_name(const Tokenizer& tokenizer) {
  const std::string& name = tokenizer.name();
  return std::filesystem::exists(name) ? std::filesystem::absolute(name).lexically_normal().string() : name;
}

}  // namespace

// A file that grows at its end, and is deleted unless it is kept.
class TokenFileWriter::GrowingFile {
 public:
  explicit GrowingFile(std::string path) : path_(std::move(path)), file_(path_, OutputFile::Mode::kCreate) {}
  ~GrowingFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return written_ + buffer_.size(); }
  OutputFile& file() { return file_; }
  void append(std::span<const std::byte> bytes) {
    constexpr std::size_t kAtOnce = 1 << 20;
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() >= kAtOnce) flush();
  }
  void flush() {
    file_.write(written_, buffer_);
    written_ += buffer_.size();
    buffer_.clear();
  }
  void pad_to(std::uint64_t size) { buffer_.resize(buffer_.size() + (size - this->size())); }
  void keep() { path_.clear(); }

 private:
  std::string path_;
  OutputFile file_;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
};

struct TokenFileWriter::State {
  State(const std::string& name, const Tokenizer& tokenizer)
      : path(checked_path(name)),
        tokens(fmt::format("{}.tmp{}.{}", path, getpid(), RankContext::current().rank())),
        offsets(tokens.path() + ".documents") {
    info.vocab_size = tokenizer.vocab_size();
    info.token_bytes = info.vocab_size <= kU16Vocabulary ? 2 : 4;
    info.end_of_text = tokenizer.end_of_text();
    info.tokenizer = recorded_name(tokenizer);
    info.vocabulary = tokenizer.vocabulary();
    tokens.pad_to(static_cast<std::uint64_t>(places_of(header()).tokens.value()));
  }

  [[nodiscard]] std::string texts() const { return info.tokenizer + info.vocabulary; }
  [[nodiscard]] TokenHeader header() const {
    TokenHeader out{.token_bytes = static_cast<std::uint32_t>(info.token_bytes),
                    .tokens = static_cast<std::uint64_t>(info.tokens),
                    .documents = static_cast<std::uint64_t>(info.documents),
                    .vocab_size = static_cast<std::uint64_t>(info.vocab_size),
                    .end_of_text = info.end_of_text.value_or(-1),
                    .text_bytes = static_cast<std::uint64_t>(info.text_bytes),
                    .name_bytes = static_cast<std::uint32_t>(info.tokenizer.size()),
                    .vocabulary_bytes = static_cast<std::uint32_t>(info.vocabulary.size())};
    const std::string all = texts();
    out.checksum = checksum_of(out, std::as_bytes(std::span(all)));
    return out;
  }
  void append_offsets() {
    offsets.flush();
    constexpr std::uint64_t kAtOnce = 1 << 20;
    const InputFile from(offsets.path());
    std::vector<std::byte> part;
    for (std::uint64_t at = 0; at < from.size(); at += part.size()) {
      part.resize(std::min(kAtOnce, from.size() - at));
      from.read(at, part);
      tokens.append(part);
    }
  }

  std::string path;
  GrowingFile tokens;
  GrowingFile offsets;
  TokenFileInfo info;
  std::int64_t document_start = 0;
};

TokenFileWriter::TokenFileWriter(const std::string& path, const Tokenizer& tokenizer)
    : state_(std::make_unique<State>(path, tokenizer)) {}
TokenFileWriter::~TokenFileWriter() = default;
const TokenFileInfo& TokenFileWriter::info() const { return state_->info; }

void TokenFileWriter::append(std::span<const std::int32_t> tokens) {
  std::vector<std::uint16_t> narrow;
  for (const std::int32_t token : tokens)
    require(token >= 0 && token < state_->info.vocab_size, "token id {} is outside the vocabulary of {} ids", token,
            state_->info.vocab_size);
  state_->info.tokens += static_cast<std::int64_t>(tokens.size());
  if (state_->info.token_bytes == 4) return state_->tokens.append(std::as_bytes(tokens));
  narrow.assign(tokens.begin(), tokens.end());
  state_->tokens.append(std::as_bytes(std::span(narrow)));
}

void TokenFileWriter::end_document(std::int64_t text_bytes) {
  TokenFileInfo& info = state_->info;
  if (info.end_of_text) append(std::span(&*info.end_of_text, 1));
  info.text_bytes += text_bytes;
  if (info.tokens == state_->document_start) return;
  const std::int64_t end = state_->document_start = info.tokens;
  state_->offsets.append(std::as_bytes(std::span(&end, 1)));
  ++info.documents;
}

void TokenFileWriter::finish() {
  State& state = *state_;
  ensure(state.document_start == state.info.tokens, "the last document has no end");
  const TokenHeader header = state.header();
  state.tokens.pad_to(static_cast<std::uint64_t>(places_of(header).offsets.value()));
  state.append_offsets();
  state.tokens.flush();
  const std::string texts = state.texts();
  state.tokens.file().write(0, std::as_bytes(std::span(&header, 1)));
  state.tokens.file().write(sizeof(header), std::as_bytes(std::span(texts)));
  state.tokens.file().finish();
  commit_rename(state.tokens.path(), state.path);
  state.tokens.keep();
}

}  // namespace tessera::data
