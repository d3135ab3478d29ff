// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/image_folder.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostBytesOfImage = std::int64_t{256} << 20;

// Checks the size that a header states before memory is allocated for it.
Literal image_of_size(std::int64_t height, std::int64_t width, int channels, const std::string& name) {
  require(height >= 1 && width >= 1 && height <= kMostBytesOfImage / width / channels,
          "{}: the image has {} x {} pixels; it must have at least one pixel and at most {} bytes", name, width, height,
          kMostBytesOfImage);
  return Literal(Type::array(DType::kU8, {height, width, channels}));
}

// libpng gives no message for some damages, such as a wrong checksum of the header.
std::string_view reason_of(const png_image& image) {
  return image.message[0] != '\0' ? std::string_view(image.message) : "its header is not valid";
}

// libpng's simplified interface needs no setjmp: its functions return 0 and set a message.
Literal parse_png(std::string_view bytes, const std::string& name, int channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> closer(&image, png_image_free);
  require(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) != 0, "{}: damaged PNG image: {}", name,
          reason_of(image));
  // Deflate packs at most 1032 bytes into one, and a byte has at most 8 pixels. A header that states more is wrong.
  constexpr std::int64_t kMostPixelsPerByte = std::int64_t{8} * 1032;
  const std::int64_t pixels = std::int64_t{image.width} * std::int64_t{image.height};
  require(pixels / kMostPixelsPerByte <= static_cast<std::int64_t>(bytes.size()),
          "{}: damaged PNG image: {} bytes cannot contain {} x {} pixels", name, bytes.size(), image.width,
          image.height);
  Literal out = image_of_size(image.height, image.width, channels, name);
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  const png_color black{};
  const int is_read = png_image_finish_read(&image, &black, out.mutable_bytes().data(), 0, nullptr);
  require(is_read != 0 && !PNG_IMAGE_FAILED(image), "{}: damaged PNG image: {}", name, reason_of(image));
  return out;
}

// Reads the words of a PPM header, between which blanks and comments are.
class PpmHeader {
 public:
  PpmHeader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  std::int64_t number(const char* what) {
    skip_blanks();
    std::int64_t out = 0;
    const std::size_t start = at_;
    constexpr std::int64_t kMost = 1 << 30;
    for (; at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9' && out < kMost; ++at_)
      out = out * 10 + (bytes_[at_] - '0');
    require(at_ > start && out < kMost, "{}: damaged PPM image: the header has no valid {}", name_, what);
    return out;
  }
  // Skips the blank that ends the header.
  std::string_view pixels() { return at_ < bytes_.size() ? bytes_.substr(at_ + 1) : std::string_view(); }

 private:
  void skip_blanks() {
    for (bool in_comment = false; at_ < bytes_.size(); ++at_) {
      const char c = bytes_[at_];
      in_comment = (in_comment && c != '\n') || c == '#';
      if (!in_comment && std::string_view(" \t\r\n").find(c) == std::string_view::npos) return;
    }
  }
  std::string_view bytes_;
  const std::string& name_;
  std::size_t at_ = 2;  // after P5 or P6
};

std::uint8_t grey_of(const unsigned char* rgb) {  // Rec. 709, as libpng
  constexpr unsigned kRed = 6968;
  constexpr unsigned kGreen = 23434;
  constexpr unsigned kBlue = 2366;
  return static_cast<std::uint8_t>((kRed * rgb[0] + kGreen * rgb[1] + kBlue * rgb[2] + 16384U) >> 15U);
}

Literal parse_ppm(std::string_view bytes, const std::string& name, int channels) {
  const int stored = bytes[1] == '6' ? 3 : 1;
  PpmHeader header(bytes, name);
  const std::int64_t width = header.number("width");
  const std::int64_t height = header.number("height");
  const std::int64_t most = header.number("largest value");
  require(most == 255, "{}: the largest value of a PPM image must be 255, got {}", name, most);
  const std::string_view pixels = header.pixels();
  const std::int64_t size = height * width * stored;  // each is below 2^30
  require(static_cast<std::int64_t>(pixels.size()) == size, "{}: a PPM image of {} x {} pixels has {} bytes, got {}",
          name, width, height, size, pixels.size());
  Literal out = image_of_size(height, width, channels, name);
  const auto to = out.mutable_data<std::uint8_t>();
  const auto* from = reinterpret_cast<const unsigned char*>(pixels.data());
  for (std::int64_t i = 0; i < height * width; ++i) {
    const unsigned char* pixel = from + i * stored;
    for (int c = 0; c < channels; ++c)
      at(to, i * channels + c) = stored == channels ? pixel[c] : stored == 1 ? pixel[0] : grey_of(pixel);
  }
  return out;
}

bool is_image(const fs::path& path) {
  std::string suffix = path.extension().string();
  for (char& c : suffix) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return suffix == ".png" || suffix == ".ppm" || suffix == ".pgm";
}

// Such as .ipynb_checkpoints and .DS_Store.
bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// The files of a class, sorted by path, without hidden ones.
struct ClassFiles {
  std::vector<std::string> images;
  std::vector<std::string> others;
};

ClassFiles files_of_class(const fs::path& folder) {
  ClassFiles out;
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path& path = entry->path();
    if (is_hidden(path))
      entry.disable_recursion_pending();
    else if (entry->is_symlink() && !entry->exists() && is_image(path))
      check_readable(path.string());  // gives the reason
    else if (entry->is_regular_file())
      (is_image(path) ? out.images : out.others).push_back(path.string());
  }
  std::sort(out.images.begin(), out.images.end());
  std::sort(out.others.begin(), out.others.end());
  require(!out.images.empty(), "the folder {} has no *.png, *.ppm or *.pgm{}", folder.string(), [&] {
    return out.others.empty() ? "" : fmt::format("; if files such as {} are images, convert them", out.others.front());
  });
  return out;
}

