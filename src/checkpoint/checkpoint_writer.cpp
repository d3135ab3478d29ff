// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "background_task.h"
#include "files/file_names.h"
#include "files/stream_writer.h"
#include "on_all_ranks.h"
#include "save_after_error.h"
#include "save_checks.h"
#include "saved_state.h"
#include "tessera/base/checksum.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/random_access.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/base/timeline.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// How long a rank that has failed waits for the files of the others.
constexpr auto kPatience = std::chrono::seconds(60);

// The state of a rank's task, and the file that it has written.
struct Report {
  BackgroundTask::State state = BackgroundTask::State::kRunning;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

StoredFile write_document(const std::string& path, const std::string& text) {
  StreamWriter out(path, false);
  out.add(std::as_bytes(std::span(text)));
  return out.finish();
}

}  // namespace

struct CheckpointWriter::Save {
  std::string folder;
  std::string partial;  // its name until it is complete
  std::shared_ptr<ProcessGroup> world;
  std::vector<SavedTensor> tensors;
  std::map<std::string, std::string> documents;
  std::map<std::string, std::string> classes;
  std::function<void()> before_complete;
  std::function<void()> when_complete;
  std::unique_ptr<FolderInFlight> in_flight;
  int exceptions = std::uncaught_exceptions();  // at the beginning
  StoredFile own;
  std::map<std::string, StoredFile> document_files;  // on rank 0
  bool commits = false;                              // all ranks have written their files
  double cpu_seconds = 0;                            // of the tasks that have ended
  std::unique_ptr<BackgroundTask> task;  // null: this rank has nothing to do. Declared last, because it uses the others

  [[nodiscard]] Report report() const {
    Report out{task ? task->state() : BackgroundTask::State::kDone, 0, 0};
    if (out.state == BackgroundTask::State::kDone && !commits) {
      out.bytes = own.bytes;
      out.checksum = std::stoull(own.checksum, nullptr, 16);
    }
    return out;
  }

  [[nodiscard]] TimelineSpan span(const char* what) const {
    return TimelineSpan([&] {
      return EventLabel{.category = "save", .name = what, .arguments = {{"folder", folder}}};
    });
  }

  void write() {
    const TimelineSpan event = span("write the file of the rank");
    own = write_own_parts(fmt::format("{}/{}", partial, state_file(world->rank(), world->size())), tensors,
                          world->rank(), [&] {
                            if (world->rank() == 0) write_documents();
                          });
  }

  [[nodiscard]] std::string document_path(const std::string& name) const {
    return fmt::format("{}/{}.json", partial, name);
  }
  void write_documents() {
    for (const auto& [name, text] : documents)
      document_files[name + ".json"] = write_document(document_path(name), text);
  }

  // On rank 0.
  void commit(const std::vector<Report>& reports) {
    std::map<std::string, StoredFile> files = document_files;
    for (int rank = 0; rank < world->size(); ++rank)
      files[state_file(rank, world->size())] = {at(reports, rank).bytes, checksum_text(at(reports, rank).checksum),
                                                true};
    require(take_over(partial), "a rank that has failed completes the checkpoint");
    try {
      commit(std::move(files));
    } catch (...) {
      give_up(partial);
      throw;
    }
  }

  // On the rank that has taken the save over.
  void commit(std::map<std::string, StoredFile> files) {
    const TimelineSpan event = span("complete the checkpoint");
    const CheckpointManifest manifest{partial, parts_of(tensors, world->size()), std::move(files), classes};
    (void)write_document(partial + "/" + kManifestFile, manifest.str());
    if (before_complete) before_complete();
    hand_back(partial);
    commit_rename(partial, folder);
    if (when_complete) when_complete();
  }

  // Completes the save although this rank has failed. Not collective: the others may be in any collective. Throws the reason if
  // the save is lost.
  void complete_after_error() {
    if (task) task->wait();
    if (task) require(task->state() == BackgroundTask::State::kDone, "{}", task->error());
    if (commits) return wait_for_name(partial, kPatience);  // rank 0 has completed it, or does
    const AfterError end = wait_after_error(partial, world->size(), kPatience);
    require(end.lost.empty(), "{}", end.lost);
    if (!end.completes) return;
    std::map<std::string, StoredFile> files = files_of_ranks(partial, world->size());
    for (const auto& [name, text] : documents) files[name + ".json"] = stored_document(document_path(name));
    commit(std::move(files));
    log_warning("{} was being saved when rank {} failed; it is complete", folder, world->rank());
  }
  void end_after_error() {
    try {
      complete_after_error();
    } catch (const std::exception& error) {
      give_up(partial);
      log_warning("the save of {} is lost: {}; earlier checkpoints remain", folder, error.what());
    }
  }
};

