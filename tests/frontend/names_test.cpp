// SPDX-License-Identifier: Apache-2.0
// The names that a program sees that includes tessera.h alone.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/tessera.h"

// Each of these names is ambiguous below if Tessera shows it too.
struct TensorImpl {};
struct Trace {};
struct TraceScope {};
struct Node {};
struct NodeHandle {};
struct Unshard {};
struct FunctionTrace {};
struct GraphBreak {};
struct HashText {};
static int trace() { return 1; }
static int stored_tensor(const tessera::Tensor& tensor) { return tensor.ndim(); }
static int at_call(const tessera::Tensor& tensor) { return tensor.ndim(); }
static std::size_t isize(const std::vector<int>& values) { return values.size(); }
static int at(const std::vector<int>& values, int i) { return values[static_cast<std::size_t>(i)]; }
static std::string trim(const std::string& text) { return text.substr(1); }
static std::string quote(const std::string& text) { return "<" + text + ">"; }
static std::vector<std::string> split(const std::string& text, char) { return {text}; }
static std::string join(const std::vector<std::string>& texts) { return texts.front(); }

using namespace tessera;  // NOLINT(google-build-using-namespace): the subject of the test

TEST(Names, a_program_may_use_the_names_of_inner_classes_and_helpers) {
  EXPECT_EQ(sizeof(TensorImpl) + sizeof(Trace) + sizeof(TraceScope) + sizeof(Node) + sizeof(NodeHandle), 5u);
  EXPECT_EQ(sizeof(Unshard) + sizeof(FunctionTrace) + sizeof(GraphBreak) + sizeof(HashText), 4u);
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(trace() + stored_tensor(x) + at_call(x), 5);
  EXPECT_EQ(isize(std::vector<int>{7, 8}), 2u);
  EXPECT_EQ(at(std::vector<int>{7, 8}, 1), 8);
  EXPECT_EQ(join(split(quote(trim(" a")), ',')), "<a>");
}
