// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and its kin while a model trains: the first signal ends the run after the current step, the second at once.
#pragma once

#include <string>

#include "tessera/collectives/process_group.h"

namespace tessera::trainer {

/// From now on the first SIGINT or SIGTERM of this process is noted; a second ends the process as signals do. Launchers may turn one
/// Ctrl-C into both signals: another signal than the first that comes within a second of it does not count.
void watch_stop_signals();
/// The signal that a rank of `world` has noted, or 0: the same on every rank. Collective.
int agreed_stop_signal(ProcessGroup& world);
/// "SIGINT".
std::string signal_name(int signal);

}  // namespace tessera::trainer
