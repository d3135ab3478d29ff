// SPDX-License-Identifier: Apache-2.0
#include "compile/ship_text.h"

#include <exception>
#include <span>

#include "execution/execute.h"

namespace tessera {
namespace {

constexpr int kMaker = 0;

// The message of the rank that makes the text: the text, or an error message.
struct TextOrError {
  std::string text;
  bool failed = false;
};

TextOrError broadcast(ProcessGroup& world, std::string_view what, TextOrError mine) {
  std::int64_t header[2] = {static_cast<std::int64_t>(mine.text.size()), mine.failed ? 1 : 0};
  const CollectiveLabel label{0, fmt::format("the broadcast of {} that rank {} makes", what, kMaker)};
  world.broadcast(std::as_writable_bytes(std::span(header)), kMaker, label);
  mine.text.resize(static_cast<std::size_t>(header[0]));
  mine.failed = header[1] != 0;
  world.broadcast(std::as_writable_bytes(std::span(mine.text)), kMaker, label);
  return mine;
}

}  // namespace

std::string text_from_one_rank(std::string_view what, std::string_view work, const std::function<std::string()>& make) {
  ProcessGroup& world = *session().world;
  const WorkScope scope(world, work);
  TextOrError received;
  std::exception_ptr error;
  if (world.rank() == kMaker) {
    try {
      received.text = make();
    } catch (const std::exception& caught) {
      error = std::current_exception();
      received = {message_for_user(caught), true};
    }
  }
  received = broadcast(world, what, std::move(received));
  if (error) std::rethrow_exception(error);
  if (received.failed) throw Error(received.text);
  return std::move(received.text);
}

}  // namespace tessera
