// SPDX-License-Identifier: Apache-2.0
#include "tessera/runtime/executable/safetensors.h"

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"

namespace tessera {
namespace {

namespace json = boost::json;

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"BOOL", DType::kPred},        {"I8", DType::kS8},   {"I16", DType::kS16},          {"I32", DType::kS32},
    {"I64", DType::kS64},          {"U8", DType::kU8},   {"U16", DType::kU16},          {"U32", DType::kU32},
    {"U64", DType::kU64},          {"F16", DType::kF16}, {"BF16", DType::kBF16},        {"F32", DType::kF32},
    {"F64", DType::kF64},          {"C64", DType::kC64}, {"F8_E4M3", DType::kF8E4M3FN}, {"F8_E5M2", DType::kF8E5M2},
    {"F8_E8M0", DType::kF8E8M0FNU}};

DType type_of(const std::string& word) {
  std::vector<std::string> known;
  for (const auto& [name, type] : kTypes) {
    if (name == word) return type;
    known.emplace_back(name);
  }
  fail("unknown dtype {}{}", word, suggest_name(word, known));
}
std::string_view word_of(DType dtype) {
  for (const auto& [name, type] : kTypes)
    if (type == dtype) return name;
  fail("safetensors files have no {} elements", dtype_name(dtype));
}

