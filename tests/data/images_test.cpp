// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/images.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "support/temporary_folder.h"
#include "tessera/base/error.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

std::string idx(unsigned char type, const std::vector<std::uint32_t>& dims, const std::string& data) {
  std::string out = {'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((dim >> shift) & 0xFFU);
  return out + data;
}

std::string gzip(const std::string& data) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, data.data(), static_cast<unsigned>(data.size()));
  gzclose(file);
  return read_file(path);
}

TEST(Idx, ReadsBytesAndBigEndianNumbers) {
  const Literal bytes = parse_idx(idx(0x08, {2, 3}, "abcdef"), "x");
  EXPECT_EQ(bytes.type().str(), "u8[2,3]");
  EXPECT_EQ(bytes.data<std::uint8_t>()[5], 'f');
  const Literal ints = parse_idx(idx(0x0C, {2}, std::string("\x00\x00\x01\x02\xFF\xFF\xFF\xFE", 8)), "x");
  EXPECT_EQ(ints.data<std::int32_t>()[0], 258);
  EXPECT_EQ(ints.data<std::int32_t>()[1], -2);
  const Literal floats = parse_idx(idx(0x0D, {1}, std::string("\x3F\xC0\x00\x00", 4)), "x");
  EXPECT_EQ(floats.data<float>()[0], 1.5F);
}

TEST(Idx, MalformedFilesGiveOneClearError) {
  EXPECT_EQ(error_of([] { parse_idx("PNG?", "x.idx"); }), "x.idx: not an idx file: it must start with two zero bytes");
  EXPECT_EQ(error_of([] { parse_idx(idx(0x07, {1}, "a"), "x.idx"); }),
            "x.idx: not an idx file: unknown element type 0x07");
  EXPECT_EQ(error_of([] {
              parse_idx(idx(0x08, {2, 3}, "abcde"), "x.idx");
            }),
            "x.idx: the idx header specifies 6 bytes of data, but the file has 5");
  EXPECT_EQ(error_of([] {
              parse_idx(idx(0x08, {4294967295U, 4294967295U, 2}, ""), "x.idx");
            }),
            "x.idx: the idx header specifies more than 17179869184 bytes");
  EXPECT_EQ(error_of([] {
              parse_idx(idx(0x08, {2, 3}, "").substr(0, 7), "x.idx");
            }),
            "x.idx: the idx header of 2 dims is truncated");
}

TEST(Idx, DamagedGzipIsNamed) {
  const TemporaryFolder folder;
  const std::string good = gzip(idx(0x08, {5000}, std::string(5000, 'q')));
  EXPECT_EQ(read_idx(folder.write("good.gz", good)).type().str(), "u8[5000]");
  const std::string truncated = folder.write("cut.gz", good.substr(0, good.size() / 2));
  EXPECT_TRUE(error_of([&] { read_idx(truncated); }).starts_with(truncated + ": gzip data is damaged or truncated: "));
  const std::string more = folder.write("more.gz", good + "xx");
  EXPECT_EQ(error_of([&] { read_idx(more); }), more + ": 2 bytes follow the gzip data");
  const std::string bomb = folder.write("bomb.gz", gzip(idx(0x08, {5000}, std::string(3'000'000, 'q'))));
  EXPECT_EQ(error_of([&] { read_idx(bomb); }), bomb + ": unpacks to more than the 5008 bytes of its idx header");
}

TEST(Idx, RandomDamageIsReadOrRefusedByName) {
  std::mt19937 random(17);
  const TemporaryFolder folder;
  const std::string good = gzip(idx(0x08, {7, 3}, "abcdefghijklmnopqrstu"));
  for (int round = 0; round < 200; ++round) {
    std::string bytes = round % 2 == 0 ? good : idx(0x08, {7, 3}, "abcdefghijklmnopqrstu");
    for (int edit = 0; edit < 2; ++edit) bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    const std::string path = folder.write("damaged", bytes);
    try {
      (void)read_idx(path);
    } catch (const InternalError& error) {
      FAIL() << error.what();
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with(path)) << error.what();
    }
  }
}

TEST(Mnist, ImagesAndLabelsMustBelongTogether) {
  const TemporaryFolder folder;
  (void)folder.write("train-images-idx3-ubyte", idx(0x08, {3, 2, 2}, std::string("\x00\xFF\x33\x00zzzzyyyy", 12)));
  EXPECT_EQ(error_of([&] { read_mnist(folder.file(""), "train"); }),
            "cannot read " + folder.file("train-labels-idx1-ubyte.gz") + ": No such file or directory");
  (void)folder.write("train-labels-idx1-ubyte.gz", gzip(idx(0x08, {2}, std::string("\x01\x06", 2))));
  EXPECT_EQ(error_of([&] { read_mnist(folder.file(""), "train"); }),
            folder.file("") + ": train has 3 images but 2 labels");
  (void)folder.write("train-labels-idx1-ubyte.gz", gzip(idx(0x08, {3}, std::string("\x01\x06\x00", 3))));
  const ImageDataset data = read_mnist(folder.file(""), "train");
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.classes, 7);
  const Literal pixels = data.pixels({2, 0});
  EXPECT_EQ(pixels.type().str(), "f32[2,4]");
  EXPECT_EQ(pixels.data<float>()[5], 1.0F);
  EXPECT_EQ(data.classes_of({1, 0}).data<std::int32_t>()[0], 6);
  const Literal scaled = data.pixels({0}, 0.5F, 0.25F);
  EXPECT_EQ(scaled.data<float>()[0], -2.0F);
  EXPECT_EQ(read_mnist(folder.file(""), "train", 7).classes, 7);
  EXPECT_EQ(error_of([&] { read_mnist(folder.file(""), "train", 6); }),
            folder.file("") + ": the label of image 1 of train is 6; it must be one of 0..5");
}

TEST(FashionMnist, OfThePackageHasTheKnownSizes) {
  ASSERT_TRUE(std::filesystem::exists(kFashionMnistFolder)) << "tools/setup.sh installs dataset-fashion-mnist";
  const ImageDataset data = read_mnist(std::string(kFashionMnistFolder), "t10k");
  EXPECT_EQ(data.images.type().str(), "u8[10000,28,28]");
  EXPECT_EQ(data.classes, 10);
  std::vector<int> counts(10, 0);
  for (const std::uint8_t label : data.labels.data<std::uint8_t>()) ++counts[label];
  for (const int count : counts) EXPECT_EQ(count, 1000);
}

}  // namespace
}  // namespace tessera::data
