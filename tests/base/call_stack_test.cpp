// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/call_stack.h"

#include <gtest/gtest.h>

#include <algorithm>

using Frames = std::vector<std::string>;

// External linkage, because a stack names exported functions only.
[[gnu::noinline]] Frames frames_in_code_of_a_user() {
  Frames out = tessera::call_stack();
  out.emplace_back("end");
  return out;
}

namespace tessera {
namespace {

TEST(CallStack, NamesTheFunctionsThatLedToIt) {
  const Frames stack = frames_in_code_of_a_user();
  EXPECT_TRUE(std::any_of(stack.begin(), stack.end(), [](const std::string& frame) {
    return frame.starts_with("frames_in_code_of_a_user");
  })) << stack.front();
}

TEST(CallStack, UserFramesAreThoseOutsideOfTessera) {
  const Frames stack = {"tessera::(anonymous namespace)::read_by_program(int)",
                        "tessera::Tensor::item(std::source_location) const",
                        "train_step(tessera::Tensor const&) (train.cpp:41)",
                        "std::function<int (int)>::operator()(int) const",
                        "int tessera::in_context<int>(int)",
                        "decltype(auto) tessera::in_context<main::{lambda()#1}>(main::{lambda()#1}&&)",
                        "train()",
                        "main",
                        "__libc_start_main"};
  EXPECT_EQ(user_frames(stack, 8), (Frames{"train_step(tessera::Tensor const&) (train.cpp:41)", "train()", "main"}));
  EXPECT_EQ(user_frames(stack, 1), (Frames{"train_step(tessera::Tensor const&) (train.cpp:41)"}));
  EXPECT_EQ(user_frames({stack[0], stack[1]}, 1), (Frames{stack[0]}));
}

}  // namespace
}  // namespace tessera
