// SPDX-License-Identifier: Apache-2.0
// Ensures that only one thread of a rank communicates at a time: the thread that has the turn. A worker takes the turn
// while it runs a program. If the rank's own thread then requests a collective or reads metrics, it first waits until
// the program has ended. All ranks therefore execute their collectives in the same order.
#pragma once

#include <functional>
#include <thread>

namespace tessera {

/// The turn of a rank. Each RankContext has one.
class CommunicationTurn {
 public:
  /// Gives the turn to `thread`. `take_back` must wait until the thread is done, call give_back(), and rethrow the
  /// error of the thread, if any.
  void give_to(std::thread::id thread, std::function<void()> take_back) {
    owner_ = thread;
    take_back_ = std::move(take_back);
  }
  void give_back() { take_back_ = nullptr; }
  /// Waits until the calling thread has the turn.
  void await() const {
    if (!take_back_ || std::this_thread::get_id() == owner_) return;
    const auto take_back = take_back_;  // because it resets the member
    take_back();
  }

 private:
  std::thread::id owner_;
  std::function<void()> take_back_;  // null if the rank's own thread has the turn
};

}  // namespace tessera
