// SPDX-License-Identifier: Apache-2.0
// Checks files that every rank must read. If a file is missing on one rank, the others must not wait for it in the
// first collective; if its content differs on one rank, the ranks would train on different batches.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "execution/execute.h"
#include "execution/gather_from_ranks.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

// Returns the index of the first file that this rank cannot read, or the number of files if it can read all.
std::uint64_t first_unreadable(const std::vector<RequiredFile>& files) {
  const auto found = std::find_if(files.begin(), files.end(), [](const RequiredFile& file) {
    return !file.path.empty() && !why_unreadable(file.path).empty();
  });
  return static_cast<std::uint64_t>(found - files.begin());
}

// Throws an Error with the flag and the form of the file.
[[noreturn]] void fail_for(const RequiredFile& file, const std::string& reason) {
  fail("{}: {}{}{}", file.flag, reason, file.form.empty() ? "" : "; ", file.form);
}

std::string rank_list(const std::vector<std::int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// `rank 2 on host b cannot read t.txt: No such file or directory; ranks 0, 1, 3 can`
std::string missing_text(const std::string& path, const std::vector<std::string>& reasons) {
  std::vector<std::int64_t> readers;
  std::vector<std::string> words;
  for (int rank = 0; rank < isize(reasons); ++rank) {
    if (at(reasons, rank).empty())
      readers.push_back(rank);
    else
      words.push_back(at(reasons, rank));
  }
  if (readers.empty())
    return fmt::format("none of {} ranks can read {}: {}", reasons.size(), path,
                       words.front().substr(words.front().rfind(": ") + 2));
  constexpr std::size_t kMostShown = 4;
  const std::size_t shown = std::min(kMostShown, words.size());
  std::string out =
      fmt::format("{}", fmt::join(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "));
  if (shown < words.size()) out += fmt::format("\n  and {} more ranks cannot", words.size() - shown);
  return out + fmt::format("; {} can: the file must exist on every rank", rank_list(readers));
}

// The size and hash of a file, which the ranks compare.
struct Fingerprint {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

Fingerprint fingerprint(const std::string& path) {
  if (path.empty()) return {};
  const std::string content = read_file(path);
  return {content.size(), hash_text(content)};
}

// Every rank finds the same difference. The first rank that differs from rank 0 prints the message and ends the job.
void check_same_content(ProcessGroup& world, const RequiredFile& file) {
  const std::string& path = file.path;
  const auto all = gather_from_ranks(world, fingerprint(path));
  const auto other = std::find_if(all.begin(), all.end(), [&](const Fingerprint& f) { return f != all.front(); });
  if (other == all.end()) {
    if (!path.empty()) metrics().count("FilesCompared");
    return;
  }
  const auto reporter = static_cast<int>(other - all.begin());
  const std::vector<std::string>& hosts = session().job.hosts;
  if (world.rank() == reporter)
    fail(
        "{}: {} is not the same file on every rank: rank 0 on host {} reads {} bytes (hash {:016x}), rank {} on host "
        "{} "
        "reads {} bytes (hash {:016x}); all ranks must read the same content",
        file.flag, path, hosts.front(), all.front().bytes, all.front().hash, reporter, at(hosts, reporter),
        other->bytes, other->hash);
  world.barrier({0, "the check that every rank reads the same " + path});  // ends when the reporter ends the job
}

}  // namespace

std::vector<std::string> gather_texts(ProcessGroup& world, const std::string& mine) {
  if (world.size() == 1) return {mine};
  return gather_texts_from_ranks(world, mine);
}

void check_files_on_all_ranks(const std::vector<RequiredFile>& files) {
  ProcessGroup& world = *session().world;
  const std::uint64_t first = first_unreadable(files);
  if (world.size() == 1) {
    if (first == files.size()) return;
    fail_for(files[first], why_unreadable(files[first].path));
  }
  const auto all = gather_from_ranks(world, first);
  const std::uint64_t worst = *std::min_element(all.begin(), all.end());
  if (worst >= files.size()) {
    for (const RequiredFile& file : files) check_same_content(world, file);
    return;
  }
  const RequiredFile& missing = files[worst];
  const auto reasons = gather_texts_from_ranks(world, why_unreadable(missing.path));
  const auto reporter =
      std::find_if(reasons.begin(), reasons.end(), [](const auto& reason) { return !reason.empty(); });
  if (reporter - reasons.begin() == world.rank()) fail_for(missing, missing_text(missing.path, reasons));
  world.barrier({0, "the check that every rank can read " + missing.path});  // ends when the reporter ends the job
}

}  // namespace tessera
