// SPDX-License-Identifier: Apache-2.0
// Work that one rank does for all: it sends the result to the others as text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tessera/collectives/process_group.h"

namespace tessera {

/// Tells the ranks that wait for this rank what it is doing.
class WorkScope {
 public:
  WorkScope(ProcessGroup& world, std::string_view text) : world_(world) { world_.works_on(text); }
  ~WorkScope() { world_.works_on(""); }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  ProcessGroup& world_;
};

/// Returns on every rank the text that `make` returns on rank 0. Collective. If it throws, every rank throws an error
/// with this message. `what` names the text in messages: "a program"; `work` is what rank 0 does: "partitions step".
std::string text_from_one_rank(std::string_view what, std::string_view work, const std::function<std::string()>& make);

}  // namespace tessera
