// SPDX-License-Identifier: Apache-2.0
#include "save_after_error.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "files/verified_file.h"
#include "tessera/base/checksum.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void wait_until(const std::function<bool()>& is_over, Clock::time_point deadline) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
  while (!is_over() && Clock::now() < deadline) std::this_thread::sleep_for(kBetweenLooks);
}

std::string file_of(const std::string& partial, int rank, int ranks) {
  return fmt::format("{}/{}", partial, state_file(rank, ranks));
}

// The list gets its name when the file and the list are on the disk.
std::vector<int> ranks_without_file(const std::string& partial, int ranks) {
  std::vector<int> out;
  for (int rank = 0; rank < ranks; ++rank)
    if (!is_there(list_path(file_of(partial, rank, ranks)))) out.push_back(rank);
  return out;
}

bool has_ended(const std::string& partial) {
  return !is_there(partial) || is_there((fs::path(partial) / kGivenUp).string());
}

// Returns false if another rank has declared it, also if it has completed the save, so that the folder has got its name.
bool declare(const std::string& partial, const char* file) {
  try {
    return create_new_file(fmt::format("{}/{}", partial, file));
  } catch (const FileError&) {
    if (!is_there(partial)) return false;
    throw;
  }
}

}  // namespace

bool take_over(const std::string& partial) {
  if (!declare(partial, kTakenOver)) return false;
  // Also true of the old folder of this name while the new one replaces it.
  if (!is_there(fmt::format("{}/{}", partial, kManifestFile))) return true;
  hand_back(partial);
  return false;
}

void hand_back(const std::string& partial) {
  std::error_code ignored;
  fs::remove(fs::path(partial) / kTakenOver, ignored);
}

void give_up(const std::string& partial) {
  try {
    (void)declare(partial, kGivenUp);
  } catch (const FileError& error) {  // such as a full disk, which may be why it is given up
    log_warning("other ranks cannot be told that the save is given up: {}", error.what());
  }
}

AfterError wait_after_error(const std::string& partial, int ranks, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  if (!take_over(partial)) {
    wait_until([&] { return has_ended(partial); }, deadline);
    return {};
  }
  std::vector<int> missing;
  const auto is_over = [&] {
    missing = ranks_without_file(partial, ranks);
    return missing.empty() || has_ended(partial);
  };
  if (!is_over())
    log_warning("after the error of this rank, it waits at most {} s for the files of other ranks in {}",
                patience.count() / 1000, partial);
  wait_until(is_over, deadline);
  if (has_ended(partial)) return {};
  if (missing.empty()) return {.completes = true, .lost = ""};
  give_up(partial);
  return {.completes = false,
          .lost = fmt::format("{} of {} ranks, such as rank {}, did not complete their files within {} s",
                              missing.size(), ranks, missing.front(), patience.count() / 1000)};
}

void wait_for_name(const std::string& partial, std::chrono::milliseconds patience) {
  wait_until([&] { return has_ended(partial); }, Clock::now() + patience);
}

std::map<std::string, StoredFile> files_of_ranks(const std::string& partial, int ranks) {
  std::map<std::string, StoredFile> out;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = file_of(partial, rank, ranks);
    const std::string list = read_file(list_path(path));
    out[state_file(rank, ranks)] = {fs::file_size(path), checksum_text(checksum_of(std::as_bytes(std::span(list)))),
                                    true};
  }
  return out;
}

StoredFile stored_document(const std::string& path) { return {fs::file_size(path), checksum_of_file(path), false}; }

}  // namespace tessera
