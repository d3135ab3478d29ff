// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/signals.h"

#include <csignal>
#include <thread>

#include <pthread.h>
#include <unistd.h>

namespace tessera {
namespace {

sigset_t all_signals_but_errors() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int error : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&signals, error);
  return signals;
}

void start_receiver() {
  std::thread([] {
    const sigset_t signals = all_signals_but_errors();
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    for (;;) pause();
  }).detach();
}

}  // namespace

void leave_signals_to_another_thread() {
  thread_local const bool kIsBlocked = [] {
    static const bool kHasReceiver = (start_receiver(), true);
    const sigset_t signals = all_signals_but_errors();
    return kHasReceiver && pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0;
  }();
  static_cast<void>(kIsBlocked);
}

}  // namespace tessera
