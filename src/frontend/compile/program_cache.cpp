// SPDX-License-Identifier: Apache-2.0
#include "compile/program_cache.h"

#include <filesystem>

#include "compile/build_id.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

constexpr std::string_view kEndOfHeader = "\n\n";

// Returns the first lines of a file, which the text follows. If they are equal, then key, build and text are equal.
std::string header_of(std::size_t key, std::string_view text) {
  return fmt::format("tessera-partitioned-program\nbuild {}\nkey {:016x}\nbytes {}\nchecksum {:016x}{}", build_id(),
                     key, text.size(), hash_text(text), kEndOfHeader);
}

std::string path_of(std::size_t key) {
  return (std::filesystem::path(options().text("TESSERA_CACHE_DIR")) / fmt::format("{:016x}.tessera", key)).string();
}

// A program is dumped while it is partitioned. Therefore the cache is not used with TESSERA_DUMP_DIR.
bool is_used() { return !options().text("TESSERA_CACHE_DIR").empty() && options().text("TESSERA_DUMP_DIR").empty(); }

// Returns why the content of a file cannot be used, or "" if it can.
std::string_view why_unusable(std::string_view content, std::size_t key) {
  const auto end = content.find(kEndOfHeader);
  if (end == std::string_view::npos) return "it is damaged";
  const std::string_view text = content.substr(end + kEndOfHeader.size());
  if (content.substr(0, content.size() - text.size()) == header_of(key, text)) return "";
  const std::string of_this_build = header_of(key, text);
  const std::size_t first_lines = of_this_build.find("\nkey ");
  const bool same_build = content.starts_with(std::string_view(of_this_build).substr(0, first_lines));
  return same_build ? "it is damaged" : "another build of Tessera wrote it";
}

}  // namespace

std::size_t partition_key(const Program& global) {
  std::size_t key = global.hash();
  for (const Mesh& mesh : global.meshes) key = hash_mix(key, hash_text(mesh.str()));
  for (const auto* may_choose : {&global.propagate_to_parameters, &global.propagate_to_output}) {
    key = hash_mix(key, may_choose->size());
    for (const bool one : *may_choose) key = hash_mix(key, one ? 1 : 0);
  }
  for (const auto* option : {"TESSERA_SKIP_PASSES", "TESSERA_PARTITION_SEARCH", "TESSERA_BF16_AXES",
                             "TESSERA_INT8_AXES", "XLA_AUTO_SPMD", "TESSERA_MACHINE"})
    key = hash_mix(key, hash_text(options().text(option)));
  return key;
}

std::optional<std::string> load_partitioned(std::size_t key) {
  if (!is_used()) return std::nullopt;
  const std::string path = path_of(key);
  if (!why_unreadable(path).empty()) {
    metrics().count("PersistentCacheMiss");
    return std::nullopt;
  }
  std::string content = read_file(path);
  if (const std::string_view reason = why_unusable(content, key); !reason.empty()) {
    metrics().count("PersistentCacheDeserializeFailure");
    log_warning("{} is ignored: {}; the program is partitioned again", path, reason);
    return std::nullopt;
  }
  metrics().count("PersistentCacheHit");
  return content.substr(content.find(kEndOfHeader) + kEndOfHeader.size());
}

void store_partitioned(std::size_t key, std::string_view text) {
  if (!is_used()) return;
  write_for_option("TESSERA_CACHE_DIR", [&] {
    make_folder(options().text("TESSERA_CACHE_DIR"));
    write_file(path_of(key), header_of(key, text) + std::string(text));
  });
}

}  // namespace tessera
