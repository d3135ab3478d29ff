// SPDX-License-Identifier: Apache-2.0
// Folders of images, and JSON Lines.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <png.h>

#include <filesystem>

#include "support/temporary_folder.h"
#include "tessera/data/image_folder.h"
#include "tessera/data/images.h"
#include "tessera/data/json_lines.h"
#include "tessera/data/loader.h"
#include "tessera/data/padding.h"

namespace tessera::data {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;
using Bytes = std::vector<std::uint8_t>;

// Encodes pixels with libpng.
std::string png_of(unsigned width, unsigned height, png_uint_32 format, const Bytes& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr), 0) << image.message;
  std::string out(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr), 0) << image.message;
  out.resize(size);
  return out;
}

Bytes pixels_of(const Literal& image) {
  const auto data = image.data<std::uint8_t>();
  return {data.begin(), data.end()};
}

TEST(ReadImage, PngPpmAndPgmGiveTheirPixels) {
  const Bytes rgb = {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 8, 7, 255, 255, 255, 0, 0, 0};  // 3 x 2
  const Literal png = parse_image(png_of(3, 2, PNG_FORMAT_RGB, rgb), "a.png", 3);
  EXPECT_EQ(png.type().dims(), (Dims{2, 3, 3}));
  EXPECT_EQ(pixels_of(png), rgb);
  const std::string ppm = "P6 # a comment\n3\t2\n255\n" + std::string(rgb.begin(), rgb.end());
  EXPECT_EQ(parse_image(ppm, "a.ppm", 3), png);
  const Bytes grey = {0, 100, 255, 7};
  const std::string pgm = "P5\n2 2 255 " + std::string(grey.begin(), grey.end());
  EXPECT_EQ(pixels_of(parse_image(pgm, "a.pgm", 1)), grey);
  EXPECT_EQ(pixels_of(parse_image(pgm, "a.pgm", 3)), (Bytes{0, 0, 0, 100, 100, 100, 255, 255, 255, 7, 7, 7}));
  EXPECT_EQ(pixels_of(parse_image(png_of(2, 2, PNG_FORMAT_GRAY, grey), "a.png", 1)), grey);
  EXPECT_EQ(pixels_of(parse_image("P6 2 1 255 \xff\xff\xff" + std::string(3, '\0'), "a.ppm", 1)), (Bytes{255, 0}));
  // What is transparent is black.
  EXPECT_EQ(pixels_of(parse_image(png_of(2, 1, PNG_FORMAT_RGBA, {9, 8, 7, 255, 200, 200, 200, 0}), "a.png", 3)),
            (Bytes{9, 8, 7, 0, 0, 0}));
}

TEST(ReadImage, DamageIsNamed) {
  const auto error = [](const std::string& bytes) { return error_of([&] { (void)parse_image(bytes, "x", 3); }); };
  std::string png = png_of(40, 40, PNG_FORMAT_RGB, Bytes(4800, 3));
  EXPECT_EQ(error(png), "no error");
  EXPECT_EQ(error("GIF89a"), "x: not an image in a supported format; PNG, PPM (P6) and PGM (P5) are supported");
  EXPECT_TRUE(error(png.substr(0, png.size() / 2)).starts_with("x: damaged PNG image: "));
  std::string huge = png;
  huge[16] = huge[20] = 0x3f;  // width and height of more than 10^9; the checksum of the header is wrong, too
  EXPECT_TRUE(error(huge).starts_with("x: damaged PNG image: ")) << error(huge);
  std::string too_wide = png_of(40, 40, PNG_FORMAT_RGB, Bytes(4800, 3));
  too_wide.replace(16, 8, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff"));
  EXPECT_GT(error(too_wide).size(), std::string("x: damaged PNG image: ").size()) << error(too_wide);
  EXPECT_EQ(error("P6 2 2 255 abc"), "x: a PPM image of 2 x 2 pixels has 12 bytes, got 3");
  EXPECT_EQ(error("P6 1000000000 1000000000 255 abc").find("x: a PPM image of 1000000000 x 1000000000 pixels"), 0U);
  EXPECT_EQ(error("P6 2 99999999999999999999 255 abc"), "x: damaged PPM image: the header has no valid height");
  EXPECT_EQ(error("P6 2 2 65535 abc"), "x: the largest value of a PPM image must be 255, got 65535");
  EXPECT_EQ(error("P6"), "x: damaged PPM image: the header has no valid width");
}

TEST(ReadImage, AHugeFileIsNotRead) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.png", "");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40U);  // without data
  EXPECT_EQ(error_of([&] { (void)read_image(path, 3); }),
            path + ": the file has 1099511627776 bytes; an image may have at most 268435456");
}

