// SPDX-License-Identifier: Apache-2.0
// Messages of a rank that waits in a collective or times out: the ranks that have not arrived and, following ranks that
// wait themselves, the cause.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::collectives {

/// The known state of a rank for which others wait.
struct RankActivity {
  enum class State { kWorks, kWaits, kStopped, kFinished, kElsewhere };
  State state = State::kWorks;
  std::string text;            // its activity, the collective in which it waits, its process, or its host
  std::vector<int> awaited{};  // kWaits: the ranks for which it waits
};
using ActivityOf = std::function<RankActivity(int world_rank)>;

/// `rank 2`, `ranks 1, 2`.
std::string rank_list(const std::vector<int>& ranks);
/// `rank 3 has waited 30 s in all_reduce %17 over {data}; ranks 1, 2 have not arrived`.
std::string waiting_message(int rank, int seconds, const std::string& text, const std::vector<int>& absent);
/// `rank 0 waits in all_reduce %17 over {data}; rank 2 has finished without joining`.
std::string finished_message(int rank, const std::string& text, const std::vector<int>& finished);
/// `an exchange through node memory over {data}`: the work of a rank in ProcessGroup::await_progress().
std::string text_of_progress(const std::string& group);
/// `waited 600 s in all_reduce %17 over {data}, as long as TESSERA_COLLECTIVE_TIMEOUT allows; rank 1 has not arrived`.
std::string timeout_message(int seconds, const std::string& text, const std::vector<int>& absent);
/// The lines that follow these messages, one for each rank for which `rank` waits directly or indirectly:
///   rank 1 waits for rank 2 in permute %9 over {model}
///   rank 2 is the cause: it runs %fusion.3 (fused), step 12 of 40 of train_step
std::string cause_text(int rank, const std::vector<int>& awaited, const ActivityOf& activity_of);

/// Thrown by a rank that has waited in a collective for TESSERA_COLLECTIVE_TIMEOUT.
class CollectiveTimeout : public Error {
 public:
  using Error::Error;
};

using WaitingTime = std::chrono::duration<double>;
/// TESSERA_WATCHDOG_SECONDS, and TESSERA_COLLECTIVE_TIMEOUT or the TimeLimit of this rank; 0 gives a very long time.
WaitingTime watchdog_interval();
WaitingTime collective_timeout();

}  // namespace tessera::collectives