struct Entry {
  std::string name;
  Type type;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::uint64_t natural(const json::value& value, std::string_view what) {
  const bool is_natural = value.is_uint64() || (value.is_int64() && value.get_int64() >= 0);
  require(is_natural, "{} must be a number that is not negative", what);
  return value.to_number<std::uint64_t>();
}

Entry read_entry(std::string_view name, const json::value& value, std::uint64_t data_bytes) {
  const json::value* word = find_member(value, "dtype");
  const json::value* shape = find_member(value, "shape");
  const json::value* offsets = find_member(value, "data_offsets");
  require(word != nullptr && shape != nullptr && offsets != nullptr, "needs dtype, shape and data_offsets");
  require(word->is_string() && shape->is_array(), "dtype must be a string, shape a list");
  require(offsets->is_array() && offsets->get_array().size() == 2, "data_offsets must be a pair");
  Entry entry{std::string(name), {}, natural(offsets->at(0), "data_offsets"), natural(offsets->at(1), "data_offsets")};
  const DType dtype = type_of(std::string(word->get_string()));
  require(entry.begin <= entry.end && entry.end <= data_bytes,
          "data_offsets [{}, {}] are outside of the {} bytes of data", entry.begin, entry.end, data_bytes);
  Dims dims;
  auto bytes = static_cast<std::uint64_t>(dtype_size(dtype));
  std::uint64_t extent = bytes;  // counts a size of 0 as 1, because strides must not overflow either
  for (const json::value& size : shape->get_array()) {
    const std::uint64_t n = natural(size, "shape");
    require(n <= std::uint64_t{1} << 62, "shape: {} is too large", n);
    require(!__builtin_mul_overflow(extent, std::max<std::uint64_t>(n, 1), &extent) && extent <= std::uint64_t{1} << 62,
            "shape: too many elements");
    bytes *= n;
    dims.push_back(static_cast<std::int64_t>(n));
  }
  require(bytes == entry.end - entry.begin, "the shape needs {} bytes, but data_offsets give {}", bytes,
          entry.end - entry.begin);
  entry.type = Type::array(dtype, std::move(dims));
  return entry;
}

json::object parse_header(std::span<const std::byte> bytes, std::uint64_t& header_bytes) {
  require(bytes.size() >= 8, "{} bytes are too few for a header", bytes.size());
  std::memcpy(&header_bytes, bytes.data(), 8);
  require(header_bytes <= bytes.size() - 8,
          "this is not a safetensors file: its header would have {} bytes, but {} follow", header_bytes,
          bytes.size() - 8);
  constexpr std::uint64_t kLargestHeader = 100'000'000;
  require(header_bytes <= kLargestHeader, "a header of {} bytes is too large", header_bytes);
  const char* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  json::value header = parse_json({text, header_bytes}, "header");
  require(header.is_object(), "the header is not a JSON object");
  return std::move(header.get_object());
}

void read_metadata(const json::value& value, SafetensorsFile& file) {
  require(value.is_object(), "__metadata__ must be an object of strings");
  for (const auto& text : value.get_object()) {
    require(text.value().is_string(), "__metadata__: {} must be a string", std::string_view(text.key()));
    file.metadata[text.key()] = text.value().get_string();
  }
}

SafetensorsFile parse(std::span<const std::byte> bytes) {
  std::uint64_t header_bytes = 0;
  const json::object header = parse_header(bytes, header_bytes);
  const std::span<const std::byte> data = bytes.subspan(8 + header_bytes);
  SafetensorsFile file;
  std::vector<Entry> entries;
  for (const auto& member : header) {
    const std::string_view name = member.key();
    const json::value& value = member.value();
    if (name == "__metadata__") {
      read_metadata(value, file);
      continue;
    }
    try {
      entries.push_back(read_entry(name, value, data.size()));
    } catch (Error& error) {
      throw error.prefix(fmt::format("tensor {}: ", name));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    require(entry.begin == end, "tensor {} starts at {}, but the previous one ends at {}", entry.name, entry.begin,
            end);
    end = entry.end;
    Literal value(entry.type);
    if (entry.end > entry.begin)
      std::memcpy(value.mutable_bytes().data(), data.data() + entry.begin, entry.end - entry.begin);
    if (entry.type.dtype() == DType::kPred)  // bytes other than 0 and 1 are not valid bools
      for (std::byte& byte : value.mutable_bytes()) byte = byte != std::byte{0} ? std::byte{1} : std::byte{0};
    file.tensors.emplace_back(entry.name, std::move(value));
  }
  require(end == data.size(), "{} bytes of data belong to no tensor", data.size() - end);
  return file;
}

}  // namespace

const Literal* SafetensorsFile::find(const std::string& name) const {
  for (const auto& [key, value] : tensors)
    if (key == name) return &value;
  return nullptr;
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  try {
    return parse(bytes);
  } catch (Error& error) {
    throw error.prefix(name + ": ");
  }
}

SafetensorsFile read_safetensors(const std::string& path) {
  if (!std::filesystem::is_regular_file(path) || std::filesystem::file_size(path) == 0) {  // cannot be mapped
    const std::string bytes = read_file(path);
    return parse_safetensors(std::as_bytes(std::span(bytes)), path);
  }
  namespace ipc = boost::interprocess;
  try {
    const ipc::file_mapping file(path.c_str(), ipc::read_only);
    const ipc::mapped_region region(file, ipc::read_only);
    return parse_safetensors({static_cast<const std::byte*>(region.get_address()), region.get_size()}, path);
  } catch (const ipc::interprocess_exception& error) {
    fail("cannot read {}: {}", path, error.what());
  }
}

std::vector<std::byte> print_safetensors(const SafetensorsFile& file) {
  json::object header;
  if (!file.metadata.empty()) {
    json::object& metadata = header["__metadata__"].emplace_object();
    for (const auto& [key, text] : file.metadata) metadata[key] = text;
  }
  std::uint64_t offset = 0;
  for (const auto& [name, value] : file.tensors) {
    require(value.type().is_array(), "safetensors: {} is {}, but only arrays can be written", name, value.type());
    require(!header.contains(name), "safetensors: two tensors are named {}", name);
    const std::uint64_t size = value.bytes().size();
    const Dims& dims = value.type().dims();
    header[name] = {{"dtype", word_of(value.type().dtype())},
                    {"shape", json::array(dims.begin(), dims.end())},
                    {"data_offsets", json::array{offset, offset + size}}};
    offset += size;
  }
  std::string text = json::serialize(header);
  while (text.size() % 8 != 0) text += ' ';
  const std::uint64_t header_bytes = text.size();
  std::vector<std::byte> out(8 + text.size() + offset);
  std::memcpy(out.data(), &header_bytes, 8);
  std::memcpy(out.data() + 8, text.data(), text.size());
  std::byte* to = out.data() + 8 + text.size();
  for (const auto& [name, value] : file.tensors) {
    if (!value.bytes().empty()) std::memcpy(to, value.bytes().data(), value.bytes().size());
    to += value.bytes().size();
  }
  return out;
}

void write_safetensors(const std::string& path, const SafetensorsFile& file) {
  const std::vector<std::byte> bytes = print_safetensors(file);
  write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace tessera