TEST(ImageFolder, ClassesAreTheSortedSubFolders) {
  const TemporaryFolder folder;
  const auto image = [](std::uint8_t value) { return png_of(2, 1, PNG_FORMAT_GRAY, {value, 255}); };
  (void)folder.write("dog/b.png", image(10));
  (void)folder.write("cat/z.png", image(20));
  (void)folder.write("cat/a/a.png", image(30));
  (void)folder.write("cat/notes.txt", "no image");
  const auto images = std::make_shared<ImageFolder>(folder.file(""), 1);
  EXPECT_EQ(images->classes(), (std::vector<std::string>{"cat", "dog"}));
  Loader loader(images, {.batch_size = 4, .num_workers = 2});
  const Batch batch = loader.next().value();
  EXPECT_EQ(batch.field("labels").shard, Literal::from<std::int32_t>({4}, {0, 0, 1, kIgnoredLabel}));
  const auto& pixels = batch.field("pixel_values");
  EXPECT_EQ(pixels.type.dims(), (Dims{4, 1, 1, 2}));
  EXPECT_FLOAT_EQ(pixels.shard.data<float>()[0], 30.0F / 255);
  EXPECT_FLOAT_EQ(pixels.shard.data<float>()[5], 1);

  (void)folder.write("dog/c.png", "nothing");
  Loader broken(std::make_shared<ImageFolder>(folder.file(""), 1), {.batch_size = 4, .num_workers = 2});
  EXPECT_EQ(error_of([&] { (void)broken.next(); }), folder.file("dog/c.png") +
                                                        ": not an image in a supported format; PNG, PPM (P6) and PGM "
                                                        "(P5) are supported\n  in sample 3 of the loader's source");
  std::filesystem::create_directory(folder.file("eel"));
  EXPECT_EQ(error_of([&] { ImageFolder(folder.file("")); }),
            "the folder " + folder.file("eel") + " has no *.png, *.ppm or *.pgm");
  EXPECT_EQ(error_of([&] { ImageFolder(folder.file("eel")); }),
            "the folder " + folder.file("eel") + " has no sub-folders; each class of images must have one");
}

