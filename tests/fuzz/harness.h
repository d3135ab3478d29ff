// SPDX-License-Identifier: Apache-2.0
// The properties of each reader for any input: the text is read or refused with an Error, and a program that was read
// prints and reads back as equal. The HLO reader accepts only valid programs, and partitioning one gives a valid
// program or an Error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::fuzz {

struct Reader {
  std::string name;  // also the name of its corpus folder
  /// Returns true if the text was read. Throws std::logic_error if a property fails.
  bool (*check)(std::string_view text) = nullptr;
};
const std::vector<Reader>& readers();
const Reader& reader(std::string_view name);

bool check_hlo(std::string_view text);
/// Checks that a small program gives the same values before and after partitioning. Uses the corpus of hlo.
bool check_values(std::string_view text);
bool check_sharding(std::string_view text);
bool check_safetensors(std::string_view bytes);
/// Configuration files: any JSON object, read as a configuration of each model and of FSDP.
bool check_json(std::string_view text);
/// vocab.bpe, tokenizer.json, or vocab.json and merges.txt with a 0 byte between them.
bool check_bpe(std::string_view text);
/// vocab.txt or tokenizer.json of WordPiece, and after a 0 byte a text to encode.
bool check_wordpiece(std::string_view text);
bool check_idx(std::string_view bytes);
/// Token files, as they are and with a correct checksum of the header.
bool check_tokens(std::string_view bytes);
/// PNG, PPM and PGM.
bool check_images(std::string_view bytes);
/// Manifests of a checkpoint whose other files are intact, with a correct checksum.
bool check_manifest(std::string_view text);
/// Indexes of a model folder whose other files are intact.
bool check_index(std::string_view text);
/// Lines of JSON with a text, a number and a list.
bool check_jsonl(std::string_view text);
/// Decision graphs. One that was read is solved, or refused with an Error.
bool check_graph(std::string_view text);
/// Flags, meshes and partition specs, one per line.
bool check_flags(std::string_view text);

// ---- helpers of the checks

/// Throws std::logic_error unless `ok`.
void demand(bool ok, const std::string& what);
/// Runs f. Returns false if it throws an Error. An InternalError, or an Error without text, is a failure.
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
/// Runs f, which must not throw an Error.
template <class F>
void must(const char* what, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    demand(false, std::string(what) + ": " + error.what());
  }
}

}  // namespace tessera::fuzz
