// SPDX-License-Identifier: Apache-2.0
#include "tessera/tensor/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t size = header.size();
  std::vector<std::byte> out(8 + header.size() + data_bytes);
  std::memcpy(out.data(), &size, 8);
  std::memcpy(out.data() + 8, header.data(), header.size());
  return out;
}
std::string message_of(const std::vector<std::byte>& bytes) {
  try {
    parse_safetensors(bytes, "f");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

SafetensorsFile sample() {
  SafetensorsFile file;
  file.metadata["format"] = "pt";
  file.tensors.emplace_back("b", Literal::from<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  file.tensors.emplace_back("a.weight", Literal::from<std::int64_t>({2}, {-1, 7}));
  file.tensors.emplace_back("empty", Literal::from<double>({0, 4}, {}));
  file.tensors.emplace_back("scalar", Literal::scalar<bool>(true));
  return file;
}

TEST(Safetensors, WrittenFilesReadBackEqual) {
  const auto bytes = print_safetensors(sample());
  const SafetensorsFile back = parse_safetensors(bytes);
  EXPECT_EQ(back.metadata.at("format"), "pt");
  ASSERT_EQ(back.tensors.size(), 4U);
  for (const auto& [name, value] : sample().tensors) {
    ASSERT_NE(back.find(name), nullptr) << name;
    EXPECT_EQ(*back.find(name), value) << name;
  }
  EXPECT_EQ(back.find("missing"), nullptr);
}

TEST(Safetensors, EveryFaultHasAnErrorThatNamesIt) {
  EXPECT_EQ(message_of(std::vector<std::byte>(3)), "f: 3 bytes are too few for a header");
  std::vector<std::byte> pointer(41);
  std::memcpy(pointer.data(), "version https://git-lfs.github.com/spec/v1\n", pointer.size());
  EXPECT_EQ(message_of(pointer),
            "f: this is a pointer of Git LFS to a file that is not downloaded yet; `git lfs pull` downloads it");
  EXPECT_EQ(message_of(file_of("nonsense", 0)), "f: header: not JSON at line 1, column 1: syntax error");
  EXPECT_EQ(message_of(file_of(R"({"x":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4)),
            "f: tensor x: unknown dtype F33; did you mean \"F32\"?");
  EXPECT_EQ(message_of(file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
            "f: tensor x: the shape needs 8 bytes, but data_offsets give 4");
  EXPECT_EQ(message_of(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,40]}})", 4)),
            "f: tensor x: data_offsets [0, 40] are outside of the 4 bytes of data; the file may be incomplete");
  EXPECT_EQ(message_of(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4)),
            "f: tensor x: data_offsets [4, 0] are in the wrong order");
  EXPECT_EQ(message_of(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8)),
            "f: tensor x starts at 4, but the previous one ends at 0");
  EXPECT_EQ(message_of(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8)),
            "f: 4 bytes of data belong to no tensor");
  EXPECT_EQ(message_of(file_of(
                R"({"x":{"dtype":"U8","shape":[4611686018427387904,4611686018427387904,0],"data_offsets":[0,0]}})", 0)),
            "f: tensor x: shape: too many elements");
}

TEST(Safetensors, ANameThatOccursTwiceIsRefused) {
  const std::string entry = R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(message_of(file_of("{" + entry + "," + entry + "}", 4)),
            "f: header: the key \"x\" occurs twice in an object");
  const std::string escaped = R"("\u0078":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})";  // also x
  EXPECT_EQ(message_of(file_of("{" + entry + "," + escaped + "}", 8)),
            "f: header: the key \"x\" occurs twice in an object");
}

TEST(Safetensors, ControlCharactersOfNamesAreEscapedInMessages) {
  EXPECT_EQ(message_of(file_of(R"({"x\u001b[2J\n":{"dtype":"F3\u0007","shape":[1],"data_offsets":[0,4]}})", 4)),
            "f: tensor x\\x1b[2J\\n: unknown dtype F3\\x07; did you mean \"F32\"?");
}

TEST(Safetensors, DamagedBytesNeverCrash) {
  const auto good = print_safetensors(sample());
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    auto bytes = good;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    try {
      parse_safetensors(bytes);
    } catch (const Error&) {  // expected
    }
  }
}

}  // namespace
}  // namespace tessera