TEST(ImageFolder, SuffixesMayBeInUpperCaseAndOtherFilesAreNamed) {
  const TemporaryFolder folder;
  const std::string image = png_of(1, 1, PNG_FORMAT_GRAY, {7});
  for (const char* name : {"cat/1.PNG", "cat/2.Png", "dog/1.png", "cat/.hidden/3.png", "cat/._1.png"})
    (void)folder.write(name, image);
  std::filesystem::create_directory(folder.file(".ipynb_checkpoints"));
  const auto read = [&] {
    ::testing::internal::CaptureStderr();
    const ImageFolder images(folder.path(), 1);
    EXPECT_EQ(images.classes(), (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(images.size(), 3);
    EXPECT_EQ(images.path(0), folder.file("cat/1.PNG"));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(read(), "");
  const std::string photo = folder.write("dog/x.jpg", "a photo");
  EXPECT_EQ(read(),
            "warning: " + photo + " is not a PNG or PPM image and is left out; if it is an image, convert it\n");
  (void)folder.write("dog/y.JPEG", "a photo");
  EXPECT_EQ(read(), "warning: 2 files are not PNG or PPM images and are left out, for example " + photo +
                        "; if they are images, convert them\n");
  std::filesystem::remove(folder.file("dog/1.png"));
  EXPECT_EQ(error_of([&] { ImageFolder(folder.path()); }), "the folder " + folder.file("dog") +
                                                               " has no *.png, *.ppm or *.pgm; if files such as " +
                                                               photo + " are images, convert them");
}

TEST(ImageFolder, LinksToNothingAreNamed) {
  const TemporaryFolder folder;
  (void)folder.write("train/cat/1.png", png_of(1, 1, PNG_FORMAT_GRAY, {7}));
  const auto error_with = [&](const std::string& name, const std::string& read) {
    const std::string link = folder.file(name);
    std::filesystem::create_symlink("/no/such", link);
    const std::string error = error_of([&] { ImageFolder(folder.file(read)); });
    std::filesystem::remove(link);
    const std::string what = link + " is a symbolic link to /no/such, which does not exist";
    return error == what || error == "cannot read " + link + ": " + what ? "named" : error;
  };
  EXPECT_EQ(error_with("train/cat/2.png", "train"), "named");
  EXPECT_EQ(error_with("train/dog", "train"), "named");
  EXPECT_EQ(error_with("val", "val"), "named");
  EXPECT_EQ(error_of([&] { ImageFolder(folder.file("train")); }), "no error");
}

TEST(ImageFolder, ReadsTheImagesOfFashionMnist) {
  const ImageDataset wanted = read_mnist(std::string(kFashionMnistFolder), "t10k");
  const TemporaryFolder folder;
  for (std::int64_t i = 0; i < 50; ++i) {
    const auto data = wanted.images.data<std::uint8_t>().subspan(static_cast<std::size_t>(i) * 784, 784);
    (void)folder.write(fmt::format("{}/{:03}.png", wanted.labels.data<std::uint8_t>()[static_cast<std::size_t>(i)], i),
                       png_of(28, 28, PNG_FORMAT_GRAY, Bytes(data.begin(), data.end())));
  }
  const ImageFolder images(folder.file(""), 1);
  ASSERT_EQ(images.size(), 50);
  for (std::int64_t i = 0; i < 50; ++i) {
    const std::int64_t number = std::stoll(std::filesystem::path(images.path(i)).stem());
    const Arrays sample = images.get(i);
    EXPECT_EQ(sample.at("pixel_values").reshaped({1, 784}), wanted.pixels({number}));
    EXPECT_EQ(sample.at("labels").reshaped({1}), wanted.classes_of({number}));
  }
}

TEST(JsonLines, LinesAreSamples) {
  const TemporaryFolder folder;
  (void)folder.write("b.jsonl",
                     "{\"text\": \"ab\", \"label\": 3, \"score\": [0.5, 1]}\n\n  \n"
                     "{\"text\": \"cde\", \"label\": -1, \"score\": [2, 1e3]}");
  (void)folder.write("a/c.jsonl", "{\"text\": \"\xc3\xa9\", \"label\": 0, \"score\": [1.5, 0]}\r\n");
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  const auto lines =
      std::make_shared<JsonLines>(std::vector<std::string>{folder.file("")},
                                  JsonLinesOptions{.tokenizer = tokenizer, .columns = {"label", "score"}});
  ASSERT_EQ(lines->size(), 3);
  Loader loader(lines,
                {.batch_size = 3, .num_workers = 2, .collator = std::make_shared<PaddingCollator>(PaddingOptions{})});
  const Batch batch = loader.next().value();
  EXPECT_EQ(batch.field("input_ids").shard,
            Literal::from<std::int32_t>({3, 3}, {0xc3, 0xa9, 0, 'a', 'b', 0, 'c', 'd', 'e'}));
  EXPECT_EQ(batch.field("label").shard, Literal::from<std::int32_t>({3}, {0, 3, -1}));
  EXPECT_EQ(batch.field("score").shard, Literal::from<float>({3, 2}, {1.5F, 0, 0.5F, 1, 2, 1000}));
}

TEST(JsonLines, ErrorsNameFileAndLine) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"txt\": \"ab\"}\n{\"text\": 3}\n[1]\n{\"text\"\n");
  const JsonLines lines({path}, {.tokenizer = std::make_shared<ByteTokenizer>()});
  const auto error = [&](std::int64_t i) { return error_of([&] { (void)lines.get(i); }); };
  EXPECT_EQ(error(0), path + ", line 1: has no key \"text\"; did you mean \"txt\"?");
  EXPECT_EQ(error(1), path + ", line 2: \"text\" must be a text, got 3");
  EXPECT_EQ(error(2), path + ", line 3: expected an object, got [1]");
  EXPECT_TRUE(error(3).starts_with(path + ", line 4: not JSON at column 8: ")) << error(3);
  EXPECT_EQ(error_of([&] { (void)JsonLines({path}, {.columns = {"text"}}).get(1); }), "no error");
  EXPECT_EQ(error_of([&] { (void)JsonLines({path}, {.columns = {"txt"}}).get(0); }),
            path + ", line 1, key \"txt\": expected a number, got \"ab\"");
  EXPECT_EQ(error_of([&] { JsonLines({path}, {}); }), "a JSON Lines source needs a tokenizer or columns");
  EXPECT_EQ(error_of([&] { JsonLines({folder.write("b.jsonl", "\n \n")}, {.columns = {"x"}}); }),
            "no lines in " + folder.file("b.jsonl"));
  (void)folder.write("empty/c.jsonl", "");
  EXPECT_EQ(error_of([&] { JsonLines({folder.file("empty")}, {.columns = {"x"}}); }),
            "no lines in *.jsonl files in " + folder.file("empty"));
}

}  // namespace
}  // namespace tessera::data
