// SPDX-License-Identifier: Apache-2.0
// One thread of a rank communicates at a time. Who runs a program beside the rank's own thread takes the turn; a collective that the
// rank's own thread asks for meanwhile first waits until that program has ended, so that all ranks see one order of collectives. So does
// who asks for what such a program counts.
#pragma once

#include <functional>
#include <thread>

namespace tessera {

/// One per RankContext.
class CommunicationTurn {
 public:
  /// `thread` communicates from now on; `take_back` waits until it is done, calls give_back(), and throws what went wrong there.
  void give_to(std::thread::id thread, std::function<void()> take_back) {
    owner_ = thread;
    take_back_ = std::move(take_back);
  }
  void give_back() { take_back_ = nullptr; }
  /// Returns when the calling thread has the turn.
  void await() const {
    if (!take_back_ || std::this_thread::get_id() == owner_) return;
    const auto take_back = take_back_;  // which it resets
    take_back();
  }

 private:
  std::thread::id owner_;
  std::function<void()> take_back_;  // null: the rank's own thread has it
};

}  // namespace tessera
