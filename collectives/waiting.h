// SPDX-License-Identifier: Apache-2.0
// What a rank says while it waits in a collective, and where it gives up: who has not arrived, and, along the ranks that wait
// themselves, who is the cause.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::collectives {

/// What is known of a rank that others wait for.
struct RankActivity {
  enum class State { kWorks, kWaits, kFinished, kElsewhere };
  State state = State::kWorks;
  std::string text;            // what it does, what it waits in, the host it is on
  std::vector<int> awaited{};  // kWaits: the ranks that it waits for
};
using ActivityOf = std::function<RankActivity(int world_rank)>;

/// `rank 2`, `ranks 1, 2`.
std::string rank_list(const std::vector<int>& ranks);
/// `rank 3 has waited 30 s in all_reduce %17 over {data}; ranks 1, 2 have not arrived`.
std::string waiting_message(int rank, int seconds, const std::string& text, const std::vector<int>& absent);
/// `rank 0 waits in all_reduce %17 over {data}; rank 2 has finished without joining`.
std::string finished_message(int rank, const std::string& text, const std::vector<int>& finished);
/// `waited 600 s in all_reduce %17 over {data}, as long as TESSERA_COLLECTIVE_TIMEOUT allows; ranks 1, 2 have not arrived`.
std::string timeout_message(int seconds, const std::string& text, const std::vector<int>& absent);
/// The lines below these messages, one for each rank that `rank` waits for, directly or not:
///   rank 1 waits for rank 2 in permute %9 over {model}
///   rank 2 is the cause: it runs %fusion.3 (fused), step 12 of 40 of train_step
std::string cause_text(int rank, const std::vector<int>& awaited, const ActivityOf& activity_of);

/// Thrown by a rank that has waited in a collective for as long as TESSERA_COLLECTIVE_TIMEOUT allows.
class CollectiveTimeout : public Error {
 public:
  using Error::Error;
};

using WaitingTime = std::chrono::duration<double>;
/// TESSERA_WATCHDOG_SECONDS and TESSERA_COLLECTIVE_TIMEOUT; very long for 0.
WaitingTime watchdog_interval();
WaitingTime collective_timeout();

}  // namespace tessera::collectives
