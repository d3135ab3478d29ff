// SPDX-License-Identifier: Apache-2.0
#include "read_together.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "files/read_elements.h"
#include "files/verified_file.h"
#include "on_all_ranks.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/regions.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera {
namespace {

// All ranks together hold about this many bytes of the files at a time; each holds several copies of a part of them.
constexpr std::uint64_t kRoundBytes = std::uint64_t{12} << 20;

struct ReadEstimate {
  std::uint64_t needed = 0;
  std::uint64_t read = 0;  // with the blocks around the runs of needed elements
};

// What rank `device` would read alone.
ReadEstimate estimate_of(const StoredTensor& tensor, const Type& type, const Sharding& sharding, std::int64_t device) {
  const Region wanted = region_of(type, sharding, device);
  const auto size = static_cast<std::uint64_t>(dtype_size(tensor.type.dtype()));
  ReadEstimate out;
  for (const TensorPart& part : tensor.parts) {
    const Region both = intersection(part.region, wanted);
    if (both.element_count() == 0) continue;
    const Runs runs = runs_of(both, buffer_of(part.region));
    const auto count = static_cast<std::uint64_t>(runs.count);
    const std::uint64_t bytes = static_cast<std::uint64_t>(runs.length) * size;
    out.needed += count * bytes;
    out.read +=
        count == 1 ? bytes : std::min(static_cast<std::uint64_t>(runs.extent) * size, count * (bytes + kBlockBytes));
  }
  return out;
}

bool saves_reads(const ReadEstimate& own, ProcessGroup& world) {
  constexpr double kTolerated = 1.01;
  std::vector<ReadEstimate> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  ReadEstimate sum;
  for (const ReadEstimate& one : all) sum.needed += one.needed, sum.read += one.read;
  return static_cast<double>(sum.read) > kTolerated * static_cast<double>(sum.needed);
}

// Consecutive elements of a piece, which one rank reads.
struct Chunk {
  const Piece* piece = nullptr;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Divides the pieces at multiples of `bytes` in the files, so that no block belongs to two chunks, except if an element
// extends over both.
std::vector<Chunk> chunks_of(const std::vector<Piece>& pieces, std::int64_t element_size, std::uint64_t bytes) {
  const auto size = static_cast<std::uint64_t>(element_size);
  std::vector<Chunk> out;
  for (const Piece& piece : pieces) {
    const auto elements = static_cast<std::uint64_t>(piece.region.element_count());
    std::uint64_t first = 0;
    while (first < elements) {
      const std::uint64_t end = ((piece.offset + first * size) / bytes + 1) * bytes - piece.offset;
      const std::uint64_t limit = std::min(elements, (end + size - 1) / size);
      out.push_back({&piece, static_cast<std::int64_t>(first), static_cast<std::int64_t>(limit - first)});
      first = limit;
    }
  }
  return out;
}

// The rows of the first dim with several elements that a chunk contains or touches.
Region rows_of(const Chunk& chunk) {
  Region out = chunk.piece->region;
  std::int64_t stride = out.element_count();
  for (Interval& dim : out.dims) {
    if (dim.size() == 1) continue;
    stride /= dim.size();
    dim = {dim.start + chunk.first / stride, dim.start + ceil_div(chunk.first + chunk.count, stride)};
    break;
  }
  return out;
}

// Calls run(from, to, count) for the runs of elements of the chunk that belong to `wanted`: `from` counts from the start of
// the chunk, `to` is the place in the shard. The sender and the receiver of the elements get the same runs.
template <class Run>
void for_each_run_of(const Chunk& chunk, const Region& wanted, const RegionBuffer& shard, const Run& run) {
  const Region both = intersection(rows_of(chunk), wanted);
  for_each_run(both, buffer_of(chunk.piece->region), shard,
               [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                 const std::int64_t begin = std::max(from, chunk.first);
                 const std::int64_t end = std::min(from + count, chunk.first + chunk.count);
                 if (begin < end) run(begin - chunk.first, to + begin - from, end - begin);
               });
}

// One read of the shards of all ranks.
class Exchange {
 public:
  Exchange(ProcessGroup& world, DType stored, const Type& type, const Sharding& sharding)
      : world_(world), stored_(stored), dtype_(type.dtype()) {
    for (int rank = 0; rank < world.size(); ++rank) {
      wanted_.push_back(region_of(type, sharding, rank));
      shards_.push_back(RegionBuffer::shard(type, sharding, wanted_.back()));
    }
  }

  // The ranks read chunks[0], chunks[1], … Each rank gets the elements of its shard.
  void run(std::span<const Chunk> chunks, std::span<std::byte> shard) {
    const auto own = static_cast<std::size_t>(world_.rank());
    on_all_ranks("", [&] { pack(own < chunks.size() ? &chunks[own] : nullptr); });
    const std::size_t width = largest_part();
    if (width == 0) return;
    std::vector<std::byte> sent(parts_.size() * width);
    for (std::size_t i = 0; i < parts_.size(); ++i)
      std::copy(parts_[i].begin(), parts_[i].end(), sent.begin() + static_cast<std::ptrdiff_t>(i * width));
    std::vector<std::byte> received(sent.size());
    world_.all_to_all(sent, received);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      unpack(chunks[i], std::span(received).subspan(i * width, width), shard);
  }

