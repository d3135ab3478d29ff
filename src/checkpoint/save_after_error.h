// SPDX-License-Identifier: Apache-2.0
// The end of a save that a rank leaves with an exception. The other ranks may be in any collective, so the ranks agree by files in
// the folder of the save, which is FOLDER.partial until the checkpoint is complete.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "files/manifest.h"

namespace tessera {

/// The files by which ranks agree. They are not part of a checkpoint.
inline constexpr const char* kTakenOver = "taken_over";  // one rank completes the save
inline constexpr const char* kGivenUp = "given_up";      // no rank completes it

/// Declares that the calling rank completes the save. Returns false if another rank does, or has done so. FileError if the rank
/// cannot declare it, for example because the disk is full.
bool take_over(const std::string& partial);
/// Ends what take_over() declared. Call it when the manifest is written, which keeps others from taking over.
void hand_back(const std::string& partial);
/// Declares that the save is not completed, because a file cannot be written or must not be used. If that cannot be declared
/// either, prints a warning.
void give_up(const std::string& partial);

/// What the calling rank must do after an error.
struct AfterError {
  bool completes = false;  // this rank completes the checkpoint: the files of all ranks are complete
  std::string lost;        // why nobody does; "" if another rank completes it, or reports why it is lost
};
/// Waits until the files of all ranks are complete, or until another rank has ended the save, but at most `patience`. Call it when
/// the file of this rank is complete.
AfterError wait_after_error(const std::string& partial, int ranks, std::chrono::milliseconds patience);
/// Waits until the folder has got its name or `patience` has passed.
void wait_for_name(const std::string& partial, std::chrono::milliseconds patience);

/// The complete files of all ranks, as their lists of checksums describe them.
std::map<std::string, StoredFile> files_of_ranks(const std::string& partial, int ranks);
/// A complete file without a list, such as a document.
StoredFile stored_document(const std::string& path);

}  // namespace tessera
