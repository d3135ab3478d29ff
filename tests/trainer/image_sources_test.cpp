// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "frontend/on_ranks.h"
#include "support/temporary_folder.h"
#include "tasks/image_sources.h"
#include "tasks/tasks.h"
#include "tessera/nn/models/bert.h"
#include "tessera/nn/models/resnet.h"
#include "tessera/trainer/programs.h"

namespace tessera::trainer {
namespace {

// Channel 0 has the number of the column, channel 1 that of the row.
Literal ramp(std::int64_t height, std::int64_t width) {
  std::vector<float> pixels;
  for (int channel = 0; channel < 3; ++channel)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        pixels.push_back(static_cast<float>(channel == 0 ? x : channel == 1 ? y : 0));
  return Literal::from<float>({3, height, width}, pixels);
}

TEST(ScaledPart, InterpolatesAndMirrors) {
  const Literal image = ramp(5, 8);
  const Literal scaled = scaled_part(image, {1, 2, 4, 4, false}, 2);
  const auto plain = scaled.data<float>();
  // The centres of the two halves of columns 2..5 are at 3 and 5, that is, between the pixels 2|3 and 4|5.
  EXPECT_EQ((std::vector<float>(plain.begin(), plain.begin() + 8)),
            (std::vector<float>{2.5, 4.5, 2.5, 4.5, 1.5, 1.5, 3.5, 3.5}));
  const auto mirrored = scaled_part(image, {1, 2, 4, 4, true}, 2);
  const auto pixels = mirrored.data<float>();
  EXPECT_EQ((std::vector<float>(pixels.begin(), pixels.begin() + 4)), (std::vector<float>{4.5, 2.5, 4.5, 2.5}));
}

TEST(RandomPart, IsInsideTheImageAndHasTheAreaAndTheRatio) {
  double mirrored = 0, area = 0;
  constexpr int kParts = 2000;
  for (std::uint64_t seed = 0; seed < kParts; ++seed) {
    const ImagePart part = random_part(61, 97, seed);
    EXPECT_TRUE(part.top >= 0 && part.left >= 0 && part.top + part.height <= 61 && part.left + part.width <= 97);
    const double ratio = part.width / part.height;
    EXPECT_TRUE(ratio > 0.70 && ratio < 1.43) << ratio;  // 3:4 and 4:3, rounded to pixels
    const double covered = part.width * part.height / (61 * 97);
    EXPECT_TRUE(covered > 0.07 && covered <= 1);
    area += covered / kParts;
    mirrored += part.is_mirrored ? 1.0 / kParts : 0;
  }
  EXPECT_NEAR(mirrored, 0.5, 0.05);
  // A part of the ratio r fits up to the area 61 r / 97. The mean over the areas from 0.08 to that one, and over r from 3:4
  // to 4:3 in equal steps of log r, is 0.369.
  EXPECT_NEAR(area, 0.369, 0.02);
}

TEST(RandomPart, OfAVeryLongImageIsItsCentre) {
  const ImagePart part = random_part(3, 400, 1);
  EXPECT_EQ(part.height, 3);
  EXPECT_EQ(part.width, 4);
  EXPECT_EQ(part.left, 198);
}

TEST(RandomParts, DependOnSeedEpochAndSampleOnly) {
  const RandomParts collator(4);
  const std::vector<data::Arrays> images = {
      {{"pixel_values", ramp(20, 31)}, {"labels", Literal::from<std::int32_t>({}, {1})}},
      {{"pixel_values", ramp(17, 9)}, {"labels", Literal::from<std::int32_t>({}, {2})}}};
  const auto row = [&](std::vector<data::Arrays> samples, std::vector<std::int64_t> numbers, std::int64_t epoch,
                       std::size_t which) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    const data::Arrays out =
        collator.collate(samples, {.rows = count, .real_rows = count, .samples = numbers, .seed = 5, .epoch = epoch});
    const auto pixels = out.at("pixel_values").data<float>();
    return std::vector<float>(pixels.begin() + static_cast<std::ptrdiff_t>(48 * which),
                              pixels.begin() + static_cast<std::ptrdiff_t>(48 * (which + 1)));
  };
  const auto both = row(images, {7, 9}, 2, 1);
  EXPECT_EQ(both, row({images[1]}, {9}, 2, 0));
  EXPECT_NE(both, row({images[1]}, {9}, 3, 0));
  EXPECT_NE(both, row({images[1]}, {8}, 2, 0));
}

// Labels outside of the range would give losses without a meaning: the devices do not check them.
TEST(ImageTask, AModelNeedsALabelForEachClass) {
  using ::tessera::testing::error_of;
  const FreshRank rank;
  const ::tessera::testing::TemporaryFolder folder;
  for (const char* part : {"train", "val"})
    for (const char* name : {"cat", "dog", "eel"})
      (void)folder.write(std::string(part) + "/" + name + "/1.ppm", "P6\n1 1\n255\nabc");
  TrainingArguments arguments = image_defaults();
  arguments.datadir = folder.path();
  arguments.image_size = 33;
  const auto error_with = [&](const std::string& config) {
    arguments.model = folder.write("model.json", config);
    return error_of([&] { (void)make_image_task(arguments); });
  };
  const std::string two = nn::ResNetConfig::tiny(2).to_json();
  const std::string start = "--model " + folder.file("model.json");
  EXPECT_EQ(error_with(two), start + " has 2 labels (id2label or num_labels), but " + folder.file("train") +
                                 " has 3 classes; a model needs a label for each class");
  EXPECT_EQ(error_with(nn::ResNetConfig::tiny(3).to_json()), "no error");
  std::filesystem::remove_all(folder.file("val"));
  std::filesystem::create_symlink("/no/such", folder.file("val"));
  EXPECT_EQ(error_with(two), folder.file("val") + " is a symbolic link to /no/such, which does not exist");
  std::filesystem::remove(folder.file("val"));
  EXPECT_EQ(error_with(nn::BertConfig::tiny().to_json()),
            start +
                " is a BertForMaskedLM; give an image classifier: ResNetForImageClassification or "
                "ViTForImageClassification");
  arguments.fake_data = true;
  arguments.fake_data_classes = 4;
  EXPECT_EQ(error_with(two), start +
                                 " has 2 labels (id2label or num_labels), but --fake_data_classes is 4; a model "
                                 "needs a label for each class");
}

}  // namespace
}  // namespace tessera::trainer
