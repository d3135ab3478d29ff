// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/images.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 34;  // a header that specifies more is wrong
constexpr std::size_t kLongestHeader = 4 + 4 * 255;

DType idx_dtype(unsigned char code, const std::string& name) {
  switch (code) {
    case 0x08: return DType::kU8;
    case 0x09: return DType::kS8;
    case 0x0B: return DType::kS16;
    case 0x0C: return DType::kS32;
    case 0x0D: return DType::kF32;
    case 0x0E: return DType::kF64;
    default: fail("{}: not an idx file: unknown element type 0x{:02x}", name, code);
  }
}

struct IdxHeader {
  DType dtype;
  Dims dims;
  std::size_t header_bytes = 0;
  std::int64_t data_bytes = 0;
};

IdxHeader read_header(std::string_view bytes, const std::string& name) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  require(bytes.size() >= 4 && byte(0) == 0 && byte(1) == 0, "{}: not an idx file: it must start with two zero bytes",
          name);
  const DType dtype = idx_dtype(byte(2), name);
  const std::size_t ndim = byte(3);
  IdxHeader out{dtype, {}, 4 + 4 * ndim, dtype_size(dtype)};
  require(ndim >= 1 && bytes.size() >= out.header_bytes, "{}: the idx header of {} dims is truncated", name, ndim);
  for (std::size_t d = 0; d < ndim; ++d) {
    std::int64_t dim = 0;
    for (std::size_t i = 0; i < 4; ++i) dim = dim * 256 + byte(4 + 4 * d + i);
    out.dims.push_back(dim);
    require(dim == 0 || out.data_bytes <= kMaxBytes / dim, "{}: the idx header specifies more than {} bytes", name,
            kMaxBytes);
    out.data_bytes *= dim;
  }
  return out;
}

std::int64_t header_and_data(std::string_view start, const std::string& name) {
  const IdxHeader header = read_header(start, name);
  return static_cast<std::int64_t>(header.header_bytes) + header.data_bytes;
}

// Returns the content of a gzip file, or the bytes themselves if they are not in gzip format. Unpacks no more than the
// header of an idx file allows.
std::string unzip(std::string_view bytes, const std::string& name) {
  const bool is_gzip = bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
  if (!is_gzip) return std::string(bytes);
  require(bytes.size() <= std::numeric_limits<uInt>::max(), "{}: gzip files of 4 GiB and more are not read", name);
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  ensure(inflateInit2(&stream, kGzip) == Z_OK, "zlib cannot be initialized");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closer(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib does not write to it
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::vector<char> chunk(1 << 18);
  std::int64_t most = kMaxBytes;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    status = inflate(&stream, Z_NO_FLUSH);
    require(status == Z_OK || status == Z_STREAM_END, "{}: gzip data is damaged or truncated: {}", name,
            stream.msg != nullptr ? stream.msg : zError(status));
    out.append(chunk.data(), chunk.size() - stream.avail_out);
    // A file that unpacks to much more than its header states must not take all memory.
    if (most == kMaxBytes && out.size() >= kLongestHeader) most = header_and_data(out, name);
    require(static_cast<std::int64_t>(out.size()) <= most, "{}: unpacks to more than the {} bytes of its idx header",
            name, most);
  }
  require(stream.avail_in == 0, "{}: {} bytes follow the gzip data", name, stream.avail_in);
  return out;
}

}  // namespace

Literal parse_idx(std::string_view bytes, const std::string& name) {
  const IdxHeader header = read_header(bytes, name);
  const auto have = static_cast<std::int64_t>(bytes.size() - header.header_bytes);
  require(have == header.data_bytes, "{}: the idx header specifies {} bytes of data, but the file has {}", name,
          header.data_bytes, have);
  Literal out(Type::array(header.dtype, header.dims));
  auto data = out.mutable_bytes();
  if (have > 0) std::memcpy(data.data(), bytes.data() + header.header_bytes, data.size());
  const auto width = static_cast<std::ptrdiff_t>(dtype_size(header.dtype));  // idx is big-endian
  if (width > 1)
    for (auto it = data.begin(); it != data.end(); it += width) std::reverse(it, it + width);
  return out;
}

Literal read_idx(const std::string& path) { return parse_idx(unzip(read_file(path), path), path); }

Literal ImageDataset::pixels(const std::vector<std::int64_t>& samples, float mean, float deviation) const {
  const std::int64_t size = images.type().dim(1) * images.type().dim(2);
  const auto from = images.data<std::uint8_t>();
  Literal out(Type::array(DType::kF32, {isize(samples), size}));
  auto to = out.mutable_data<float>();
  std::size_t next = 0;
  for (const std::int64_t sample : samples)
    for (std::int64_t i = 0; i < size; ++i)
      to[next++] = (static_cast<float>(at(from, sample * size + i)) / 255.0F - mean) / deviation;
  return out;
}

Literal ImageDataset::classes_of(const std::vector<std::int64_t>& samples) const {
  const auto from = labels.data<std::uint8_t>();
  Literal out(Type::array(DType::kS32, {isize(samples)}));
  auto to = out.mutable_data<std::int32_t>();
  for (std::size_t i = 0; i < samples.size(); ++i) to[i] = at(from, samples[i]);
  return out;
}

ImageDataset read_mnist(const std::string& folder, const std::string& part, int most_classes) {
  const auto read = [&](const std::string& kind, int ndim) {
    const std::string path = (std::filesystem::path(folder) / (part + "-" + kind)).string();
    Literal out = read_idx(is_there(path) ? path : path + ".gz");
    const bool fits = out.type().dtype() == DType::kU8 && out.type().ndim() == ndim;
    require(fits, "{}: expected u8 with {} dims, got {}", path, ndim, out.type());
    return out;
  };
  ImageDataset out{.images = read("images-idx3-ubyte", 3), .labels = read("labels-idx1-ubyte", 1), .classes = 0};
  require(out.images.type().dim(0) == out.size(), "{}: {} has {} images but {} labels", folder, part,
          out.images.type().dim(0), out.size());
  const auto labels = out.labels.data<std::uint8_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    require(labels[i] < most_classes, "{}: the label of image {} of {} is {}; it must be one of 0..{}", folder, i, part,
            labels[i], most_classes - 1);
    out.classes = std::max(out.classes, labels[i] + 1);
  }
  return out;
}

}  // namespace tessera::data
