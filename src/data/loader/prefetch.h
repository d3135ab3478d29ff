// SPDX-License-Identifier: Apache-2.0
// Makes items in threads and gives them in the order of their requests.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/base/rank_context.h"
#include "tessera/base/timeline.h"

namespace tessera::data {

template <class Request, class Item>
class Prefetch {
 public:
  /// `request` is called by one thread at a time, in the order of the items; `make` by several. At most `capacity` items
  /// are requested before they are taken. Without workers, take() makes the item.
  Prefetch(std::function<Request()> request, std::function<Item(Request)> make, int workers, std::int64_t capacity)
      : request_(std::move(request)), make_(std::move(make)), capacity_(capacity), context_(RankContext::current()) {
    threads_.reserve(static_cast<std::size_t>(workers));
    try {
      for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { serve(); });
    } catch (...) {  // the system has no more threads
      end();
      throw;
    }
  }
  /// Waits for the items that are being made.
  ~Prefetch() { end(); }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  /// Returns the next item, or throws the exception of its request or of make().
  Item take() {
    if (threads_.empty()) return make_(request_());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.contains(taken_); });
    Slot slot = std::move(done_.extract(taken_).mapped());
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    if (slot.error) std::rethrow_exception(slot.error);
    return std::move(*slot.item);
  }

 private:
  struct Slot {
    std::optional<Item> item;
    std::exception_ptr error;
  };

  void end() {
    {
      const std::scoped_lock lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void serve() {
    const RankScope scope(context_);
    const NamedThread name("loader worker");
    while (true) {
      // The next request and its number belong together; other workers make items meanwhile.
      std::unique_lock turn(request_mutex_);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_ending_ || requested_ < taken_ + capacity_; });
      if (is_ending_) return;
      const std::int64_t number = requested_++;
      lock.unlock();
      Slot slot;
      try {
        Request request = request_();
        turn.unlock();
        slot.item.emplace(make_(std::move(request)));
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      done_.emplace(number, std::move(slot));
      lock.unlock();
      changed_.notify_all();
    }
  }

  std::function<Request()> request_;
  std::function<Item(Request)> make_;
  std::int64_t capacity_;
  RankContext& context_;
  std::mutex request_mutex_;  // locked before mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Slot> done_;
  std::int64_t requested_ = 0;
  std::int64_t taken_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::data