 private:
  [[nodiscard]] std::size_t element_size() const { return static_cast<std::size_t>(dtype_size(dtype_)); }

  // Reads the chunk, and puts the elements of each rank one after the other.
  void pack(const Chunk* chunk) {
    parts_.assign(wanted_.size(), {});
    if (chunk == nullptr) return;
    const std::size_t size = element_size();
    std::vector<std::byte> read(static_cast<std::size_t>(chunk->count) * size);
    read_elements(*chunk->piece->file, chunk->piece->offset, chunk->first, stored_, dtype_, read);
    for (std::size_t rank = 0; rank < wanted_.size(); ++rank)
      for_each_run_of(*chunk, wanted_[rank], shards_[rank], [&](std::int64_t from, std::int64_t, std::int64_t count) {
        const auto begin = read.begin() + from * static_cast<std::ptrdiff_t>(size);
        parts_[rank].insert(parts_[rank].end(), begin, begin + count * static_cast<std::ptrdiff_t>(size));
      });
  }

  [[nodiscard]] std::size_t largest_part() const {
    std::uint64_t own = 0;
    for (const auto& part : parts_) own = std::max<std::uint64_t>(own, part.size());
    std::vector<std::uint64_t> all(parts_.size());
    world_.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
    return *std::max_element(all.begin(), all.end());
  }

  void unpack(const Chunk& chunk, std::span<const std::byte> part, std::span<std::byte> shard) const {
    const auto own = static_cast<std::size_t>(world_.rank());
    for_each_run_of(chunk, wanted_[own], shards_[own], [&](std::int64_t, std::int64_t to, std::int64_t count) {
      const std::size_t bytes = static_cast<std::size_t>(count) * element_size();
      std::memcpy(shard.data() + static_cast<std::size_t>(to) * element_size(), part.data(), bytes);
      part = part.subspan(bytes);
    });
  }

  ProcessGroup& world_;
  DType stored_;
  DType dtype_;
  std::vector<Region> wanted_;  // by rank
  std::vector<RegionBuffer> shards_;
  std::vector<std::vector<std::byte>> parts_;  // for each rank, of the chunk of this rank
};

void read_together(const std::vector<Piece>& pieces, DType stored, const Type& type, const Sharding& sharding,
                   std::span<std::byte> shard) {
  const auto world = joined_world();
  const auto ranks = static_cast<std::size_t>(world->size());
  const std::uint64_t blocks = std::max<std::uint64_t>(1, kRoundBytes / kBlockBytes / ranks);
  const std::vector<Chunk> chunks = chunks_of(pieces, dtype_size(stored), blocks * kBlockBytes);
  Exchange exchange(*world, stored, type, sharding);
  for (std::size_t i = 0; i < chunks.size(); i += ranks)
    exchange.run(std::span(chunks).subspan(i, std::min(ranks, chunks.size() - i)), shard);
}

}  // namespace

ShardReader independent_reader(std::shared_ptr<PieceFiles> files, std::string name, DType stored) {
  return [files = std::move(files), name = std::move(name), stored](const Type& type, const Sharding& sharding,
                                                                    std::int64_t device, std::span<std::byte> shard) {
    const Region wanted = region_of(type, sharding, device);
    const RegionBuffer to = RegionBuffer::shard(type, sharding, wanted);
    const auto size = static_cast<std::int64_t>(dtype_size(type.dtype()));
    for (const Piece& piece : files->pieces_of(name, wanted))
      for_each_run(intersection(wanted, piece.region), buffer_of(piece.region), to,
                   [&](std::int64_t from, std::int64_t into, std::int64_t count) {
                     read_elements(
                         *piece.file, piece.offset, from, stored, type.dtype(),
                         shard.subspan(static_cast<std::size_t>(into * size), static_cast<std::size_t>(count * size)));
                   });
  };
}

ShardReader collective_reader(std::shared_ptr<PieceFiles> files, std::shared_ptr<const CheckpointManifest> manifest,
                              std::string name) {
  return [files = std::move(files), manifest = std::move(manifest), name = std::move(name)](
             const Type& type, const Sharding& sharding, std::int64_t device, std::span<std::byte> shard) {
    const auto world = joined_world();
    const StoredTensor& tensor = manifest->tensors.at(name);
    const DType stored = tensor.type.dtype();
    const bool is_of_world = sharding.mesh.device_count() == world->size();
    if (is_of_world && saves_reads(estimate_of(tensor, type, sharding, device), *world)) {
      std::vector<Piece> pieces;
      on_all_ranks("", [&] { pieces = files->pieces_of(name); });
      return read_together(pieces, stored, type, sharding, shard);
    }
    on_all_ranks("", [&] { independent_reader(files, name, stored)(type, sharding, device, shard); });
  };
}

}  // namespace tessera
