// SPDX-License-Identifier: Apache-2.0
// Stops training on Ctrl-C and similar signals: the first signal ends the run after the current step, the second one
// immediately.
#pragma once

#include <string>

#include "tessera/collectives/process_group.h"

namespace tessera::trainer {

/// Starts to watch SIGINT, SIGTERM and SIGUSR1 (which cluster schedulers send before the time limit). The first signal is recorded; a second one ends the process as usual. Launchers
/// may turn one Ctrl-C into both signals, so a different signal within a second of the first does not count. The handler
/// does not run in threads that compute (leave_signals_to_another_thread).
void watch_stop_signals();
/// Returns the signal that a rank of `world` has received, or 0. The result is the same on every rank. Collective.
int agreed_stop_signal(ProcessGroup& world);
/// Returns "SIGINT", "SIGTERM" or "SIGUSR1".
std::string signal_name(int signal);

}  // namespace tessera::trainer