void warn_of_other_files(std::int64_t count, const std::string& first) {
  if (count == 1)
    log_shared_warning("{} is not a PNG or PPM image and is left out; if it is an image, convert it", first);
  if (count > 1)
    log_shared_warning(
        "{} files are not PNG or PPM images and are left out, for example {}; if they are images, convert them", count,
        first);
}

}  // namespace

Literal parse_image(std::string_view bytes, const std::string& name, int channels) {
  require(channels == 1 || channels == 3, "an image has 1 or 3 channels, got {}", channels);
  if (bytes.starts_with("P5") || bytes.starts_with("P6")) return parse_ppm(bytes, name, channels);
  require(bytes.starts_with("\x89PNG"),
          "{}: not an image in a supported format; PNG, PPM (P6) and PGM (P5) are supported", name);
  return parse_png(bytes, name, channels);
}

Literal read_image(const std::string& path, int channels) {
  const InputFile file(path);
  require(static_cast<std::int64_t>(file.size()) <= kMostBytesOfImage,
          "{}: the file has {} bytes; an image may have at most {}", path, file.size(), kMostBytesOfImage);
  std::string bytes(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return parse_image(bytes, path, channels);
}

ImageFolder::ImageFolder(const std::string& folder, int channels) : channels_(channels) {
  require(channels == 1 || channels == 3, "an image has 1 or 3 channels, got {}", channels);
  const std::string link = dangling_link_text(folder);
  require(link.empty(), "{}", link);
  require(fs::is_directory(folder), "{} is not a folder of images", folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    if (entry.is_symlink() && !entry.exists()) check_readable(entry.path().string());  // gives the reason
    if (entry.is_directory()) classes_.push_back(entry.path().filename().string());
  }
  require(!classes_.empty(), "the folder {} has no sub-folders; each class of images must have one", folder);
  std::sort(classes_.begin(), classes_.end());
  std::int64_t other_count = 0;
  std::string first_other;
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    ClassFiles found = files_of_class(fs::path(folder) / classes_[label]);
    for (std::string& path : found.images) files_.push_back({std::move(path), static_cast<std::int32_t>(label)});
    if (first_other.empty() && !found.others.empty()) first_other = found.others.front();
    other_count += isize(found.others);
  }
  warn_of_other_files(other_count, first_other);
}

const std::string& ImageFolder::path(std::int64_t i) const { return at(files_, i).path; }

Arrays ImageFolder::get(std::int64_t i) const {
  const File& file = at(files_, i);
  const Literal image = read_image(file.path, channels_);
  const std::int64_t pixels = image.type().dim(0) * image.type().dim(1);
  Literal values(Type::array(DType::kF32, {channels_, image.type().dim(0), image.type().dim(1)}));
  const auto from = image.data<std::uint8_t>();
  const auto to = values.mutable_data<float>();
  constexpr float kWhite = 255;
  for (int c = 0; c < channels_; ++c)
    for (std::int64_t p = 0; p < pixels; ++p)
      at(to, c * pixels + p) = static_cast<float>(at(from, p * channels_ + c)) / kWhite;
  return {{"pixel_values", std::move(values)}, {"labels", Literal::scalar<std::int32_t>(file.label)}};
}

}  // namespace tessera::data