CheckpointWriter::CheckpointWriter() = default;

// The ranks may leave the scope without finish(), but they would lose the save. If an exception is the reason, other ranks
// may not come here.
CheckpointWriter::~CheckpointWriter() {
  if (!is_busy()) return;
  try {
    if (std::uncaught_exceptions() > save_->exceptions) {
      save_->end_after_error();
    } else if (joined_world() == save_->world) {
      const auto outcome = finish();
      if (outcome && !outcome->error.empty() && RankContext::current().rank() == 0) log_warning("{}", outcome->error);
    } else if (RankContext::current().rank() == 0 && !save_->commits) {
      log_warning("the save of {} is lost, because its CheckpointWriter ended without finish()", save_->folder);
    }
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
  }
}

void CheckpointWriter::begin(const std::string& folder, const CheckpointContent& content) {
  require(!is_busy(), "cannot save {}: {} is still being saved; call finish() first", folder,
          [&] { return save_->folder; });
  auto save = std::make_unique<Save>();
  on_all_ranks("", [&] { save->folder = checked_folder(folder); });
  save->partial = save->folder + std::string(kPartial);
  save->world = joined_world();
  save->before_complete = content.before_complete;
  save->when_complete = content.when_complete;
  for (const auto& [name, document] : content.documents) save->documents[name] = document.str();
  for (const auto& [group, state] : content.states)
    if (!state.class_name().empty()) save->classes[group] = state.class_name();
  on_all_ranks("cannot save " + folder, [&] {
    check_names(content);
    save->in_flight = std::make_unique<FolderInFlight>(save->folder);
  });
  check_same_on_all_ranks(*save->world, save->folder, content);
  on_all_ranks("cannot save " + folder, [&] {
    if (save->world->rank() != 0) return;
    make_partial_folder(save->partial);
    // A folder of the user that happens to have the name of the checkpoint.
    if (fs::is_directory(save->folder) && !fs::exists(save->folder + "/" + kManifestFile)) set_aside(save->folder);
  });
  save->tensors = pin_states(content.states);
  save->task = std::make_unique<BackgroundTask>([save = save.get()] { save->write(); });
  save_ = std::move(save);
}

std::optional<CheckpointWriter::Outcome> CheckpointWriter::poll() {
  if (!is_busy()) return std::nullopt;
  ProcessGroup& world = *save_->world;
  const Report own = save_->report();
  std::vector<Report> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)),
                   {0, "the state of the save of " + save_->folder});
  const auto any = [&](BackgroundTask::State state) {
    return std::any_of(all.begin(), all.end(), [&](const Report& one) { return one.state == state; });
  };
  if (any(BackgroundTask::State::kRunning)) return std::nullopt;
  if (save_->task) save_->cpu_seconds += save_->task->cpu_seconds();
  Outcome outcome{save_->folder, "", save_->cpu_seconds};
  if (any(BackgroundTask::State::kFailed)) {
    const bool has_failed = own.state == BackgroundTask::State::kFailed;
    const auto errors = gather_texts(world, has_failed ? save_->task->error() : "");
    outcome.error = fmt::format(
        "cannot save {}: {}", save_->folder,
        *std::find_if(errors.begin(), errors.end(), [](const std::string& error) { return !error.empty(); }));
    std::error_code ignored;
    if (world.rank() == 0) fs::remove_all(save_->partial, ignored);
  } else if (!save_->commits) {
    save_->commits = true;
    save_->task.reset();
    if (world.rank() == 0)
      save_->task =
          std::make_unique<BackgroundTask>([save = save_.get(), reports = std::move(all)] { save->commit(reports); });
    return std::nullopt;
  }
  save_.reset();
  return outcome;
}

// No rank waits for its own task alone: the others would wait in poll() meanwhile, and a slow disk would end the job by
// TESSERA_COLLECTIVE_TIMEOUT.
std::optional<CheckpointWriter::Outcome> CheckpointWriter::finish() {
  while (is_busy()) {
    if (auto outcome = poll()) return outcome;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::nullopt;
}

void CheckpointWriter::drop() {
  if (is_busy() && !save_->commits) {
    give_up(save_->partial);
    if (RankContext::current().rank() == 0) log_warning("the save of {} is dropped", save_->folder);
  }
  save_.reset();
}

void save_checkpoint(const std::string& folder, const CheckpointContent& content) {
  CheckpointWriter writer;
  writer.begin(folder, content);
  if (const auto outcome = writer.finish(); !outcome->error.empty()) throw Error(outcome->error);
}

}  // namespace tessera
