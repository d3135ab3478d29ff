// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes at all, reader by reader: they are read or refused with an Error, and what was read prints and
// reads back equal. What the HLO reader takes is sound, and partitioning it ends in a sound program or an Error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::fuzz {

struct Reader {
  std::string name;  // of its corpus folder too
  /// Throws std::logic_error when a property fails. True when the text was read.
  bool (*check)(std::string_view text) = nullptr;
};
const std::vector<Reader>& readers();
const Reader& reader(std::string_view name);

bool check_hlo(std::string_view text);
/// A small program computes partitioned what it computes whole. Its corpus is that of hlo.
bool check_values(std::string_view text);
bool check_sharding(std::string_view text);
bool check_safetensors(std::string_view bytes);
/// Configuration files: any JSON object, as GPT-2's configuration and as FSDP's.
bool check_json(std::string_view text);
/// vocab.bpe, tokenizer.json, or vocab.json and merges.txt with a 0 byte between them.
bool check_bpe(std::string_view text);
bool check_idx(std::string_view bytes);
/// Flags, meshes and partition specs, a line each.
bool check_flags(std::string_view text);

// ---- for the checks themselves --------------------------------------------------------------------------------------------

/// Throws std::logic_error unless `ok`.
void demand(bool ok, const std::string& what);
/// Runs f. False when it throws an Error of the user's kind; one of ours, or one without words, fails.
template <class F>
bool reads(F&& f) {
  try {
    f();
    return true;
  } catch (const InternalError& error) {
    demand(false, std::string("internal error: ") + error.what());
  } catch (const Error& error) {
    demand(error.what()[0] != '\0', "an error without words");
  }
  return false;
}
/// Runs f, which may throw no Error.
template <class F>
void must(const char* what, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    demand(false, std::string(what) + ": " + error.what());
  }
}

}  // namespace tessera::fuzz
